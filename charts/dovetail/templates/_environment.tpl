{{/* The environment variable of each setting, by its key in `settings`. A test compares them with `dovetail run`. */}}
{{- define "dovetail.variables" -}}
disruption: DOVETAIL_DISRUPTION
dryRun: DOVETAIL_DRY_RUN
provider: DOVETAIL_PROVIDER
clusterName: CLUSTER_NAME
clusterEndpoint: CLUSTER_ENDPOINT
clusterCABundle: CLUSTER_CA_BUNDLE
interruptionQueue: INTERRUPTION_QUEUE
batchMaxDuration: BATCH_MAX_DURATION
batchIdleDuration: BATCH_IDLE_DURATION
preferencePolicy: PREFERENCE_POLICY
minValuesPolicy: MIN_VALUES_POLICY
schedulerConfig: SCHEDULER_CONFIG
isolatedVPC: ISOLATED_VPC
enableZonalShift: ENABLE_ZONAL_SHIFT
disableClusterStateObservability: DISABLE_CLUSTER_STATE_OBSERVABILITY
disableDryRun: DISABLE_DRY_RUN
vmMemoryOverheadPercent: VM_MEMORY_OVERHEAD_PERCENT
reservedENIs: RESERVED_ENIS
ignoreDRARequests: IGNORE_DRA_REQUESTS
amiRefreshInterval: AMI_REFRESH_INTERVAL
subnetRefreshInterval: SUBNET_REFRESH_INTERVAL
leaderElectionName: LEADER_ELECTION_NAME
leaderElectionNamespace: LEADER_ELECTION_NAMESPACE
kubeClientQPS: KUBE_CLIENT_QPS
kubeClientBurst: KUBE_CLIENT_BURST
watchStaleAfter: DOVETAIL_WATCH_STALE_AFTER
garbageCollectionInterval: DOVETAIL_GARBAGE_COLLECTION_INTERVAL
nominatePods: DOVETAIL_NOMINATE_PODS
nodeSizing: DOVETAIL_NODE_SIZING
manualDeletion: DOVETAIL_MANUAL_DELETION
repairWithoutBlock: DOVETAIL_REPAIR_WITHOUT_BLOCK
rebalanceRecommendation: DOVETAIL_REBALANCE_RECOMMENDATION
catalog: DOVETAIL_CATALOG
instanceTypesFilePath: INSTANCE_TYPES_FILE_PATH
nodeMetrics: DOVETAIL_NODE_METRICS
instanceTypeMetrics: DOVETAIL_INSTANCE_TYPE_METRICS
ledgerKeep: DOVETAIL_LEDGER_KEEP
ledgerMaxMegabytes: DOVETAIL_LEDGER_MAX_MEGABYTES
logFormat: DOVETAIL_LOG_FORMAT
otlpEndpoint: OTEL_EXPORTER_OTLP_ENDPOINT
{{- end }}

{{/* A list of feature gates, `Name=true,...`, from a map whose keys start with a small letter. */}}
{{- define "dovetail.gates" -}}
{{- $gates := list }}
{{- range $name, $on := . }}
{{- if not (kindIs "invalid" $on) }}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) }}
{{- end }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{/* The environment as a YAML list. A variable of `controller.env` replaces that of the chart. */}}
{{- define "dovetail.environment" -}}
{{- $root := . }}
{{- $chart := dict
  "LOG_LEVEL" .Values.logLevel
  "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths)
  "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths)
  "METRICS_PORT" .Values.controller.metrics.port
  "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port
  "DOVETAIL_DASHBOARD_PORT" .Values.dashboard.port
  "DOVETAIL_LEDGER" "/var/lib/dovetail/ledger.db"
  "FEATURE_GATES" (include "dovetail.gates" .Values.settings.featureGates)
  "AWS_FEATURE_GATES" (include "dovetail.gates" .Values.settings.awsFeatureGates)
}}
{{- if .Values.dashboard.service.enabled }}
{{- $_ := set $chart "DOVETAIL_DASHBOARD_AUTH" "tokenreview" }}
{{- $_ := set $chart "DOVETAIL_DASHBOARD_ADDRESS" "0.0.0.0" }}
{{- end }}
{{- range $key, $variable := include "dovetail.variables" . | fromYaml }}
{{- $value := get $root.Values.settings $key }}
{{- if has $key (list "disruption" "repairWithoutBlock" "nodeMetrics" "instanceTypeMetrics") }}
{{- $value = include "dovetail.word" $value }}
{{- end }}
{{- $_ := set $chart $variable $value }}
{{- end }}
{{- $own := dict }}
{{- range .Values.controller.env }}
{{- $_ := set $own .name true }}
{{- end }}
{{- range $variable, $value := $chart }}
{{- $text := "" }}
{{- if kindIs "string" $value }}
{{- $text = tpl $value $root }}
{{- else if not (kindIs "invalid" $value) }}
{{- $text = toJson $value }}
{{- end }}
{{- if and (ne $text "") (not (hasKey $own $variable)) }}
- name: {{ $variable }}
  value: {{ $text | quote }}
{{- end }}
{{- end }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
