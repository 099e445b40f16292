"""Whether a NodePool's limits leave room for one more claim, at the instant it is made.

A plan keeps to limits as they were when it was made. Between plan and purchase somebody else may have bought.
"""

from collections.abc import Collection

from dovetail.core.scheduling.nodepool_limits import describe_limit, limit_usage
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.quantity import ZERO
from dovetail.model.snapshot import ClusterNode, Snapshot


def beyond_limits(snapshot: Snapshot, claim: NodeClaim, leaving: Collection[str] = ()) -> str:
    """Which limits of its pool the claim would exceed at the largest it may become; empty if none.

    `leaving` names the claims that the same command removes; they do not count.
    """
    pool = snapshot.nodepools.get(claim.nodepool_name)
    if pool is None or not pool.spec.limits:
        return ""
    used, size = limit_usage(snapshot, pool.name, leaving), snapshot.size(ClusterNode(None, claim))
    over = [
        describe_limit(name, limit, used.get(name, ZERO), f"up to {size.get(name, ZERO)}")
        for name, limit in sorted(pool.spec.limits.items())
        if used.get(name, ZERO) + size.get(name, ZERO) > limit
    ]
    return f"no room within the limits of nodepool {pool.name}: {'; '.join(over)}" if over else ""
