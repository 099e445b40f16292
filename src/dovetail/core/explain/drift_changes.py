"""What drifted: the fields in which a NodeClaim differs from its NodePool, old and new.

The hash of the template says only that something changed. A NodeClaim keeps most of the template it was launched from
(labels, annotations, taints, node class, kubelet, expiration), so the changed fields are found by comparing both. A
label or annotation that was removed from the template cannot be told from others of the NodeClaim and is not listed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec

from dovetail.core.disruption.drift import (
    INSTANCE_TYPE_NOT_FOUND,
    NODEPOOL_DRIFTED,
    REQUIREMENTS_DRIFTED,
    drift_reason,
)
from dovetail.core.failure import attempt
from dovetail.model.conditions import find
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import DRIFTED, NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool, read_requirements
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.refusal import Refusal, node_ref
from dovetail.model.requirements import Requirements
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.verdict import DriftCause, FieldChange

_SPEC = "spec.template.spec"
_METADATA = "spec.template.metadata"
UNKNOWN_CHANGE = "the template changed in a field that the NodeClaim does not keep"


def drift_cause(node: ClusterNode, snapshot: Snapshot) -> DriftCause | None:
    """Why a node has drifted, or None if it has not."""
    claim, pool = node.claim, snapshot.nodepools.get(node.nodepool_name)
    if claim is None or pool is None:
        return None
    found = attempt(node_ref(node.name), partial(_cause, claim, pool, snapshot))
    return None if isinstance(found, Refusal) else found  # the planner refuses the node with the error


def _cause(claim: NodeClaim, pool: NodePool, snapshot: Snapshot) -> DriftCause | None:
    reason = drift_reason(claim, pool, snapshot)
    if not reason:
        return None
    if reason == NODEPOOL_DRIFTED:
        changes = tuple(_template_changes(claim, pool))
        return DriftCause(reason, changes, "" if changes else UNKNOWN_CHANGE)
    if reason == REQUIREMENTS_DRIFTED:
        return DriftCause(reason, tuple(_violations(claim, pool)))
    if reason == INSTANCE_TYPE_NOT_FOUND:
        offered = (claim.metadata.labels.get(key, "") for key in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE))
        return DriftCause(reason, (FieldChange("instance type", ", ".join(filter(None, offered)), "not offered"),))
    condition = find(claim.status.conditions, DRIFTED)
    return DriftCause(reason, detail=condition.message if condition is not None else "")


def _template_changes(claim: NodeClaim, pool: NodePool) -> Iterator[FieldChange]:
    """The fields of the template that the claim was launched with another value of."""
    old, template = claim.spec, pool.spec.template
    new, known = template.spec, bool(old.node_class_ref.name)
    pairs: tuple[tuple[str, object, object], ...] = (
        ("taints", _list(old.taints), _list(new.taints)),
        ("startupTaints", _list(old.startup_taints), _list(new.startup_taints)),
        (
            "nodeClassRef",
            _class(old.node_class_ref) if known else _class(new.node_class_ref),
            _class(new.node_class_ref),
        ),
        ("expireAfter", old.expire_after or pool.hard_expire_after, pool.hard_expire_after),
        ("terminationGracePeriod", old.termination_grace_period, new.termination_grace_period),
        ("kubelet", _json(old.kubelet), _json(new.kubelet)),
    )
    for name, before, after in pairs:
        if before != after:
            yield FieldChange(f"{_SPEC}.{name}", _text(before), _text(after))
    yield from _map_changes(f"{_METADATA}.labels", claim.metadata.labels, template.metadata.labels)
    yield from _map_changes(f"{_METADATA}.annotations", claim.metadata.annotations, template.metadata.annotations)


def _map_changes(path: str, old: Mapping[str, str], new: Mapping[str, str] | None) -> list[FieldChange]:
    """Labels or annotations of the template that the claim has not, or with another value."""
    return [
        FieldChange(f"{path}[{key}]", _text(old.get(key)), value)
        for key, value in sorted((new or {}).items())
        if old.get(key) != value
    ]


def _violations(claim: NodeClaim, pool: NodePool) -> Iterator[FieldChange]:
    """The requirements of the NodePool that the labels of the claim do not meet."""
    labels = claim.metadata.labels
    for each in pool.spec.template.spec.requirements:
        own = {each.key: labels[each.key]} if each.key in labels else {}
        if Requirements.from_labels(own).compatible(read_requirements((each,))) is not None:
            yield FieldChange(each.key, _text(labels.get(each.key)), _requirement(each))


def _requirement(each: NodeSelectorRequirement) -> str:
    values = ", ".join(each.values)
    return f"{each.operator} [{values}]" if values else str(each.operator)


def _class(ref: NodeClassRef) -> str:
    return f"{ref.api_group}/{ref.kind}/{ref.name}"


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode() if value else ""


def _list(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values)))


def _text(value: object) -> str:
    return "none" if value in (None, "") else str(value)
