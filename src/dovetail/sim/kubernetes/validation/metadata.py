"""Validation shared by all kinds: field types, names, labels, annotations, finalizers and owner references.

`METADATA`, `POD_SPEC` and `CONTENT` describe the field types of each kind; msgspec checks a whole object in one call.
Null counts as absent everywhere, and fields without a type here are not checked. The checks in this package run only on
objects that passed `type_error`, so they need no type checks.

Fault paths are those of the API server, including its quirks: a bad label is reported at `metadata.labels`, a bad taint
at `metadata.taints`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from dovetail.manifest.patterns import DNS_SUBDOMAIN, LABEL_VALUE, QUANTITY, matches
from dovetail.manifest.semantics import is_qualified_name
from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.kinds import CUSTOM, NAMESPACE, PRIORITY_CLASS, Resource
from dovetail.sim.kubernetes.merge_patch import Plain

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


@lru_cache(maxsize=1 << 12)
def is_subdomain(text: str) -> bool:
    """Whether it is a DNS-1123 subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and matches(DNS_SUBDOMAIN, text)


@lru_cache(maxsize=1 << 12)
def is_label(text: str) -> bool:
    """Whether it is a DNS-1123 label."""
    return len(text) <= _LONGEST_LABEL and matches(_DNS_LABEL, text)


@lru_cache(maxsize=1 << 12)
def is_key(text: str) -> bool:
    """Whether it can be the key of a label or taint, or the name of a resource."""
    return is_qualified_name(text)


@lru_cache(maxsize=1 << 12)
def is_value(text: str) -> bool:
    """Whether it can be the value of a label."""
    return len(text) <= _LONGEST_LABEL and matches(LABEL_VALUE, text)


def label_faults(labels: Mapping[str, str] | None, path: str) -> Iterator[Fault]:
    """Bad keys and values of labels, all at the path of the map."""
    for key, value in (labels or {}).items():
        if not is_key(key):
            yield Fault(path, "is not a label key: optional domain and '/', then at most 63 characters", key)
        if not is_value(value or ""):
            yield Fault(path, "is not a label value: at most 63 letters, digits, '-', '_' and '.'", value)


def choice_faults(value: str | None, choices: frozenset[str], path: str) -> Iterator[Fault]:
    """A fault if the value is set and is none of the choices."""
    if value is not None and value not in choices:
        yield Fault(path, f"is not one of {', '.join(sorted(choices))}", value)


MOST_ANNOTATION_BYTES = 256 * 1024
CHECKED = ("labels", "annotations", "finalizers", "ownerReferences")
"""The parts of metadata that can change and are checked when they do."""
_NAMED_BY_LABEL = frozenset({NAMESPACE, ("apps", "StatefulSet")})
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def new_metadata_faults(resource: Resource, meta: Plain) -> Iterator[Fault]:
    """Everything wrong with the metadata of a new object; its name may just have been generated."""
    yield from _name_faults(resource, meta["name"])
    prefix = meta.get("generateName") or ""
    if prefix and not _is_name(resource, _without_trailing_dash(prefix)):
        yield Fault("metadata.generateName", "is not the beginning of a name", prefix)
    for part in CHECKED:
        if meta.get(part):
            yield from part_faults(resource, part, meta)


def part_faults(resource: Resource, part: str, meta: Plain) -> Iterator[Fault]:
    """Everything wrong with one part of the metadata."""
    if part == "labels":
        yield from label_faults(meta.get("labels"), "metadata.labels")
    elif part == "annotations":
        yield from annotation_faults(meta.get("annotations") or {}, "metadata.annotations")
    elif part == "finalizers":
        yield from _finalizer_faults(meta.get("finalizers") or (), builtin=resource not in CUSTOM)
    else:
        yield from _owner_faults(meta.get("ownerReferences") or ())


