"""How far a node has come, in one word, for everyone who shows it."""

from dovetail.model.nodeclaim import REGISTERED
from dovetail.model.snapshot import ClusterNode


def stage_of(each: ClusterNode) -> str:
    """Launching, Registering, NotReady, Ready, Draining; Lost where a registered node is gone."""
    claim, node = each.claim, each.node
    if each.deleting or (node is not None and node.deleting):
        return "Draining"
    if claim is not None and node is None:
        if claim.has(REGISTERED):
            return "Lost"
        return "Registering" if claim.provider_id else "Launching"
    if not each.registered:
        return "Registering"
    return "Ready" if each.initialized and node is not None and node.ready else "NotReady"
