"""Finds leftovers when an instance, NodeClaim or Node disappears outside of the normal termination.

Every check fails closed. An instance is kept while it is young, or may belong to a NodeClaim whose launch is not
recorded yet. A node that reports Ready proves that the provider's list is incomplete. Delays are Karpenter's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model.catalog import Instance
from dovetail.model.labels import NODEPOOL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import REGISTERED, NodeClaim

YOUNG = timedelta(seconds=30)
"""A launch is recorded on its NodeClaim well within this time."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """All NodeClaims, managed Nodes and instances at one instant.

    `hidden` objects cannot be read: they are never leftovers themselves, and keep the instances they name.
    """

    claims: tuple[NodeClaim, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]
    hidden_claims: tuple[NodeClaim, ...] = ()
    hidden_nodes: tuple[Node, ...] = ()

    @property
    def all_claims(self) -> tuple[NodeClaim, ...]:
        """All NodeClaims, those that cannot be read included."""
        return (*self.claims, *self.hidden_claims)


def lost_claims(holdings: Holdings) -> tuple[NodeClaim, ...]:
    """Registered claims whose instance is gone or terminating, and whose node is missing or not ready."""
    alive = {instance.provider_id for instance in holdings.instances if not instance.terminating}
    missed = [claim for claim in holdings.claims if claim.status.provider_id not in alive]  # usually none, or few
    ready = {node.provider_id for node in holdings.nodes if node.ready} if missed else set()
    ready.update(node.provider_id for node in holdings.hidden_nodes)  # they may be ready
    return tuple(
        claim
        for claim in missed
        if claim.has(REGISTERED) and not claim.deleting and claim.provider_id and claim.provider_id not in ready
    )


def nodeless_claims(holdings: Holdings) -> tuple[NodeClaim, ...]:
    """Registered claims whose node is missing: no pod can be scheduled to the instance any more."""
    joined = {node.spec.provider_id for node in (*holdings.nodes, *holdings.hidden_nodes)}
    alone = [claim for claim in holdings.claims if claim.status.provider_id not in joined]  # usually none, or few
    return tuple(claim for claim in alone if claim.has(REGISTERED) and not claim.deleting and claim.provider_id)


def leaked_instances(holdings: Holdings, now: datetime) -> tuple[Instance, ...]:
    """Instances without a NodeClaim, which no launch in progress can have started."""
    claimed = {claim.status.provider_id for claim in holdings.all_claims}
    claimed.update(node.provider_id for node in holdings.hidden_nodes)  # their pods are unknown
    unclaimed = [instance for instance in holdings.instances if instance.provider_id not in claimed]
    unlaunched = [claim for claim in holdings.all_claims if not claim.provider_id] if unclaimed else []
    return tuple(
        instance
        for instance in unclaimed
        if not instance.terminating
        and _old_enough(instance.launched_at, now)
        and not any(_may_be_of(claim, instance) for claim in unlaunched)
    )


def claims_are_missing(holdings: Holdings) -> bool:
    """Whether instances run although there is no NodeClaim: rather a wrong cluster name or lost claims than leaks."""
    return not holdings.all_claims and any(not instance.terminating for instance in holdings.instances)


def orphaned_nodes(holdings: Holdings, now: datetime) -> tuple[Node, ...]:
    """Nodes with neither NodeClaim nor instance that are not ready."""
    claimed = {claim.status.provider_id for claim in holdings.all_claims}
    known = claimed.union([each.provider_id for each in holdings.instances])
    unknown = [node for node in holdings.nodes if node.spec.provider_id not in known]
    return tuple(
        node
        for node in unknown
        if node.provider_id
        and not node.ready
        and not node.deleting
        and _old_enough(node.metadata.creation_timestamp, now)
    )


def has_no_leftovers(holdings: Holdings, now: datetime) -> bool:
    """Whether there are no leftovers, now or after a delay, as long as no object or instance changes."""
    later = now + 2 * YOUNG
    return not (
        lost_claims(holdings)
        or nodeless_claims(holdings)
        or leaked_instances(holdings, later)
        or orphaned_nodes(holdings, later)
    )


def _old_enough(since: datetime | None, now: datetime) -> bool:
    """Whether it is older than a launch may take; without a known age it is not."""
    return since is not None and now - since > YOUNG


def _may_be_of(claim: NodeClaim, instance: Instance) -> bool:
    """Whether the instance may have been launched for this claim, which has no provider ID yet."""
    created_at, launched_at = claim.metadata.creation_timestamp, instance.launched_at
    same_pool = not claim.nodepool_name or instance.labels.get(NODEPOOL, claim.nodepool_name) == claim.nodepool_name
    return same_pool and (created_at is None or launched_at is None or launched_at >= created_at)


def nodes_of(instance: Instance, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes of an instance."""
    return tuple(node for node in nodes if node.provider_id == instance.provider_id)
