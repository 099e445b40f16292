{{/* The labels and annotations of every definition. */}}
{{- define "dovetail-crds.metadata" -}}
labels:
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  {{- with .Values.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := ternary (dict "helm.sh/resource-policy" "keep") dict .Values.keep }}
{{- with merge dict (default dict .Values.additionalAnnotations) $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
