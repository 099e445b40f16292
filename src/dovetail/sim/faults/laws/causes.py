"""Reasons for which a NodeClaim is deleted without a command: they need no budget, no protection and no replacement."""

from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.sim.faults.history import History

_SICK = {("Ready", "False"), ("Ready", "Unknown"), ("NetworkUnavailable", "True")}
_PRESSED = {("DiskPressure", "True"), ("MemoryPressure", "True"), ("PIDPressure", "True")}


def needs_no_command(claim: NodeClaim, history: History) -> bool:
    """Whether it goes for such a reason: never a node, deleted with its node, warned of, lost, expired or unhealthy."""
    node = history.node_of(claim)
    if not claim.has(REGISTERED) or node is None or node.value.deleting:
        return True
    if node.value.provider_id in history.warned:
        return True
    unready_lately = not node.value.ready or history.now - node.last_unready <= history.stale
    if node.value.name in history.lost_nodes and unready_lately:
        return True
    return _expired(claim, history) or _sick(claim, history)


def _expired(claim: NodeClaim, history: History) -> bool:
    created_at, expire_after = claim.metadata.creation_timestamp, claim.spec.expire_after
    if created_at is None or expire_after is None or expire_after.span is None:
        return False
    return any(now >= created_at + expire_after.span for now in history.instants())


def _sick(claim: NodeClaim, history: History) -> bool:
    node = history.node_of(claim)
    pools = history.versions(claim.nodepool_name, history.now - history.stale)
    if node is None or not any(pool.spec.repair is not None for pool in pools):
        return False
    said = {(each.type, each.status) for each in node.value.status.conditions}
    return bool(said & (_SICK | _PRESSED))
