"""Workloads, disruption budgets, leases, events, storage and the rest."""

from typing import Any

from contract.fields.documents import (
    LABELS,
    attachment,
    budget,
    container,
    csi_node,
    job,
    lease,
    namespace,
    priority_class,
    storage_class,
    template,
    volume,
    volume_claim,
    workload,
)
from contract.fields.table import New, case_of

OTHER = {"matchLabels": {"app": "other"}}
MICRO = "2026-01-01T00:00:00.000000Z"


def event(namespace_of: str | None = None, **parts: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "a", **({"namespace": namespace_of} if namespace_of is not None else {})}
    whole = {"involvedObject": about, "reason": "Why", "message": "m", "type": "Normal", **parts}
    body = {name: value for name, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {}, **body}


WORKLOADS = (
    New("a Deployment", workload("Deployment"), ""),
    New("a ReplicaSet", workload("ReplicaSet"), ""),
    New("a DaemonSet", workload("DaemonSet"), ""),
    New("a StatefulSet", workload("StatefulSet"), ""),
    New(
        "a Deployment without a selector",
        workload("Deployment", selector=None),
        "Invalid spec.selector spec.template.metadata.labels",
    ),
    New(
        "a ReplicaSet without a selector",
        workload("ReplicaSet", selector=None),
        "Invalid spec.selector spec.template.metadata.labels",
    ),
    New(
        "a DaemonSet without a selector", workload("DaemonSet", selector=None), "Invalid spec.template.metadata.labels"
    ),
    New("a Deployment with an empty selector", workload("Deployment", selector={}), "Invalid spec.selector"),
    New(
        "a Deployment that selects others",
        workload("Deployment", selector=OTHER),
        "Invalid spec.template.metadata.labels",
    ),
    New(
        "a ReplicaSet that selects others",
        workload("ReplicaSet", selector=OTHER),
        "Invalid spec.template.metadata.labels",
    ),
    New(
        "a DaemonSet that selects others",
        workload("DaemonSet", selector=OTHER),
        "Invalid spec.template.metadata.labels",
    ),
    New(
        "a Deployment with a bad selector",
        workload("Deployment", selector={"matchLabels": {"a": "b c"}}),
        "Invalid spec.selector spec.selector.matchLabels",
    ),
    New("a Deployment with negative replicas", workload("Deployment", replicas=-1), "Invalid spec.replicas"),
    New("a ReplicaSet with negative replicas", workload("ReplicaSet", replicas=-1), "Invalid spec.replicas"),
    New(
        "a Deployment without a template",
        workload("Deployment", template=None),
        "Invalid spec.template.metadata.labels spec.template.spec.containers",
    ),
    New(
        "a Deployment without containers",
        workload("Deployment", template=template(containers=[])),
        "Invalid spec.template.spec.containers",
    ),
    New(
        "a ReplicaSet without containers",
        workload("ReplicaSet", template=template(containers=[])),
        "Invalid spec.template.spec.containers",
    ),
    New(
        "a DaemonSet without containers",
        workload("DaemonSet", template=template(containers=[])),
        "Invalid spec.template.spec.containers",
    ),
    New(
        "a Deployment that never restarts",
        workload("Deployment", template=template(restartPolicy="Never")),
        "Invalid spec.template.spec.restartPolicy",
    ),
    New(
        "a DaemonSet that never restarts",
        workload("DaemonSet", template=template(restartPolicy="Never")),
        "Invalid spec.template.spec.restartPolicy",
    ),
    New(
        "a template with bad labels",
        workload("Deployment", template=template({"labels": {**LABELS, "a": "b c"}})),
        "Invalid spec.template.labels",
    ),
    New(
        "a template with a bad toleration",
        workload("Deployment", template=template(tolerations=[{"key": "a b"}])),
        "Invalid spec.template.spec.tolerations[0].key",
    ),
    New(
        "a template above its limit",
        workload(
            "DaemonSet",
            template=template(containers=[container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]),
        ),
        "Invalid spec.template.spec.containers[0].resources.requests",
    ),
    New(
        "a template with an absent priority class",
        workload("Deployment", template=template(priorityClassName="absent")),
        "",
    ),
    New("an odd strategy", workload("Deployment", strategy={"type": "Maybe"}), "Invalid spec.strategy"),
    New(
        "a Deployment with a deadline of its pods",
        workload("Deployment", template=template(activeDeadlineSeconds=5)),
        "Invalid spec.template.spec.activeDeadlineSeconds",
    ),
    New("a Job", job(), ""),
    New(
        "a Job that always restarts",
        job(template=template({}, restartPolicy="Always")),
        "Invalid spec.template.spec.restartPolicy",
    ),
    New("a Job without a restart policy", job(template=template({})), "Invalid spec.template.spec.restartPolicy"),
    New("a Job with negative completions", job(completions=-1), "Invalid spec.completions"),
    New("a Job with negative parallelism", job(parallelism=-1), "Invalid spec.parallelism"),
    New(
        "a Job without containers",
        job(template=template({}, restartPolicy="Never", containers=[])),
        "Invalid spec.template.spec.containers",
    ),
    New("a Job with a selector", job(selector=OTHER), "Invalid spec.selector spec.template.metadata.labels"),
)
BUDGETS = (
    New("a budget", budget(minAvailable=1), ""),
    New("a budget of nothing", budget(), ""),
    New("a budget of both", budget(minAvailable=1, maxUnavailable=1), "Invalid spec"),
    New("a percentage", budget(maxUnavailable="50%"), ""),
    New("more than all", budget(maxUnavailable="150%"), "Invalid spec.maxUnavailable"),
    New("a negative number", budget(minAvailable=-1), "Invalid spec.minAvailable"),
    New("a negative percentage", budget(minAvailable="-1%"), "Invalid spec.minAvailable"),
    New("a number as text", budget(minAvailable="1"), "Invalid spec.minAvailable"),
    New("a word", budget(minAvailable="some"), "Invalid spec.minAvailable"),
    New("a budget without a selector", budget(minAvailable=1, selector=None), ""),
    New("an empty selector", budget(minAvailable=1, selector={}), ""),
    New(
        "a bad label in a selector",
        budget(minAvailable=1, selector={"matchLabels": {"a": "b c"}}),
        "Invalid spec.selector.matchLabels",
    ),
    New(
        "a bad key in a selector",
        budget(minAvailable=1, selector={"matchLabels": {"a b": "c"}}),
        "Invalid spec.selector.matchLabels",
    ),
    New(
        "an odd operator",
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
        "Invalid spec.selector.matchExpressions[0].operator",
    ),
    New(
        "In without values",
        budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "Invalid spec.selector.matchExpressions[0].values",
    ),
    New(
        "In with a bad value",
        budget(selector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}),
        "Invalid spec.selector.matchExpressions[0].values[0]",
    ),
    New(
        "Exists with values",
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        "Invalid spec.selector.matchExpressions[0].values",
    ),
    New(
        "an expression without a key",
        budget(selector={"matchExpressions": [{"operator": "Exists"}]}),
        "Invalid spec.selector.matchExpressions[0].key",
    ),
    New(
        "an expression without an operator",
        budget(selector={"matchExpressions": [{"key": "a"}]}),
        "Invalid spec.selector.matchExpressions[0].operator",
    ),
    New("a policy for unhealthy pods", budget(unhealthyPodEvictionPolicy="AlwaysAllow"), ""),
    New(
        "an odd policy for unhealthy pods",
        budget(unhealthyPodEvictionPolicy="Maybe"),
        "Invalid spec.unhealthyPodEvictionPolicy",
    ),
)
LEASES = (
    New("a lease", lease(holderIdentity="me", leaseDurationSeconds=15, renewTime=MICRO, acquireTime=MICRO), ""),
    New("an empty lease", lease(), ""),
    New("a lease of 0 seconds", lease(leaseDurationSeconds=0), "Invalid spec.leaseDurationSeconds"),
    New("a lease of negative seconds", lease(leaseDurationSeconds=-1), "Invalid spec.leaseDurationSeconds"),
    New("negative transitions", lease(leaseTransitions=-1), "Invalid spec.leaseTransitions"),
    New("an empty holder", lease(holderIdentity=""), ""),
    New("a time without fractions", lease(renewTime="2026-01-01T00:00:00Z"), "Invalid"),
    New("a time that is none", lease(renewTime="yesterday"), "Invalid"),
    New("a fraction of a second", lease(leaseDurationSeconds=1.5), "Invalid"),
    New("an odd strategy of a lease", lease(strategy="Maybe"), ""),
)
EVENTS = (
    New("an event in the namespace of its object", event(), ""),
    New("an event in another namespace", event("elsewhere"), "Invalid involvedObject.namespace"),
    New("an event about a node", {**event(""), "metadata": {"namespace": "default"}}, ""),
    New("an event about a node in any namespace", event(""), "Invalid involvedObject.namespace"),
    New("an event without a reason", event(reason=None), ""),
    New("an event without a type", event(type=None), ""),
    New("an event of an odd type", event(type="Maybe"), ""),
    New("an event with a long message", event(message="a" * 2000), ""),
    New("an event with a long reason", event(reason="A" * 200), ""),
    New("an event with a negative count", event(count=-1), ""),
    New("an event about nothing", event(involvedObject={}), ""),
    New("a new event without an action", event(eventTime=MICRO), "Invalid action reportingComponent reportingInstance"),
)
STORAGE = (
    New("a volume", volume(), ""),
    New("a volume without a size", volume(capacity=None), "Invalid spec.capacity"),
    New("a volume of no size", volume(capacity={"storage": "0"}), "Invalid spec.capacity[storage]"),
    New("a volume with another resource", volume(capacity={"cpu": "1"}), "Invalid spec.capacity"),
    New("a volume without access modes", volume(accessModes=None), "Invalid spec.accessModes"),
    New("a volume with an odd access mode", volume(accessModes=["Maybe"]), "Invalid spec.accessModes"),
    New("a volume without a source", volume(csi=None), "Invalid spec"),
    New("a volume with two sources", volume(hostPath={"path": "/a"}), "Invalid spec.csi"),
    New("a volume without a handle", volume(csi={"driver": "ebs.csi.aws.com"}), "Invalid spec.csi.volumeHandle"),
    New("a volume without a driver", volume(csi={"volumeHandle": "a"}), "Invalid spec.csi.driver"),
    New(
        "a volume on nodes without terms",
        volume(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        "Invalid spec.nodeAffinity.required.nodeSelectorTerms",
    ),
    New("a volume on nodes without required", volume(nodeAffinity={}), "Invalid spec.nodeAffinity.required"),
    New(
        "a volume on nodes by an odd operator",
        volume(
            nodeAffinity={
                "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Maybe"}]}]}
            }
        ),
        "Invalid spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
    ),
    New(
        "an odd reclaim policy",
        volume(persistentVolumeReclaimPolicy="Maybe"),
        "Invalid spec.persistentVolumeReclaimPolicy",
    ),
    New("a claim", volume_claim(), ""),
    New("a claim without a size", volume_claim(resources=None), "Invalid spec.resources[storage]"),
    New(
        "a claim of no size", volume_claim(resources={"requests": {"storage": "0"}}), "Invalid spec.resources[storage]"
    ),
    New("a claim without access modes", volume_claim(accessModes=None), "Invalid spec.accessModes"),
    New("a claim with an odd access mode", volume_claim(accessModes=["Maybe"]), "Invalid spec.accessModes"),
    New("a claim with a bad class", volume_claim(storageClassName="A b"), "Invalid spec.storageClassName"),
    New(
        "a claim with a bad selector",
        volume_claim(selector={"matchLabels": {"a": "b c"}}),
        "Invalid spec.selector.matchLabels",
    ),
    New("a storage class", storage_class(), ""),
    New("a storage class without a provisioner", storage_class(provisioner=None), "Invalid provisioner"),
    New("a storage class with a bad provisioner", storage_class(provisioner="a b"), "Invalid provisioner"),
    New("a storage class with an odd binding", storage_class(volumeBindingMode="Maybe"), "Invalid volumeBindingMode"),
    New("a storage class with an odd reclaim policy", storage_class(reclaimPolicy="Maybe"), "Invalid reclaimPolicy"),
    New("a storage class that waits", storage_class(volumeBindingMode="WaitForFirstConsumer"), ""),
    New(
        "a storage class for a zone",
        storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]),
        "",
    ),
    New(
        "a storage class for no zone",
        storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": []}]}]),
        "Invalid allowedTopologies[0].matchLabelExpressions[0].values",
    ),
    New("an attachment", attachment(), ""),
    New("an attachment without an attacher", attachment(attacher=None), "Invalid spec.attacher"),
    New("an attachment without a node", attachment(nodeName=None), "Invalid spec.nodeName"),
    New("an attachment without a source", attachment(source={}), "Invalid spec.source"),
    New("a CSINode", csi_node({"name": "a.b", "nodeID": "i"}), ""),
    New("a CSINode without an id", csi_node({"name": "a.b"}), "Invalid spec.drivers[0].nodeID"),
    New(
        "a CSINode with one driver twice",
        csi_node({"name": "a.b", "nodeID": "i"}, {"name": "a.b", "nodeID": "j"}),
        "Invalid spec.drivers[1].name",
    ),
    New(
        "a CSINode with a negative limit",
        csi_node({"name": "a.b", "nodeID": "i", "allocatable": {"count": -1}}),
        "Invalid spec.drivers[0].allocatable.count",
    ),
)
OTHERS = (
    New("a priority class", priority_class(), ""),
    New("a priority class without a value", priority_class(value=None), ""),
    New("a priority above one billion", priority_class(value=1_000_000_001), "Invalid value"),
    New("a negative priority", priority_class(value=-5), ""),
    New("an odd preemption policy", priority_class(preemptionPolicy="Maybe"), "Invalid preemptionPolicy"),
    New("a value that is text", priority_class(value="7"), "Invalid"),
    New("a namespace", namespace(), ""),
    New("a namespace with a finalizer", {**namespace(), "spec": {"finalizers": ["hold"]}}, "Invalid spec.finalizers"),
)
CASES = (
    case_of("workloads_are_checked", WORKLOADS),
    case_of("disruption_budgets_are_checked", BUDGETS),
    case_of("leases_are_checked", LEASES),
    case_of("events_are_checked", EVENTS),
    case_of("storage_is_checked", STORAGE),
    case_of("priority_classes_and_namespaces_are_checked", OTHERS),
)
