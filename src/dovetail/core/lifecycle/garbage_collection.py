"""What is left over when one of instance, NodeClaim and Node is gone behind our back.

All comparisons fail closed: an instance is left alone while it is young or may belong to a claim that does not
know its instance yet, and whatever still reports Ready is proof that a list is wrong. Waits are Karpenter's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model.catalog import Instance
from dovetail.model.labels import NODEPOOL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import REGISTERED, NodeClaim

YOUNG = timedelta(seconds=30)
"""A launch is written down on its claim well within this time."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Everything at one instant: all claims, the nodes that are the provider's, and the instances it has.

    Claims and nodes that cannot be read are never left over themselves, and keep the instances they name.
    """

    claims: tuple[NodeClaim, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]
    hidden_claims: tuple[NodeClaim, ...] = ()
    hidden_nodes: tuple[Node, ...] = ()

    @property
    def all_claims(self) -> tuple[NodeClaim, ...]:
        """Those that cannot be read included."""
        return (*self.claims, *self.hidden_claims)


def lost_claims(holdings: Holdings) -> tuple[NodeClaim, ...]:
    """Registered claims whose instance is gone or going, and whose node is missing or not ready."""
    alive = {instance.provider_id for instance in holdings.instances if not instance.terminating}
    missed = [claim for claim in holdings.claims if claim.status.provider_id not in alive]  # as a rule none, or few
    ready = {node.provider_id for node in holdings.nodes if node.ready} if missed else set()
    ready.update(node.provider_id for node in holdings.hidden_nodes)  # they may be
    return tuple(
        claim
        for claim in missed
        if claim.has(REGISTERED) and not claim.deleting and claim.provider_id and claim.provider_id not in ready
    )


def nodeless_claims(holdings: Holdings) -> tuple[NodeClaim, ...]:
    """Registered claims whose instance runs and whose node is missing: no pod can be scheduled there any more."""
    joined = {node.spec.provider_id for node in (*holdings.nodes, *holdings.hidden_nodes)}
    alone = [claim for claim in holdings.claims if claim.status.provider_id not in joined]  # as a rule none, or few
    return tuple(claim for claim in alone if claim.has(REGISTERED) and not claim.deleting and claim.provider_id)


def leaked_instances(holdings: Holdings, now: datetime) -> tuple[Instance, ...]:
    """Instances that no claim has and none can be about to have."""
    claimed = {claim.status.provider_id for claim in holdings.all_claims}
    claimed.update(node.provider_id for node in holdings.hidden_nodes)  # what runs there is not known
    unclaimed = [instance for instance in holdings.instances if instance.provider_id not in claimed]
    unlaunched = [claim for claim in holdings.all_claims if not claim.provider_id] if unclaimed else []
    return tuple(
        instance
        for instance in unclaimed
        if not instance.terminating
        and _old_enough(instance.launched_at, now)
        and not any(_may_be_of(claim, instance) for claim in unlaunched)
    )


def orphaned_nodes(holdings: Holdings, now: datetime) -> tuple[Node, ...]:
    """Nodes that have neither claim nor instance, and say themselves that they are not ready."""
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


def nothing_is_left(holdings: Holdings, now: datetime) -> bool:
    """Whether all three belong together, and no wait has to pass first: so it stays until one of them changes."""
    later = now + 2 * YOUNG
    return not (
        lost_claims(holdings)
        or nodeless_claims(holdings)
        or leaked_instances(holdings, later)
        or orphaned_nodes(holdings, later)
    )


def _old_enough(since: datetime | None, now: datetime) -> bool:
    """Whether it is older than a launch may take; what does not tell its age is never old."""
    return since is not None and now - since > YOUNG


def _may_be_of(claim: NodeClaim, instance: Instance) -> bool:
    """Whether the instance may have been launched for a claim that has not been told of it."""
    created_at, launched_at = claim.metadata.creation_timestamp, instance.launched_at
    same_pool = not claim.nodepool_name or instance.labels.get(NODEPOOL, claim.nodepool_name) == claim.nodepool_name
    return same_pool and (created_at is None or launched_at is None or launched_at >= created_at)


def nodes_of(instance: Instance, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes an instance became."""
    return tuple(node for node in nodes if node.provider_id == instance.provider_id)
