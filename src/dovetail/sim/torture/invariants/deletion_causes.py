"""Reasons for which a NodeClaim is deleted without a command: they need no budget, no protection and no replacement."""

from datetime import timedelta

from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import NEVER, duration
from dovetail.sim.torture.invariants.repair_policies import is_due


def needs_no_command(claim: ClaimView, history: Observer) -> bool:
    """Whether it goes for such a reason: never a node, deleted with its node, warned of, lost, expired or unhealthy."""
    return is_forced_otherwise(claim, history) or is_due(claim, history)


def is_forced_otherwise(claim: ClaimView, history: Observer) -> bool:
    """Whether it goes for one of these reasons, repair left aside."""
    node = history.node_of(claim)
    if not claim.has("Registered") or node is None or node.value.deleting:
        return True
    if node.value.provider_id in history.warned:
        return True
    unready_lately = not node.value.ready or history.now - node.last_unready <= history.stale
    if node.value.name in history.lost_nodes and unready_lately:
        return True
    return _expired(claim, history)


def _expired(claim: ClaimView, history: Observer) -> bool:
    seconds = duration(claim.plain["spec"].get("expireAfter") or "Never")
    if seconds == NEVER:
        return False
    ends_at = claim.created_at + timedelta(seconds=seconds)
    return any(now >= ends_at for now in history.instants())
