"""The types of fields, for the kinds the API server decodes into types before it looks at anything else.

Null counts as absent everywhere, and fields without a type here are not looked at. The checks in this package run only
on objects that fit, so they need not ask for types again. The types are read by msgspec: a whole object is one call.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from dovetail.manifest.patterns import QUANTITY


def _fields(**types: Any) -> Any:
    """A mapping that may have these fields."""
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
"""What is decoded of each kind besides its metadata."""


def misfit(type_: Any, value: Any) -> str:
    """Where a value does not fit its type, in words; empty if it does."""
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
