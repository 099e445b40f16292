"""Changes: what may change once an object is there."""

from typing import Any

from contract.fields.documents import (
    attachment,
    budget,
    config_map,
    container,
    job,
    lease,
    namespace,
    node,
    pod,
    priority_class,
    storage_class,
    template,
    volume,
    volume_claim,
    workload,
)
from contract.fields.table import Changed, case_of
from dovetail.model.kinds import (
    DAEMON_SET,
    LEASE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, DEPLOYMENT, JOB, REPLICA_SET

GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
UID = "0b4d7a3e-0000-4000-8000-000000000000"


def meta(**parts: Any) -> Patch:
    return Patch({"metadata": parts})


def spec(**parts: Any) -> Patch:
    return Patch({"spec": parts})


def status(**parts: Any) -> Patch:
    return Patch({"status": parts}, subresource="status")


def of_map(title: str, patch: Patch, outcome: str, **before: Any) -> Changed:
    return Changed(title, {**config_map(a="1"), **before}, CONFIG_MAP, patch, outcome)


def of_pod(title: str, patch: Patch, outcome: str, **before: Any) -> Changed:
    return Changed(title, pod(**before), POD, patch, outcome)


def of_node(title: str, patch: Patch, outcome: str, **before: Any) -> Changed:
    return Changed(title, node(**before), NODE, patch, outcome)


def of_budget(title: str, patch: Patch, outcome: str) -> Changed:
    return Changed(title, budget(minAvailable=1), POD_DISRUPTION_BUDGET, patch, outcome)


def of_workload(kind: Kind[Any], title: str, patch: Patch, outcome: str) -> Changed:
    return Changed(title, workload(kind.name, replicas=None if kind is DAEMON_SET else 0), kind, patch, outcome)


METADATA = (
    of_map("another name", meta(name="other"), "Invalid"),
    of_map("another namespace", meta(namespace="other"), "Invalid"),
    of_map("another uid", meta(uid=UID), "Invalid metadata.uid"),
    of_map("a stale version", meta(resourceVersion="1"), "Conflict"),
    of_map("a version that is none", meta(resourceVersion="abc"), "Unavailable"),
    of_map("another creation", meta(creationTimestamp="2020-01-01T00:00:00Z"), ""),
    of_map("no creation", meta(creationTimestamp=None), ""),
    of_map("a deletion", meta(deletionTimestamp="2020-01-01T00:00:00Z"), "Invalid metadata.deletionTimestamp"),
    of_map("a deletion grace", meta(deletionGracePeriodSeconds=5), "Invalid metadata.deletionGracePeriodSeconds"),
    of_map("another generation", meta(generation=9), ""),
    of_map("a bad label", meta(labels={"a": "b c"}), "Invalid metadata.labels"),
    of_map("a bad label key", meta(labels={"a b": "c"}), "Invalid metadata.labels"),
    of_map("a label that is a number", meta(labels={"a": 7}), "Invalid patch"),
    of_map("no labels", meta(labels=None), ""),
    of_map("a bad annotation", meta(annotations={"a b": "c"}), "Invalid metadata.annotations"),
    of_map("too many annotations", meta(annotations={"a": "b" * (256 * 1024)}), "Invalid metadata.annotations"),
    of_map("a bad finalizer", meta(finalizers=["hold"]), "Invalid metadata.finalizers[0]"),
    of_map("a good finalizer", meta(finalizers=["example.com/hold"]), ""),
    of_map(
        "a bad owner",
        meta(ownerReferences=[{"name": "a"}]),
        "Invalid metadata.ownerReferences.apiVersion metadata.ownerReferences.kind metadata.ownerReferences.uid",
    ),
    of_map("another generated name", meta(generateName="web-"), ""),
    of_map("another kind", Patch({"kind": "Secret"}), "Invalid patch"),
    of_map("another version of the API", Patch({"apiVersion": "v2"}), "Invalid patch"),
    of_map("no metadata", Patch({"metadata": None}), "Invalid"),
    of_map("data that is a list", Patch({"data": ["a"]}), "Invalid patch"),
    of_map("what cannot change", Patch({"data": {"a": "2"}}), "Invalid data", immutable=True),
    of_map("changeable again", Patch({"immutable": False}), "Invalid immutable", immutable=True),
    of_map("a label of what cannot change", meta(labels={"a": "b"}), "", immutable=True),
    of_map("a status of what has none", status(a="b"), "NotFound"),
)
PODS = (
    of_pod("another image", spec(containers=[container(image="registry.k8s.io/pause:3.11")]), ""),
    of_pod("the same container", spec(containers=[container()]), ""),
    of_pod("no image", spec(containers=[container(image="")]), "Invalid spec.containers[0].image"),
    of_pod("another name of a container", spec(containers=[container(name="other")]), "Invalid spec"),
    of_pod("one more container", spec(containers=[container(), container(name="side")]), "Invalid spec.containers"),
    of_pod("no containers", spec(containers=[]), "Invalid spec.containers"),
    of_pod("other resources", spec(containers=[container(resources={"requests": {"cpu": "1"}})]), "Invalid spec"),
    of_pod("no tolerations", spec(tolerations=None), ""),
    of_pod("another toleration alone", spec(tolerations=[{"key": "a", "operator": "Exists"}]), ""),
    of_pod(
        "a toleration less",
        spec(tolerations=[]),
        "Invalid spec.tolerations",
        tolerations=[{"key": "a", "operator": "Exists"}],
    ),
    of_pod(
        "a toleration changed",
        spec(tolerations=[{"key": "b", "operator": "Exists"}]),
        "Invalid spec.tolerations",
        tolerations=[{"key": "a", "operator": "Exists"}],
    ),
    of_pod(
        "a toleration more",
        spec(tolerations=[{"key": key, "operator": "Exists"} for key in "ab"]),
        "",
        tolerations=[{"key": "a", "operator": "Exists"}],
    ),
    of_pod(
        "tolerated for longer",
        spec(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}]),
        "",
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    ),
    of_pod("a bad toleration", spec(tolerations=[{"key": "a b"}]), "Invalid spec.tolerations[0].key"),
    of_pod("another node selector", spec(nodeSelector={"a": "b"}), "Invalid spec"),
    of_pod("another grace period", spec(terminationGracePeriodSeconds=5), "Invalid spec"),
    of_pod("a negative grace period", spec(terminationGracePeriodSeconds=-1), "Invalid spec"),
    of_pod("a deadline", spec(activeDeadlineSeconds=5), ""),
    of_pod("an earlier deadline", spec(activeDeadlineSeconds=5), "", activeDeadlineSeconds=10),
    of_pod(
        "a later deadline",
        spec(activeDeadlineSeconds=15),
        "Invalid spec.activeDeadlineSeconds",
        activeDeadlineSeconds=10,
    ),
    of_pod(
        "no deadline any more",
        spec(activeDeadlineSeconds=None),
        "Invalid spec.activeDeadlineSeconds",
        activeDeadlineSeconds=10,
    ),
    of_pod("a node", spec(nodeName="n"), "Invalid spec"),
    of_pod("another node", spec(nodeName="m"), "Invalid spec", nodeName="n"),
    of_pod("another priority", spec(priority=5), "Invalid spec"),
    of_pod("another restart policy", spec(restartPolicy="Never"), "Invalid spec"),
    of_pod("another scheduler", spec(schedulerName="other"), "Invalid spec"),
    of_pod("two things at once", spec(schedulerName="other", nodeName="n"), "Invalid spec"),
    of_pod("a gate", spec(**GATED), "Invalid spec.schedulingGates[0].name"),
    of_pod("no gate any more", spec(schedulingGates=None), "", **GATED),
    of_pod("a node selector while gated", spec(nodeSelector={"a": "b"}), "", **GATED),
    of_pod(
        "another value while gated",
        spec(nodeSelector={"a": "c"}),
        "Invalid spec.nodeSelector",
        nodeSelector={"a": "b"},
        **GATED,
    ),
    of_pod("no spec", Patch({"spec": None}), "Invalid spec.containers"),
    of_pod("a bad label of a pod", meta(labels={"a": "b c"}), "Invalid metadata.labels"),
    of_pod("the phase by the status", status(phase="Running"), ""),
    of_pod("an odd phase by the status", status(phase="Maybe"), ""),
    of_pod("the phase by the pod", Patch({"status": {"phase": "Running"}}), ""),
)
NODES = (
    of_node("one taint twice", spec(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "Invalid metadata.taints[1]"),
    of_node("a bad taint", spec(taints=[{"key": "a b", "effect": "NoSchedule"}]), "Invalid metadata.taints[0].key"),
    of_node("a taint without an effect", spec(taints=[{"key": "a"}]), "Invalid metadata.taints[0].effect"),
    of_node("good taints", spec(taints=[{"key": "a", "effect": "NoSchedule"}]), ""),
    of_node("no taints", spec(taints=None), ""),
    of_node("a provider id", spec(providerID="kwok://a"), ""),
    of_node("another provider id", spec(providerID="kwok://b"), "Invalid spec.providerID", providerID="kwok://a"),
    of_node("no provider id any more", spec(providerID=None), "Invalid spec.providerID", providerID="kwok://a"),
    of_node("unschedulable", spec(unschedulable=True), ""),
    of_node("a bad label of a node", meta(labels={"a": "b c"}), "Invalid metadata.labels"),
    of_node("a long label of a node", meta(labels={"a": "b" * 64}), "Invalid metadata.labels"),
    of_node("annotations of a node", meta(annotations={"a": "b" * (256 * 1024)}), "Invalid metadata.annotations"),
    of_node("a bad finalizer of a node", meta(finalizers=["hold"]), "Invalid metadata.finalizers[0]"),
    of_node(
        "a negative capacity", status(capacity={"cpu": "-1"}), "Invalid status.allocatable.cpu status.capacity.cpu"
    ),
    of_node("an amount that is none", status(capacity={"cpu": "much"}), "Invalid patch"),
    of_node(
        "a bad label by the status",
        Patch({"metadata": {"labels": {"a": "b c"}}}, subresource="status"),
        "Invalid metadata.labels",
    ),
)
BUDGETS = (
    of_budget("another number", spec(minAvailable=2), ""),
    of_budget("both numbers", spec(maxUnavailable=1), "Invalid spec"),
    of_budget("one instead of the other", spec(minAvailable=None, maxUnavailable=1), ""),
    of_budget("another selector", spec(selector={"matchLabels": {"app": "other"}}), ""),
    of_budget("a bad selector", spec(selector={"matchLabels": {"app": "a b"}}), "Invalid spec.selector.matchLabels"),
    of_budget("a negative number", spec(minAvailable=-1), "Invalid spec.minAvailable"),
    of_budget(
        "a negative status",
        status(disruptionsAllowed=-1, currentHealthy=0, desiredHealthy=0, expectedPods=0),
        "Invalid status.disruptionsAllowed",
    ),
    of_budget("a status", status(disruptionsAllowed=1, currentHealthy=0, desiredHealthy=0, expectedPods=0), ""),
    of_budget("part of a status", status(disruptionsAllowed=1), ""),
    of_budget(
        "a bad condition",
        status(
            disruptionsAllowed=0,
            currentHealthy=0,
            desiredHealthy=0,
            expectedPods=0,
            conditions=[{"type": "A", "status": "True"}],
        ),
        "Invalid status.conditions[0].lastTransitionTime status.conditions[0].reason",
    ),
)
WORKLOADS = (
    of_workload(
        DEPLOYMENT,
        "another selector of a Deployment",
        spec(selector={"matchLabels": {"app": "b"}}),
        "Invalid spec.selector spec.template.metadata.labels",
    ),
    of_workload(
        DEPLOYMENT, "another template of a Deployment", spec(template=template(terminationGracePeriodSeconds=5)), ""
    ),
    of_workload(
        DEPLOYMENT,
        "other labels of a Deployment's pods",
        spec(template={"metadata": {"labels": {"app": "b"}}}),
        "Invalid spec.template.metadata.labels",
    ),
    of_workload(
        DEPLOYMENT,
        "no containers of a Deployment",
        spec(template={"spec": {"containers": []}}),
        "Invalid spec.template.spec.containers",
    ),
    of_workload(DEPLOYMENT, "negative replicas", spec(replicas=-1), "Invalid spec.replicas"),
    of_workload(DEPLOYMENT, "replicas that are text", spec(replicas="1"), "Invalid patch"),
    of_workload(
        DEPLOYMENT,
        "a negative status of a Deployment",
        status(replicas=-1),
        "Invalid status.availableReplicas status.readyReplicas status.replicas status.updatedReplicas",
    ),
    of_workload(
        REPLICA_SET,
        "another selector of a ReplicaSet",
        spec(selector={"matchLabels": {"app": "b"}}),
        "Invalid spec.selector spec.template.metadata.labels",
    ),
    of_workload(REPLICA_SET, "negative replicas of a ReplicaSet", spec(replicas=-1), "Invalid spec.replicas"),
    of_workload(
        DAEMON_SET,
        "another selector of a DaemonSet",
        spec(selector={"matchLabels": {"app": "b"}}),
        "Invalid spec.selector spec.template.metadata.labels",
    ),
    of_workload(
        DAEMON_SET,
        "a bad template of a DaemonSet",
        spec(template={"spec": {"containers": []}}),
        "Invalid spec.template.spec.containers",
    ),
    Changed(
        "another template of a Job",
        job(parallelism=0),
        JOB,
        spec(template={"spec": {"terminationGracePeriodSeconds": 5}}),
        "Invalid spec.template",
    ),
    Changed(
        "other completions of a Job",
        job(parallelism=0, completions=1),
        JOB,
        spec(completions=2),
        "Invalid spec.completions",
    ),
    Changed("other parallelism of a Job", job(parallelism=0), JOB, spec(parallelism=1), ""),
)
OTHERS = (
    Changed("a lease of 0 seconds", lease(), LEASE, spec(leaseDurationSeconds=0), "Invalid spec.leaseDurationSeconds"),
    Changed("a lease with a short time", lease(), LEASE, spec(renewTime="2026-01-01T00:00:00.0Z"), "Invalid patch"),
    Changed("a lease with a holder", lease(), LEASE, spec(holderIdentity="a"), ""),
    Changed("a status of a lease", lease(), LEASE, status(a="b"), "NotFound"),
    Changed(
        "another source of a volume",
        volume(),
        PERSISTENT_VOLUME,
        spec(csi={"volumeHandle": "other"}),
        "Invalid spec.persistentvolumesource",
    ),
    Changed("another size of a volume", volume(), PERSISTENT_VOLUME, spec(capacity={"storage": "2Gi"}), ""),
    Changed("a claim of a volume", volume(), PERSISTENT_VOLUME, spec(claimRef={"namespace": "a", "name": "b"}), ""),
    Changed(
        "another class of a claim",
        volume_claim(storageClassName="a"),
        PERSISTENT_VOLUME_CLAIM,
        spec(storageClassName="b"),
        "Invalid spec",
    ),
    Changed(
        "a volume of a claim", volume_claim(storageClassName="a"), PERSISTENT_VOLUME_CLAIM, spec(volumeName="b"), ""
    ),
    Changed(
        "another volume of a claim",
        volume_claim(storageClassName="a", volumeName="b"),
        PERSISTENT_VOLUME_CLAIM,
        spec(volumeName="c"),
        "Invalid spec",
    ),
    Changed(
        "other modes of a claim",
        volume_claim(storageClassName="a"),
        PERSISTENT_VOLUME_CLAIM,
        spec(accessModes=["ReadWriteMany"]),
        "Invalid spec",
    ),
    Changed(
        "another provisioner", storage_class(), STORAGE_CLASS, Patch({"provisioner": "other"}), "Invalid provisioner"
    ),
    Changed(
        "other parameters", storage_class(), STORAGE_CLASS, Patch({"parameters": {"a": "b"}}), "Invalid parameters"
    ),
    Changed(
        "another reclaim policy",
        storage_class(),
        STORAGE_CLASS,
        Patch({"reclaimPolicy": "Retain"}),
        "Invalid reclaimPolicy",
    ),
    Changed(
        "another binding",
        storage_class(),
        STORAGE_CLASS,
        Patch({"volumeBindingMode": "WaitForFirstConsumer"}),
        "Invalid volumeBindingMode",
    ),
    Changed("expansion", storage_class(), STORAGE_CLASS, Patch({"allowVolumeExpansion": True}), ""),
    Changed("another value", priority_class(), PRIORITY_CLASS, Patch({"value": 11}), "Invalid value"),
    Changed(
        "another preemption policy",
        priority_class(),
        PRIORITY_CLASS,
        Patch({"preemptionPolicy": "Never"}),
        "Invalid preemptionPolicy",
    ),
    Changed("another description", priority_class(), PRIORITY_CLASS, Patch({"description": "b"}), ""),
    Changed("another node of an attachment", attachment(), VOLUME_ATTACHMENT, spec(nodeName="other"), "Invalid spec"),
    Changed("attached", attachment(), VOLUME_ATTACHMENT, status(attached=True), ""),
    Changed("labels of a namespace", namespace(), NAMESPACE, meta(labels={"a": "b"}), ""),
    Changed("bad labels of a namespace", namespace(), NAMESPACE, meta(labels={"a": "b c"}), "Invalid metadata.labels"),
)
CASES = (
    case_of("metadata_changes_only_where_it_may", METADATA),
    case_of("pods_change_only_where_they_may", PODS),
    case_of("nodes_are_checked_when_they_change", NODES),
    case_of("budgets_are_checked_when_they_change", BUDGETS),
    case_of("workloads_are_checked_when_they_change", WORKLOADS),
    case_of("other_kinds_change_only_where_they_may", OTHERS),
)