def annotation_faults(annotations: Plain, path: str) -> Iterator[Fault]:
    """Bad keys, and a total size over the limit. Unlike label keys, the domain of a key may have capitals."""
    for key in annotations:
        if not is_key(key.lower()):
            yield Fault(path, "is not an annotation key: optional domain and '/', then at most 63 characters", key)
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if size > MOST_ANNOTATION_BYTES:
        yield Fault(path, f"holds {size} bytes; at most {MOST_ANNOTATION_BYTES} are allowed")


def _name_faults(resource: Resource, name: str) -> Iterator[Fault]:
    if not _is_name(resource, name):
        form = "a DNS label" if resource in _NAMED_BY_LABEL else "a DNS subdomain"
        yield Fault("metadata.name", f"must be {form}: lowercase letters, digits and '-'", name)
    if resource == PRIORITY_CLASS and name.startswith("system-") and name not in _SYSTEM_CLASSES:
        yield Fault("metadata.name", "names that start with system- are reserved", name)


def _is_name(resource: Resource, name: str) -> bool:
    return is_label(name) if resource in _NAMED_BY_LABEL else is_subdomain(name)


def _without_trailing_dash(prefix: str) -> str:
    """The prefix with a valid end: a trailing dash is allowed, because a suffix follows."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _finalizer_faults(finalizers: Sequence[str], *, builtin: bool) -> Iterator[Fault]:
    for index, name in enumerate(finalizers):
        if not is_key(name):
            yield Fault("metadata.finalizers", "is not the name of a finalizer", name)
        if builtin and "/" not in name and name not in _STANDARD_FINALIZERS:
            yield Fault(f"metadata.finalizers[{index}]", "must have a domain, such as example.com/name", name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield Fault("metadata.finalizers", "orphan and foregroundDeletion cannot both be set")


def _owner_faults(owners: Sequence[Plain]) -> Iterator[Fault]:
    path = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version or version.count("/") > 1:
            yield Fault(f"{path}.apiVersion", "must be a group and version", version)
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield Fault(f"{path}.{name}", "must not be empty")
        if version == "v1" and owner.get("kind") == "Event":
            yield Fault(path, "an Event cannot own anything")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        yield Fault(path, "only one owner can be the controller")


def _fields(**types: Any) -> Any:
    """A type for a mapping with these optional fields."""
    optional = {name: reduce(or_, (type_, None)) for name, type_ in types.items()}
    return TypedDict("_Fields", optional, total=False)  # type: ignore[operator]  # made at run time


def _list(item: Any) -> Any:
    return list[item]


_Texts = dict[str, str | None]
_Amount = int | float | Annotated[str, Meta(pattern=QUANTITY)]
_Amounts = dict[str, _Amount]
_Instant = Annotated[datetime, Meta(tz=True)]
_MicroTime = Annotated[str, Meta(pattern=r"^[0-9-]+T[0-9:]+\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})$")]
_Owner = _fields(apiVersion=str, kind=str, name=str, uid=str, controller=bool)
METADATA = _fields(
    name=str,
    generateName=str,
    namespace=str,
    labels=_Texts,
    annotations=_Texts,
    finalizers=_list(str),
    ownerReferences=_list(_Owner),
    creationTimestamp=_Instant,
    deletionTimestamp=_Instant,
    deletionGracePeriodSeconds=int,
    generation=int,
)
_Requirement = _fields(key=str, operator=str, values=_list(str))
_Selector = _fields(matchLabels=_Texts, matchExpressions=_list(_Requirement))
_NodeTerm = _fields(matchExpressions=_list(_Requirement), matchFields=_list(_Requirement))
_PodTerm = _fields(topologyKey=str, labelSelector=_Selector, namespaces=_list(str))
_PodTerms = _fields(
    requiredDuringSchedulingIgnoredDuringExecution=_list(_PodTerm),
    preferredDuringSchedulingIgnoredDuringExecution=_list(_fields(weight=int, podAffinityTerm=_PodTerm)),
)
_NodeTerms = _fields(
    requiredDuringSchedulingIgnoredDuringExecution=_fields(nodeSelectorTerms=_list(_NodeTerm)),
    preferredDuringSchedulingIgnoredDuringExecution=_list(_fields(weight=int, preference=_NodeTerm)),
)
_Resources = _fields(requests=_Amounts, limits=_Amounts)
_Container = _fields(
    name=str,
    image=str,
    imagePullPolicy=str,
    restartPolicy=str,
    resources=_Resources,
    ports=_list(_fields(containerPort=int)),
    volumeMounts=_list(_fields(name=str, mountPath=str)),
)
_Spread = _fields(
    maxSkew=int,
    minDomains=int,
    topologyKey=str,
    whenUnsatisfiable=str,
    labelSelector=_Selector,
    matchLabelKeys=_list(str),
)
POD_SPEC = _fields(
    containers=_list(_Container),
    initContainers=_list(_Container),
    resources=_Resources,
    restartPolicy=str,
    dnsPolicy=str,
    hostname=str,
    nodeName=str,
    schedulerName=str,
    priorityClassName=str,
    preemptionPolicy=str,
    priority=int,
    terminationGracePeriodSeconds=int,
    activeDeadlineSeconds=int,
    nodeSelector=_Texts,
    overhead=_Amounts,
    schedulingGates=_list(_fields(name=str)),
    tolerations=_list(_fields(key=str, operator=str, value=str, effect=str, tolerationSeconds=int)),
    topologySpreadConstraints=_list(_Spread),
    affinity=_fields(nodeAffinity=_NodeTerms, podAffinity=_PodTerms, podAntiAffinity=_PodTerms),
    volumes=_list(_fields(name=str, persistentVolumeClaim=_fields(claimName=str))),
)
_Template = _fields(metadata=METADATA, spec=POD_SPEC)
_Workload = _fields(spec=_fields(replicas=int, selector=_Selector, template=_Template))
_Condition = _fields(type=str, status=str, reason=str, message=str)
_Driver = _fields(name=str, nodeID=str, allocatable=_fields(count=int))
CONTENT: Mapping[str, Any] = {
    "Pod": _fields(spec=POD_SPEC),
    "Node": _fields(
        spec=_fields(taints=_list(_fields(key=str, value=str, effect=str)), providerID=str, unschedulable=bool),
        status=_fields(capacity=_Amounts, allocatable=_Amounts, conditions=_list(_Condition)),
    ),
    "ConfigMap": _fields(data=_Texts, immutable=bool),
    "Deployment": _Workload,
    "ReplicaSet": _Workload,
    "StatefulSet": _Workload,
    "DaemonSet": _Workload,
    "Job": _fields(spec=_fields(completions=int, parallelism=int, selector=_Selector, template=_Template)),
    "PodDisruptionBudget": _fields(
        spec=_fields(minAvailable=int | str, maxUnavailable=int | str, selector=_Selector),
        status=_fields(disruptionsAllowed=int, currentHealthy=int, disruptedPods=_Texts, conditions=_list(_Condition)),
    ),
    "Lease": _fields(
        spec=_fields(
            holderIdentity=str,
            leaseDurationSeconds=int,
            leaseTransitions=int,
            acquireTime=_MicroTime,
            renewTime=_MicroTime,
        )
    ),
    "Event": _fields(reason=str, message=str, type=str, count=int, eventTime=_MicroTime),
    "PriorityClass": _fields(value=int, globalDefault=bool),
    "PersistentVolume": _fields(spec=_fields(capacity=_Amounts, accessModes=_list(str))),
    "PersistentVolumeClaim": _fields(
        spec=_fields(resources=_Resources, accessModes=_list(str), storageClassName=str, selector=_Selector)
    ),
    "StorageClass": _fields(provisioner=str, parameters=_Texts, allowVolumeExpansion=bool),
    "CSINode": _fields(spec=_fields(drivers=_list(_Driver))),
}
"""The types of the fields of each kind besides its metadata."""


def type_error(type_: Any, value: Any) -> str:
    """Why a value does not have the type, with its path; empty if it has."""
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
