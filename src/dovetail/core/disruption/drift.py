"""Whether a node no longer is what its NodePool asks for.

By fingerprint (both stamped by the same version), by requirements (the node's labels no longer meet them), by instance
type (no longer sold), or because the provider said so. Behavioural fields never drift: they are not in the fingerprint.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION, template_hash
from dovetail.model.catalog import InstanceType
from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    ON_DEMAND,
    RESERVED,
    ZONE,
)
from dovetail.model.nodeclaim import DRIFTED, LAUNCHED, NodeClaim
from dovetail.model.nodepool import NodePool, read_requirements
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.requirement import NORMALISED_LABELS
from dovetail.model.requirements import Requirements
from dovetail.model.snapshot import Snapshot

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
    if _static(claim, pool):
        return NODEPOOL_DRIFTED
    if _misses(pool.spec.template.spec.requirements, claim.metadata.labels):
        return REQUIREMENTS_DRIFTED
    return INSTANCE_TYPE_NOT_FOUND if _type_is_gone(claim, types, now) else ""


def settles_at(claim: NodeClaim, now: datetime) -> datetime | None:
    """When a young claim begins to be held against the catalogue; None if it is already, or never will be."""
    created_at = claim.metadata.creation_timestamp
    young = created_at is not None and now - created_at <= SETTLING
    return add(created_at, SETTLING + INSTANT) if created_at is not None and young else None


def _static(claim: NodeClaim, pool: NodePool) -> bool:
    stamped = claim.metadata.annotations
    comparable = stamped.get(NODEPOOL_HASH_VERSION) == HASH_VERSION and NODEPOOL_HASH in stamped
    return comparable and stamped[NODEPOOL_HASH] != template_hash(pool)


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
