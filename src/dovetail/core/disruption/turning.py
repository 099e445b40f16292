"""When a pass over an unchanged cluster could come out differently: the next instant at which a clock runs out.

Waits of nodes, protection of pods, windows of budgets, back-off of pools. Until then, and while nothing changes, there
is nothing new to find. What moves by itself without an instant (a cost that shrinks with the lifetime left) is not told
here, so whoever relies on this looks again now and then all the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from dovetail.core.disruption.allowance import read_budgets
from dovetail.core.disruption.waits import consolidation_wait, drift_wait, emptiness_wait, expiration_wait, grace_wait
from dovetail.model.nodepool import NodePool
from dovetail.model.protection import protection
from dovetail.model.reason import Reason
from dovetail.model.snapshot import ClusterNode, Snapshot

WAITS = (consolidation_wait, emptiness_wait, grace_wait, expiration_wait, drift_wait)


def next_turn(snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime]) -> datetime | None:
    """The first instant after the snapshot's at which something lifts or begins by itself; None if nothing does."""
    now = snapshot.at
    instants: list[datetime] = [until for until in backing_off.values() if until > now]
    for pool in snapshot.nodepools.values():
        instants.extend(_edges(pool, now))
        paused = snapshot.pause_of(pool.name)
        if paused is not None and paused.until is not None:
            instants.append(paused.until)
    for node in snapshot.nodes:
        instants.extend(_lifts(node, snapshot.nodepools.get(node.nodepool_name), now))
    return min(instants, default=None)


def _edges(pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When a budget's window opens, or may close: windows that follow each other without a gap are told one by one."""
    try:
        budgets = read_budgets(pool)
    except ValueError:
        return  # blocked until somebody writes it anew
    for window in (budget.window for budget in budgets if budget.window is not None):
        opened = window.schedule.last_at_or_before(now, window.duration)
        edge = opened + window.duration if opened is not None else window.schedule.next_after(now)
        if edge is not None:
            yield edge


def _lifts(node: ClusterNode, pool: NodePool | None, now: datetime) -> Iterable[datetime]:
    """When one of a node's waits is over, or one of its pods is no longer protected."""
    if pool is None or node.claim is None:
        return
    for wait in WAITS:
        until = wait(pool, node.claim, now).until
        if until is not None:
            yield until
    for pod in node.pods:
        if pod.metadata.annotations:
            protected = protection(pod, now)
            if protected.active and protected.until is not None:
                yield protected.until
