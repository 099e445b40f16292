"""When a pass over an unchanged cluster could come out differently: the next instant at which a clock runs out.

Waits of nodes, protection of pods, windows of budgets, back-off of pools. Until then, and while nothing changes, there
is nothing new to find. What moves by itself without an instant (a cost that shrinks with the lifetime left) is not told
here, so whoever relies on this looks again now and then all the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from dovetail.core.disruption.delays import consolidation_wait, drift_wait, emptiness_wait, expiration_wait, grace_wait
from dovetail.core.provisioning.launch_backoff import in_force
from dovetail.model.do_not_disrupt import protection
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode, Snapshot


class NextWakeups:
    """When each node first lifts something, kept for as long as the node and what its pool means stay as they are."""

    def __init__(self) -> None:
        self._pools: dict[str, NodePool] = {}
        self._firsts: dict[str, tuple[ClusterNode, NodePool, datetime | None]] = {}

    def pool(self, name: str, pool: NodePool | None) -> NodePool | None:
        """The pool, the same value for as long as nothing but its counts changes."""
        if pool is None:
            return None
        known = self._pools.get(name)
        if known is None or not (known is pool or known.equal_ignoring_counts(pool)):
            known = self._pools[name] = pool
        return known

    def first(self, node: ClusterNode, pool: NodePool | None, now: datetime) -> datetime | None:
        """The first instant after `now` at which something about a node lifts."""
        if pool is None or node.claim is None:
            return None
        known = self._firsts.get(node.name)
        if known is not None and known[0] is node and known[1] is pool and (known[2] is None or known[2] > now):
            return known[2]
        first = min(_lifts(node, pool, now), default=None)
        self._firsts[node.name] = node, pool, first
        return first

    def shrink(self, nodes: int) -> None:
        """Nodes come and go: forget when most of what is known is of nodes that went."""
        if len(self._firsts) > 2 * nodes:
            self._firsts.clear()


WAITS = (consolidation_wait, emptiness_wait, grace_wait, expiration_wait, drift_wait)


def next_turn(
    snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime], turns: NextWakeups | None = None
) -> datetime | None:
    """The first instant after the snapshot's at which something lifts or begins by itself; None if nothing does."""
    now = snapshot.at
    turns = turns or NextWakeups()
    turns.shrink(len(snapshot.nodes))
    instants: list[datetime] = [until for until in backing_off.values() if until > now]
    instants.extend(backoff.until for backoff in in_force(snapshot).values())
    for pool in snapshot.nodepools.values():
        instants.extend(_edges(pool, now))
        paused = snapshot.pause_of(pool.name)
        if paused is not None and paused.until is not None:
            instants.append(paused.until)
    pools = {name: turns.pool(name, pool) for name, pool in snapshot.nodepools.items()}
    firsts = (turns.first(node, pools.get(node.nodepool_name), now) for node in snapshot.nodes)
    instants.extend(first for first in firsts if first is not None)
    return min(instants, default=None)


def _edges(pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When a budget's window opens or closes."""
    for budget in pool.budgets:
        edge = budget.closes_at(now) or budget.opens_at(now)
        if edge is not None:
            yield edge


def _lifts(node: ClusterNode, pool: NodePool, now: datetime) -> Iterable[datetime]:
    """When one of a node's waits is over, or one of its pods is no longer protected."""
    assert node.claim is not None, "only managed nodes wait"
    for wait in WAITS:
        until = wait(pool, node.claim, now).until
        if until is not None:
            yield until
    for pod in node.pods:
        if pod.metadata.annotations:
            protected = protection(pod, now)
            if protected.active and protected.until is not None:
                yield protected.until
