"""The manifests of the designs this project grew from, in our words, completed with the parts they leave out."""

from manifest.corpus import TOGETHER, Case, disrupted, pool

EXAMPLES = [
    Case(
        "budgets of the v1beta1 page",
        disrupted(
            "v1beta1",
            consolidationPolicy="WhenUnderutilized",
            expireAfter="720h",
            budgets=[{"nodes": "20%"}, {"nodes": "5"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}],
        ),
    ),
    Case(
        "defaults of the v1beta1 page",
        disrupted("v1beta1", consolidationPolicy="WhenUnderutilized", expireAfter="720h"),
    ),
    Case(
        "do not disrupt a whole pool",
        pool("v1beta1", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
    ),
    Case(
        "budget by action, with a schedule but no duration",
        disrupted("v1beta1", budgets=[{"schedule": "0 0 1 * *", "action": "Drift", "nodes": "15"}, {"nodes": "10"}]),
        TOGETHER,
    ),
    Case(
        "budget by action, with its duration",
        disrupted(
            "v1beta1",
            budgets=[{"schedule": "0 0 1 * *", "duration": "8h", "action": "Drift", "nodes": 15}, {"nodes": 10}],
        ),
        server_refuses=True,
    ),
    Case(
        "budget by action, with its duration, in quotes",
        disrupted(
            "v1beta1",
            budgets=[{"schedule": "0 0 1 * *", "duration": "8h", "action": "Drift", "nodes": "15"}, {"nodes": "10"}],
        ),
    ),
    Case(
        "controls by action",
        disrupted(
            "v1beta1",
            consolidationPolicy="WhenUnderutilized",
            genericPerActionControls={
                "Consolidation": {
                    "disruptAfter": "30m",
                    "budgets": [{"nodes": "20%", "schedule": "0 0 1 * *", "duration": "1h"}],
                },
                "Drift": {
                    "disruptAfter": "1h",
                    "budgets": [{"nodes": "10%", "schedule": "0 0 * * 0", "duration": "2h"}],
                },
                "Expiration": {"disruptAfter": "Never"},
            },
        ),
    ),
    Case(
        "node repair",
        pool(
            "v1beta1",
            repair={
                "defaultTolerationDuration": "30m",
                "policies": [
                    {"conditionType": "Ready", "toleration": "45m"},
                    {"conditionType": "NetworkUnavailable", "toleration": "10m"},
                ],
            },
        ),
    ),
    Case(
        "consolidation grace period",
        disrupted(
            consolidationPolicy="WhenEmptyOrUnderutilized", consolidateAfter="30s", consolidationGracePeriod="30m"
        ),
    ),
    Case(
        "termination grace period, written for v1beta1 without consolidateAfter",
        pool("v1beta1", disruption={"consolidationPolicy": "WhenEmpty"}, template={"terminationGracePeriod": "72h"}),
        "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
    ),
    Case(
        "termination grace period",
        pool(disruption={"consolidationPolicy": "WhenEmpty"}, template={"terminationGracePeriod": "72h"}),
    ),
]

_PODS = {"30m": "quick-task", "4h": "long-running-job", "24h": "ml-training", "true": "critical-service"}
PODS = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"karpenter.sh/do-not-disrupt": value}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    }
    for value, name in _PODS.items()
]
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "data-processing-job"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "2h"}},
            "spec": {
                "containers": [{"name": "processor", "image": "example.com/processor:1"}],
                "restartPolicy": "Never",
            },
        }
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "kept", "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
}
