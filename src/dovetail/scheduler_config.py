"""SCHEDULER_CONFIG: the default topology spread of kube-scheduler, for pods without constraints.

The text is decoded strictly, as Karpenter does: an unknown field is a fault. kube-scheduler adds the constraints to
pods of a ReplicaSet, StatefulSet or ReplicationController, and selects the pods that the controller selects. The pods
of one controller have the labels of its template, so `with_default_spread` selects by these: no controller has to be
read. Pods that only a Service selects get no constraints, because the roles of Karpenter's chart grant no Services.
"""

from functools import lru_cache
from typing import Any

import msgspec

from dovetail.model.kube_object import LabelSelector
from dovetail.model.pod import Pod, TopologySpreadConstraint

Constraints = tuple[TopologySpreadConstraint, ...]
CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
LABELS_OF_ONE_POD = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_FIELDS = frozenset(
    {"maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"}
)


def parse_scheduler_config(text: str) -> Constraints:
    """Parse the default constraints from YAML or JSON; ValueError says which field is wrong."""
    import yaml  # noqa: PLC0415 - rarely needed

    try:
        document: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML or JSON: {' '.join(str(error).split())[:200]}") from None
    spread = _member(document or {}, "podTopologySpread", "")
    entries = _member(spread or {}, "defaultConstraints", "podTopologySpread.") or []
    if not isinstance(entries, list):
        raise ValueError("podTopologySpread.defaultConstraints must be a list")  # noqa: TRY004 - a fault of the text
    constraints = tuple(_constraint(each, f"defaultConstraints[{at}]") for at, each in enumerate(entries))
    if len({(each.topology_key, each.when_unsatisfiable) for each in constraints}) < len(constraints):
        raise ValueError("defaultConstraints has two entries with the same topologyKey and whenUnsatisfiable")
    return constraints


def _member(document: Any, name: str, path: str) -> Any:
    if not isinstance(document, dict):
        where = path.rstrip(".") or "the document"
        raise ValueError(f"{where} must be a mapping with the field {name}")  # noqa: TRY004 - a fault of the text
    unknown = sorted(str(each) for each in document if each != name)
    if unknown:
        raise ValueError(f"{path}{unknown[0]} is not a known field; the only one is {name}")
    return document.get(name)


def _constraint(entry: Any, path: str) -> TopologySpreadConstraint:
    if not isinstance(entry, dict):
        raise ValueError(f"{path} must be a mapping")  # noqa: TRY004 - a fault of the text
    unknown = sorted(str(each) for each in entry if each not in _FIELDS)
    if unknown:
        raise ValueError(f"{path}.{unknown[0]} is not allowed; the fields are {', '.join(sorted(_FIELDS))}")
    if not isinstance(entry.get("topologyKey"), str) or not entry["topologyKey"]:
        raise ValueError(f"{path}.topologyKey must be the name of a label")
    skew = entry.get("maxSkew")
    if not isinstance(skew, int) or isinstance(skew, bool) or skew < 1:
        raise ValueError(f"{path}.maxSkew must be a whole number greater than 0")
    if entry.get("whenUnsatisfiable") not in _ACTIONS:
        raise ValueError(f"{path}.whenUnsatisfiable must be one of {', '.join(_ACTIONS)}")
    try:
        return msgspec.convert(entry, TopologySpreadConstraint)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from None


def with_default_spread(pod: Pod, constraints: Constraints) -> Pod:
    """The pod with the default constraints, if it has none and a controller that kube-scheduler spreads."""
    owners = pod.metadata.owner_references
    if pod.spec.topology_spread_constraints or not any(each.controller and each.kind in CONTROLLERS for each in owners):
        return pod
    labels = frozenset(item for item in pod.metadata.labels.items() if item[0] not in LABELS_OF_ONE_POD)
    if not labels:
        return pod
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=_selecting(constraints, labels))
    return msgspec.structs.replace(pod, spec=spec)


@lru_cache(maxsize=1 << 12)
def _selecting(constraints: Constraints, labels: frozenset[tuple[str, str]]) -> Constraints:
    """The constraints with a selector for these labels; the same objects for all pods of a controller."""
    selector = LabelSelector(match_labels=dict(sorted(labels)))
    return tuple(msgspec.structs.replace(each, label_selector=selector) for each in constraints)
