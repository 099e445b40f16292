"""Drift: whether a NodeClaim no longer matches its NodePool, and whether replacing it would help.

A NodeClaim has drifted if the hash of the NodePool template changed (compared only if both were written by the same
hash version), if its labels no longer meet the NodePool's requirements, if its instance type is no longer offered, or
if the provider reports drift. Behavioral fields such as budgets are not in the hash and cause no drift.

Drift loops: a NodeClaim that replaces a drifted node carries an annotation with the reason of that drift and the
desired state (the generation of the NodePool, the state of the node class). If it is drifted for the same reason while
the desired state is unchanged, replacing more nodes would not help. Drift of that NodePool for that reason then stops
until the NodePool, its node class, or what the class resolves to changes. The state of the class is part of the
annotation because two AMI releases in a row are no loop. Everything is read from API objects, so restarts change
nothing.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from dovetail.core.lifecycle.nodepool_hash import has_changed
from dovetail.model.catalog import InstanceType
from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.kube_object import ApiStruct
from dovetail.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_CLASS_STATE,
    ON_DEMAND,
    RESERVED,
    ZONE,
)
from dovetail.model.nodeclaim import DRIFTED, LAUNCHED, NodeClaim
from dovetail.model.nodepool import NodePool, read_requirements
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, node_ref
from dovetail.model.requirements import NORMALIZED_LABELS, Requirements
from dovetail.model.snapshot import ClusterNode, Snapshot

NODEPOOL_DRIFTED = "NodePoolDrifted"
REQUIREMENTS_DRIFTED = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND = "InstanceTypeNotFound"
_OWN_REASONS = frozenset({NODEPOOL_DRIFTED, REQUIREMENTS_DRIFTED, INSTANCE_TYPE_NOT_FOUND})
INSTANT = timedelta(microseconds=1)
SETTLING = timedelta(hours=1)
"""A younger node is not checked against the instance types: both may still be incomplete."""


def drift_reason(claim: NodeClaim, pool: NodePool, snapshot: Snapshot) -> str:
    """Why the claim has drifted, or empty. Drift that only the provider detects is read from the claim's condition."""
    if not claim.has(LAUNCHED):
        return ""
    reason = deviation(claim, pool, snapshot.types_by_pool.get(pool.name), snapshot.at)
    if reason:
        return reason
    found = find(claim.status.conditions, DRIFTED)
    return found.reason if found is not None and found.status == "True" and found.reason not in _OWN_REASONS else ""


def deviation(claim: NodeClaim, pool: NodePool, types: Mapping[str, InstanceType] | None, now: datetime) -> str:
    """Why a launched claim has drifted, as far as can be seen without the provider; empty if it has not."""
    if has_changed(claim.metadata.annotations, pool):
        return NODEPOOL_DRIFTED
    if _violates(pool.spec.template.spec.requirements, claim.metadata.labels):
        return REQUIREMENTS_DRIFTED
    return INSTANCE_TYPE_NOT_FOUND if _type_is_gone(claim, types, now) else ""


def settles_at(claim: NodeClaim, now: datetime) -> datetime | None:
    """When a young claim begins to be checked against the instance types; None if it already is, or never will be."""
    created_at = claim.metadata.creation_timestamp
    young = created_at is not None and now - created_at <= SETTLING
    return add(created_at, SETTLING + INSTANT) if created_at is not None and young else None


def _violates(requirements: tuple[NodeSelectorRequirement, ...], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels does not meet the requirements of its NodePool."""
    return _refuses(requirements, tuple([labels.get(name) for name in _labels_read(requirements)]))


@lru_cache(maxsize=1024)
def _labels_read(requirements: tuple[NodeSelectorRequirement, ...]) -> tuple[str, ...]:
    """The labels that requirements are about, under all their names."""
    required = read_requirements(requirements)
    return (*required, *[each for each, key in NORMALIZED_LABELS.items() if key in required])


@lru_cache(maxsize=8192)
def _refuses(requirements: tuple[NodeSelectorRequirement, ...], values: tuple[str | None, ...]) -> bool:
    """Whether these values of `_labels_read` do not meet the requirements. Most nodes of a NodePool share them."""
    named = zip(_labels_read(requirements), values, strict=True)
    found = Requirements.from_labels({name: value for name, value in named if value is not None})
    return found.compatible(read_requirements(requirements)) is not None


def _type_is_gone(claim: NodeClaim, types: Mapping[str, InstanceType] | None, now: datetime) -> bool:
    created_at = claim.metadata.creation_timestamp
    if not types or created_at is None or now - created_at <= SETTLING:
        return False
    labels = claim.metadata.labels
    instance_type = types.get(labels.get(INSTANCE_TYPE, ""))
    if instance_type is None:
        return True
    capacity_type = labels.get(CAPACITY_TYPE, "")
    # When a reservation ends, its instances continue as on-demand: that is no drift.
    offered, zone = instance_type.offering_by_place, labels.get(ZONE)
    return (zone, capacity_type) not in offered and not (capacity_type == RESERVED and (zone, ON_DEMAND) in offered)


ANNOTATION = "dovetail.sh/drift-replacement"

Loops = Mapping[tuple[str, str], ClusterNode]
"""By NodePool and reason of drift: a replacement that is drifted for the reason it was launched for."""


class DriftReplacement(ApiStruct, frozen=True, kw_only=True):
    """The annotation of a replacement: the drift it was launched for, and the desired state at that time."""

    reason: str
    generation: int
    node_class_state: str = ""


def replacement_annotation(reason: str, pool: NodePool) -> dict[str, str]:
    """The annotation of replacements for a node of `pool` that drifted for `reason`."""
    return {ANNOTATION: msgspec.json.encode(_launched_for(reason, pool)).decode()}


def find_loops(snapshot: Snapshot) -> Loops:
    """Every drift that replacing nodes does not end, with one replacement that shows it."""
    loops: dict[tuple[str, str], ClusterNode] = {}
    for node in snapshot.nodes:
        launched = _read(node.claim) if node.claim is not None and not node.deleting else None
        pool = snapshot.nodepools.get(node.nodepool_name)
        if launched is None or pool is None or node.claim is None:
            continue
        if launched == _launched_for(launched.reason, pool) and (
            drift_reason(node.claim, pool, snapshot) == launched.reason
        ):
            loops.setdefault((pool.name, launched.reason), node)
    return loops


def loop_refusal(about: ObjectRef, pool: str, reason: str, loops: Loops) -> Refusal | None:
    """Why drift of the NodePool for `reason` is stopped, as a refusal about `about`; None if it is not."""
    found = loops.get((pool, reason))
    if found is None:
        return None
    code, other = RefusalCode.DRIFT_NOT_FIXED, node_ref(found.name)
    return Refusal(code, about, permanent=True, nodepool=pool, other=other, detail=reason)


def _launched_for(reason: str, pool: NodePool) -> DriftReplacement:
    state = pool.metadata.annotations.get(NODE_CLASS_STATE, "")
    return DriftReplacement(reason=reason, generation=pool.metadata.generation, node_class_state=state)


def _read(claim: NodeClaim) -> DriftReplacement | None:
    written = claim.metadata.annotations.get(ANNOTATION)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=DriftReplacement)
    except msgspec.DecodeError:
        return None  # not written by Dovetail
