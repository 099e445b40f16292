"""Validation of built-in kinds other than pods: workloads, budgets, nodes, storage, leases and others.

Each function takes the object or its spec and yields one `Fault` for each field that the API server would refuse.
"""

import re
from collections.abc import Iterator

from dovetail.model.kube_object import Fault
from dovetail.model.resources import Quantity
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.metadata import choice_faults, is_key, is_subdomain, is_value
from dovetail.sim.kubernetes.validation.placement import EFFECTS, node_selector_faults, selector_faults
from dovetail.sim.kubernetes.validation.pods import template_faults

_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MOST_DATA = 1024 * 1024
_HIGHEST_PRIORITY = 1_000_000_000
_PREEMPTIONS = frozenset({"PreemptLowerPriority", "Never"})
_RECLAIMS = frozenset({"Delete", "Retain"})
_RECYCLING = _RECLAIMS | {"Recycle"}
_BINDINGS = frozenset({"Immediate", "WaitForFirstConsumer"})
_ACCESS_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
VOLUME_SOURCES = ("hostPath", "nfs", "iscsi", "fc", "local", "awsElasticBlockStore", "gcePersistentDisk", "csi")
"""In the order in which the API server checks them."""


def taint_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with the taints of a node."""
    seen = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        path, key, effect = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("effect")
        if not is_key(key):
            yield Fault(f"{path}.key", "is not a label key", key)
        if not is_value(taint.get("value") or ""):
            yield Fault(f"{path}.value", "is not a label value", taint["value"])
        yield from choice_faults(effect or "", EFFECTS, f"{path}.effect")
        if (key, effect) in seen:
            yield Fault(path, "has key and effect of an previous taint", f"{key}:{effect}")
        seen.add((key, effect))


def config_map_faults(plain: Plain) -> Iterator[Fault]:
    """Everything wrong with a ConfigMap."""
    data = plain.get("data") or {}
    for key in data:
        if not _DATA_KEY.fullmatch(key):
            yield Fault(f"data[{key}]", "is not a key: letters, digits, '-', '_' and '.'", key)
    if sum(len((value or "").encode()) for value in data.values()) > _MOST_DATA:
        yield Fault("[]", f"holds more than {_MOST_DATA} bytes")


def lease_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a Lease."""
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield Fault("spec.leaseDurationSeconds", "must be greater than zero", seconds)
    if transitions is not None and transitions < 0:
        yield Fault("spec.leaseTransitions", "must not be negative", transitions)


def event_faults(plain: Plain) -> Iterator[Fault]:
    """Everything wrong with an Event: it must be in the namespace of its object, or `default` if that has none."""
    about = (plain.get("involvedObject") or {}).get("namespace") or ""
    here = plain["metadata"].get("namespace") or ""
    if about != here and (about or here != "default"):
        yield Fault("involvedObject.namespace", f"does not match the namespace of the event, which is {here}", about)
    if plain.get("eventTime"):
        for name in ("action", "reportingComponent", "reportingInstance"):
            if not plain.get(name):
                yield Fault(name, "must not be empty where eventTime is set")


def priority_class_faults(plain: Plain) -> Iterator[Fault]:
    """Everything wrong with a PriorityClass."""
    if (plain.get("value") or 0) > _HIGHEST_PRIORITY and not plain["metadata"]["name"].startswith("system-"):
        yield Fault("value", f"must be at most {_HIGHEST_PRIORITY}", plain["value"])
    yield from choice_faults(plain.get("preemptionPolicy"), _PREEMPTIONS, "preemptionPolicy")


def namespace_faults(plain: Plain) -> Iterator[Fault]:
    """Everything wrong with a Namespace."""
    for name in (plain.get("spec") or {}).get("finalizers") or ():
        if name != "kubernetes" and "/" not in name:
            yield Fault("spec.finalizers", "must have a domain, such as example.com/name", name)


def volume_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a PersistentVolume."""
    yield from _mode_faults(spec)
    capacity = spec.get("capacity") or {}
    if set(capacity) != {"storage"}:
        yield Fault("spec.capacity", "must have storage and nothing else", capacity)
    elif Quantity.of(capacity["storage"]).nano <= 0:
        yield Fault("spec.capacity[storage]", "must be greater than zero", capacity["storage"])
    sources = [name for name in VOLUME_SOURCES if spec.get(name) is not None]
    if not sources:
        yield Fault("spec", "must specify a volume type")
    for name in sources[1:]:
        yield Fault(f"spec.{name}", "may not specify more than one volume type")
    if spec.get("csi") is not None and len(sources) == 1:
        for name in ("driver", "volumeHandle"):
            if not spec["csi"].get(name):
                yield Fault(f"spec.csi.{name}", "must not be empty")
    if spec.get("nodeAffinity") is not None:
        required = spec["nodeAffinity"].get("required")
        if required is None:
            yield Fault("spec.nodeAffinity.required", "must not be empty")
        else:
            yield from node_selector_faults(required, "spec.nodeAffinity.required")
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from choice_faults(policy, _RECYCLING, "spec.persistentVolumeReclaimPolicy")


def volume_claim_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a PersistentVolumeClaim."""
    yield from _mode_faults(spec)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None or Quantity.of(storage).nano <= 0:
        yield Fault("spec.resources[storage]", "must be greater than zero", storage)
    name = spec.get("storageClassName")
    if name and not is_subdomain(name):
        yield Fault("spec.storageClassName", "is not the name of a StorageClass", name)
    yield from selector_faults(spec.get("selector"), "spec.selector")


