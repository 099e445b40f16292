"""Whether a NodePool's limits leave room for one more claim, at the instant it is made.

A plan keeps to limits as they were when it was made. Between plan and purchase somebody else may have bought.
"""

from dataclasses import replace

from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.quantity import ZERO
from dovetail.model.snapshot import ClusterNode, Snapshot


def beyond_limits(snapshot: Snapshot, claim: NodeClaim) -> str:
    """Which limit of its pool the claim would exceed at the largest it may become; empty if none."""
    pool = snapshot.nodepools.get(claim.nodepool_name)
    if pool is None or not pool.spec.limits:
        return ""
    used = replace(snapshot, nodes=(*snapshot.nodes, ClusterNode(None, claim))).usage(pool.name)
    over = [name for name, limit in sorted(pool.spec.limits.items()) if used.get(name, ZERO) > limit]
    return f"nodepool {pool.name} has no room left within its limits for {', '.join(over)}" if over else ""
