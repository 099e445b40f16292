"""The values of Karpenter's AWS chart 1.14.1 with their defaults, except its image, as a user would keep them."""

KARPENTER_VALUES = {
    "nameOverride": "",
    "fullnameOverride": "",
    "additionalLabels": {},
    "additionalAnnotations": {},
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [],
    "service": {"annotations": {}},
    "serviceAccount": {"create": True, "name": "", "annotations": {}},
    "additionalClusterRoleRules": [],
    "serviceMonitor": {
        "enabled": False,
        "additionalLabels": {},
        "relabelings": [],
        "metricRelabelings": [],
        "endpointConfig": {},
        "sampleLimit": None,
    },
    "replicas": 2,
    "revisionHistoryLimit": 10,
    "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
    "podLabels": {},
    "podAnnotations": {},
    "podDisruptionBudget": {"name": "karpenter", "maxUnavailable": 1},
    "podSecurityContext": {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    "priorityClassName": "system-cluster-critical",
    "terminationGracePeriodSeconds": None,
    "hostNetwork": False,
    "schedulerName": "default-scheduler",
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {},
    "initContainers": {},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
    "extraVolumes": [],
    "controller": {
        "containerName": "controller",
        "env": [],
        "envFrom": [],
        "resources": {},
        "securityContext": {"appArmorProfile": {}, "seLinuxOptions": {}, "seccompProfile": {}},
        "extraVolumeMounts": [],
        "sidecarContainer": [],
        "sidecarVolumeMounts": [],
        "metrics": {"port": 8080},
        "healthProbe": {"port": 8081},
    },
    "logLevel": "info",
    "logOutputPaths": ["stdout"],
    "logErrorOutputPaths": ["stderr"],
    "settings": {
        "batchMaxDuration": "10s",
        "batchIdleDuration": "1s",
        "preferencePolicy": "Respect",
        "minValuesPolicy": "Strict",
        "clusterName": "demo",
        "clusterCABundle": "",
        "clusterEndpoint": "",
        "interruptionQueue": "demo",
        "isolatedVPC": False,
        "eksControlPlane": False,
        "enableZonalShift": False,
        "disableClusterStateObservability": False,
        "disableDryRun": False,
        "vmMemoryOverheadPercent": 0.075,
        "reservedENIs": "0",
        "ignoreDRARequests": True,
        "amiRefreshInterval": "1m",
        "subnetRefreshInterval": "1m",
        "featureGates": {
            "nodeRepair": False,
            "nodeOverlay": False,
            "reservedCapacity": True,
            "spotToSpotConsolidation": False,
            "staticCapacity": False,
            "capacityBuffer": False,
        },
        "awsFeatureGates": {"nodeClassCEL": False},
    },
}
