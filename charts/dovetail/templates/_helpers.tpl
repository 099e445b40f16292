{{- define "dovetail.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of every object: the release's name, and the chart's unless the release's contains it. */}}
{{- define "dovetail.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "dovetail.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "dovetail.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "dovetail.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "dovetail.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required, because serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The namespace of the Lease, and of the ConfigMap that pauses disruption. */}}
{{- define "dovetail.leaseNamespace" -}}
{{- default .Release.Namespace (tpl .Values.settings.leaderElectionNamespace .) }}
{{- end }}

{{/* These two never change: the selector of a Deployment is immutable. */}}
{{- define "dovetail.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dovetail.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dovetail.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dovetail.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels and annotations for the metadata of an object. */}}
{{- define "dovetail.metadata" -}}
labels:
  {{- include "dovetail.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dovetail.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "dovetail.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "dovetail.image" -}}
{{- $image := .Values.controller.image }}
{{- if hasSuffix "karpenter/controller" $image.repository }}
{{- fail (printf "controller.image.repository is %s, the image of Karpenter; name the image of Dovetail" $image.repository) }}
{{- end }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* "true" if the controller may write. */}}
{{- define "dovetail.acts" -}}
{{- if not .Values.settings.dryRun }}true{{ end }}
{{- end }}

{{/* A setting as text. YAML reads the words on and off as booleans where they have no quotes. */}}
{{- define "dovetail.word" -}}
{{- if kindIs "bool" . }}
{{- ternary "on" "off" . }}
{{- else }}
{{- . }}
{{- end }}
{{- end }}
