{{/* Spread constraints as a YAML list; those without a labelSelector get that of the pods. */}}
{{- define "dovetail.spread" -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml)) }}
{{- $constraints := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $constraints = append $constraints (merge dict . $selector) }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{/* The affinity as YAML; terms for pods that have no labelSelector get that of the pods. */}}
{{- define "dovetail.affinity" -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml)) }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- with get $affinity $kind }}
{{- $terms := dict }}
{{- range $rule, $written := . }}
{{- $completed := list }}
{{- range $written }}
{{- if hasKey . "podAffinityTerm" }}
{{- $completed = append $completed (merge (dict "podAffinityTerm" (merge dict .podAffinityTerm $selector)) .) }}
{{- else }}
{{- $completed = append $completed (merge dict . $selector) }}
{{- end }}
{{- end }}
{{- $_ := set $terms $rule $completed }}
{{- end }}
{{- $_ := set $affinity $kind $terms }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}
