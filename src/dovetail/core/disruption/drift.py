"""Whether a node no longer is what its NodePool asks for.

By fingerprint (both stamped by the same version), by requirements (the node's labels no longer meet them), by instance
type (no longer sold), or because the provider said so. Behavioural fields never drift: they are not in the fingerprint.

Drift that replacing a node does not end: its replacement is drifted for the same reason.

A NodeClaim launched to replace a drifted node carries an annotation: the reason of the drift, and the desired state it
was launched under (generation of the NodePool, state of the node class). If that claim is drifted for the same reason
while the desired state is still the same, another replacement would be no better. Drift of that NodePool for that
reason then stops until the NodePool, its node class, or what the class resolves to changes.

Everything is read from API objects, so a restart changes nothing. Without the state of the class, a second release of
an image shortly after the first would look like a loop.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

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
from dovetail.model.requirements import NORMALISED_LABELS, Requirements
from dovetail.model.snapshot import ClusterNode, Snapshot

NODEPOOL_DRIFTED = "NodePoolDrifted"
REQUIREMENTS_DRIFTED = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND = "InstanceTypeNotFound"
OURS = frozenset({NODEPOOL_DRIFTED, REQUIREMENTS_DRIFTED, INSTANCE_TYPE_NOT_FOUND})
INSTANT = timedelta(microseconds=1)
SETTLING = timedelta(hours=1)
"""A young node is not held against the catalogue: both may still be settling."""


def drift_reason(claim: NodeClaim, pool: NodePool, snapshot: Snapshot) -> str:
    """Why the claim has drifted, or empty. What only the provider can know is read from the claim's own condition."""
    if not claim.has(LAUNCHED):
        return ""
    reason = deviation(claim, pool, snapshot.types_by_pool.get(pool.name), snapshot.at)
    if reason:
        return reason
    said = find(claim.status.conditions, DRIFTED)
    return said.reason if said is not None and said.status == "True" and said.reason not in OURS else ""


def deviation(claim: NodeClaim, pool: NodePool, types: Mapping[str, InstanceType] | None, now: datetime) -> str:
    """Why a claim that was launched has drifted, as far as can be seen without its provider; empty if it has not."""
    if has_changed(claim.metadata.annotations, pool):
        return NODEPOOL_DRIFTED
    if _misses(pool.spec.template.spec.requirements, claim.metadata.labels):
        return REQUIREMENTS_DRIFTED
    return INSTANCE_TYPE_NOT_FOUND if _type_is_gone(claim, types, now) else ""


def settles_at(claim: NodeClaim, now: datetime) -> datetime | None:
    """When a young claim begins to be held against the catalogue; None if it is already, or never will be."""
    created_at = claim.metadata.creation_timestamp
    young = created_at is not None and now - created_at <= SETTLING
    return add(created_at, SETTLING + INSTANT) if created_at is not None and young else None


def _misses(requirements: tuple[NodeSelectorRequirement, ...], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is not what a pool requires."""
    wanted = read_requirements(requirements)
    aliases = [each for each, key in NORMALISED_LABELS.items() if key in wanted]
    said = {name: labels[name] for name in (*wanted, *aliases) if name in labels}
    return Requirements.from_labels(said).compatible(wanted) is not None


def _type_is_gone(claim: NodeClaim, types: Mapping[str, InstanceType] | None, now: datetime) -> bool:
    created_at = claim.metadata.creation_timestamp
    if not types or created_at is None or now - created_at <= SETTLING:
        return False
    labels = claim.metadata.labels
    sold = types.get(labels.get(INSTANCE_TYPE, ""))
    if sold is None:
        return True
    bought = labels.get(CAPACITY_TYPE, "")
    accepted = {bought, ON_DEMAND} if bought == RESERVED else {bought}
    return not any(each.zone == labels.get(ZONE) and each.capacity_type in accepted for each in sold.offerings)


ANNOTATION = "dovetail.sh/drift-replacement"

Loops = Mapping[tuple[str, str], ClusterNode]
"""By NodePool and reason of drift: a node that was launched to end that drift and has it as well."""


class DriftReplacement(ApiStruct, frozen=True, kw_only=True):
    """Why a claim was launched, and the desired state it was launched under."""

    reason: str
    generation: int
    node_class_state: str = ""


def replacement_annotation(reason: str, pool: NodePool) -> dict[str, str]:
    """What the replacements of a node of `pool` that drifted for `reason` carry."""
    return {ANNOTATION: msgspec.json.encode(_launched_for(reason, pool)).decode()}


def find_loops(snapshot: Snapshot) -> Loops:
    """Every drift that replacing nodes does not end, with one of the nodes that show it."""
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
    """Why a node of the pool, or the pool itself, that drifted for `reason` is not replaced; or None."""
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
        return None  # written by somebody else: no evidence
