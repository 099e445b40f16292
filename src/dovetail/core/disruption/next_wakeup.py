"""When a pass over an unchanged cluster could come out differently: the next instant at which a clock runs out.

Waits of nodes, protection of pods, windows of budgets, back-off of pools. Until then, and while nothing changes, there
is nothing new to find. What moves by itself without an instant (a cost that shrinks with the lifetime left) is not told
here, so whoever relies on this looks again now and then all the same.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from dovetail.core.disruption.delays import consolidation_wait, drift_wait, emptiness_wait, expiration_wait, grace_wait
from dovetail.core.provisioning.launch_backoff import in_force
from dovetail.model.do_not_disrupt import protection
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode, Snapshot

WAITS = (consolidation_wait, emptiness_wait, grace_wait, expiration_wait, drift_wait)


def next_turn(snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime]) -> datetime | None:
    """The first instant after the snapshot's at which something lifts or begins by itself; None if nothing does."""
    now = snapshot.at
    instants: list[datetime] = [until for until in backing_off.values() if until > now]
    instants.extend(backoff.until for backoff in in_force(snapshot).values())
    for pool in snapshot.nodepools.values():
        instants.extend(_edges(pool, now))
        paused = snapshot.pause_of(pool.name)
        if paused is not None and paused.until is not None:
            instants.append(paused.until)
    for node in snapshot.nodes:
        own = snapshot.nodepools.get(node.nodepool_name)
        if own is not None and node.claim is not None:
            instants.extend(_lifts(node, node.claim, own, now))
    return min(instants, default=None)


def _edges(pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When a budget's window opens or closes."""
    for budget in pool.budgets:
        edge = budget.closes_at(now) or budget.opens_at(now)
        if edge is not None:
            yield edge


def _lifts(node: ClusterNode, claim: NodeClaim, pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When one of a node's waits is over, or one of its pods is no longer protected."""
    for wait in WAITS:
        until = wait(pool, claim, now).until
        if until is not None:
            yield until
    for pod in node.pods:
        if pod.metadata.annotations:
            protected = protection(pod, now)
            if protected.active and protected.until is not None:
                yield protected.until