def _mode_faults(spec: Plain) -> Iterator[Fault]:
    modes = spec.get("accessModes") or ()
    if not modes or not _ACCESS_MODES.issuperset(modes):
        yield Fault("spec.accessModes", f"must be of {', '.join(sorted(_ACCESS_MODES))}", modes)


def storage_class_faults(plain: Plain) -> Iterator[Fault]:
    """Everything wrong with a StorageClass."""
    provisioner = plain.get("provisioner") or ""
    if not is_key(provisioner.lower()):
        yield Fault("provisioner", "is not the name of a provisioner", provisioner)
    yield from choice_faults(plain.get("reclaimPolicy"), _RECLAIMS, "reclaimPolicy")
    yield from choice_faults(plain.get("volumeBindingMode"), _BINDINGS, "volumeBindingMode")
    for index, term in enumerate(plain.get("allowedTopologies") or ()):
        for place, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if not expression.get("values"):
                path = f"allowedTopologies[{index}].matchLabelExpressions[{place}].values"
                yield Fault(path, "must not be empty")


def attachment_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a VolumeAttachment."""
    for name in ("attacher", "nodeName"):
        if not spec.get(name):
            yield Fault(f"spec.{name}", "must not be empty")
    source = spec.get("source") or {}
    if not source.get("persistentVolumeName") and not source.get("inlineVolumeSpec"):
        yield Fault("spec.source", "must name a volume")


def csi_node_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a CSINode."""
    drivers = spec.get("drivers") or []
    names = [each.get("name") for each in drivers]
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        if not driver.get("name") or driver["name"] in names[:index]:
            yield Fault(f"{path}.name", "must be the name of a driver, and each only once", driver.get("name"))
        if not driver.get("nodeID"):
            yield Fault(f"{path}.nodeID", "must not be empty")
        if ((driver.get("allocatable") or {}).get("count") or 0) < 0:
            yield Fault(f"{path}.allocatable.count", "must not be negative")


_ALWAYS = frozenset({"Always"})
_JOB_RESTARTS = frozenset({"OnFailure", "Never"})
_STRATEGIES = frozenset({"RollingUpdate", "Recreate"})
_UNHEALTHY = frozenset({"IfHealthyBudget", "AlwaysAllow"})
_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def workload_faults(kind: str, spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    if (spec.get("replicas") or 0) < 0:
        yield Fault("spec.replicas", "must not be negative", spec["replicas"])
    yield from _selection_faults(kind, spec)
    template = spec.get("template")
    yield from template_faults(template, "spec.template", _ALWAYS)
    if ((template or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None:
        yield Fault("spec.template.spec.activeDeadlineSeconds", f"cannot be set for a {kind}")
    if kind == "Deployment":
        yield from choice_faults((spec.get("strategy") or {}).get("type"), _STRATEGIES, "spec.strategy")


def _selection_faults(kind: str, spec: Plain) -> Iterator[Fault]:
    selector = spec.get("selector")
    if not selector and (selector is not None or kind != "DaemonSet"):
        yield Fault("spec.selector", "must select the pods of the template")
    wrong = list(selector_faults(selector, "spec.selector"))
    yield from wrong
    if wrong and kind in ("Deployment", "ReplicaSet"):
        yield Fault("spec.selector", "is not a label selector")
    elif selector is None or (not wrong and not _selects(selector, _template_labels(spec))):
        yield Fault("spec.template.metadata.labels", "must be selected by spec.selector", _template_labels(spec))


def _template_labels(spec: Plain) -> Plain:
    labels: Plain = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _selects(selector: Plain, labels: Plain) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each["key"], each["operator"], each.get("values") or ()
        if operator in ("In", "Exists") and (key not in labels or (values and labels[key] not in values)):
            return False
        if operator == "DoesNotExist" and key in labels:
            return False
        if operator == "NotIn" and labels.get(key) in values:
            return False
    return True


def job_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a Job; its selector is generated."""
    for name in ("completions", "parallelism"):
        if (spec.get(name) or 0) < 0:
            yield Fault(f"spec.{name}", "must not be negative", spec[name])
    if spec.get("selector") and not spec.get("manualSelector"):
        yield Fault("spec.selector", "is generated", spec["selector"])
        yield Fault("spec.template.metadata.labels", "must be selected by spec.selector", _template_labels(spec))
    yield from template_faults(spec.get("template"), "spec.template", _JOB_RESTARTS)


def budget_faults(spec: Plain) -> Iterator[Fault]:
    """Everything wrong with a PodDisruptionBudget."""
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield Fault("spec", "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
            yield Fault(f"spec.{name}", "must be a percentage from 0% to 100%, or a number", value)
        if isinstance(value, int) and value < 0:
            yield Fault(f"spec.{name}", "must not be negative", value)
    yield from choice_faults(spec.get("unhealthyPodEvictionPolicy"), _UNHEALTHY, "spec.unhealthyPodEvictionPolicy")
    yield from selector_faults(spec.get("selector"), "spec.selector")


def budget_status_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with the status of a PodDisruptionBudget."""
    for name in _COUNTS:
        if (status.get(name) or 0) < 0:
            yield Fault(f"status.{name}", "must not be negative", status[name])
    for index, condition in enumerate(status.get("conditions") or ()):
        for name in ("type", "status", "reason", "lastTransitionTime"):
            if not condition.get(name):
                yield Fault(f"status.conditions[{index}].{name}", "must not be empty")


def deployment_status_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with the status of a Deployment: no count may exceed `replicas`."""
    most = status.get("replicas") or 0
    if most < 0:
        yield Fault("status.replicas", "must not be negative", most)
    for name in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        if not 0 <= (status.get(name) or 0) <= most:
            yield Fault(f"status.{name}", f"must be from 0 to status.replicas, which is {most}", status.get(name))
