"""The delays a NodePool sets before each disruption action, and whether they have passed for a NodeClaim.

`consolidateAfter` and `consolidationGracePeriod` count from the node's last pod event, `disruption.expireAfter` from
the NodeClaim's creation, `disruptAfter` of Drift from the `Drifted` condition. Where a field and `disruptAfter` of an
action control both apply, the longer one wins. `Never` disables the action.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.core.lifecycle.pod_events import bound_at
from dovetail.model.cached import once
from dovetail.model.conditions import find
from dovetail.model.duration import Delay
from dovetail.model.instants import add
from dovetail.model.nodeclaim import DRIFTED, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.reason import ACTIONS_BY_REASON, Reason

ZERO = timedelta()
COOL_DOWN = timedelta(minutes=2)
"""How long consolidation leaves a pod alone after it was bound, in NodePools with minSavings."""
TURNOVER_WINDOW = timedelta(hours=1)
"""How long a pod counts as turnover after it was bound; see `core.disruption.restraint`."""


@dataclass(frozen=True, slots=True)
class DelayState:
    """Whether a delay has passed; otherwise `until` is when it will, None if it never does."""

    over: bool
    until: datetime | None = None
    started: bool = True  # the event that the delay counts from has happened

    @property
    def never(self) -> bool:
        """Whether the delay does not pass by itself."""
        return not self.over and self.until is None


OVER = DelayState(over=True)
NEVER = DelayState(over=False)
UNSTARTED = DelayState(over=False, started=False)


def control(pool: NodePool, reason: Reason) -> Delay | None:
    """`disruptAfter` of the most specific action control that sets it; `All` is the default of every action."""
    entries = pool.action_controls
    delays = (entries[action].disrupt_after for action in ACTIONS_BY_REASON[reason] if action in entries)
    return next((delay for delay in delays if delay is not None), None)


def longer(*delays: Delay | None) -> timedelta | None:
    """The longest of several delays, 0 if all are unset; None if any of them is Never."""
    longest: timedelta | None = None
    for delay in delays:
        if delay is not None:
            span = delay.span
            if span is None:
                return None
            if longest is None or span > longest:
                longest = span
    return ZERO if longest is None else longest


def elapsed(since: datetime | None, wait: timedelta | None, now: datetime) -> DelayState:
    """Whether `wait` has passed since then; None as `wait` is Never, None as `since` is not started."""
    if wait is None:
        return NEVER
    if since is None:
        return UNSTARTED
    until = add(since, wait)
    return OVER if now >= until else DelayState(over=False, until=until)


def consolidation_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidateAfter`, and `disruptAfter` of Consolidation."""
    return elapsed(claim.pods_unchanged_since, consolidation_span(pool), now)


@once
def consolidation_span(pool: NodePool) -> timedelta | None:
    """How long a node must have had no pod event before it is consolidated; None for Never."""
    return longer(pool.spec.disruption.consolidate_after, control(pool, Reason.UNDERUTILIZED))


def has_grace(pool: NodePool) -> bool:
    """Whether the NodePool sets a consolidationGracePeriod."""
    period = pool.spec.disruption.consolidation_grace_period
    return period is not None and period.span is not None


def consolidation_window(pool: NodePool) -> timedelta:
    """How long after a pod event a node takes no part in consolidation, neither as source nor as destination."""
    period = pool.spec.disruption.consolidation_grace_period
    grace = period.span if period is not None else None
    return max(consolidation_span(pool) or ZERO, grace or ZERO)


def emptiness_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidateAfter`, and `disruptAfter` of Emptiness, or else of Consolidation."""
    return elapsed(claim.pods_unchanged_since, emptiness_span(pool), now)


@once
def emptiness_span(pool: NodePool) -> timedelta | None:
    """How long an empty node must have had no pod event before it is removed; None for Never."""
    return longer(pool.spec.disruption.consolidate_after, control(pool, Reason.EMPTY))


def grace_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidationGracePeriod`, counted from the last pod event. Never is the same as unset."""
    period = pool.spec.disruption.consolidation_grace_period
    if period is None or period.span is None:
        return OVER
    return elapsed(claim.pods_unchanged_since, period.span, now)


def cool_down(pool: NodePool, pods: Iterable[Pod], now: datetime) -> DelayState:
    """`COOL_DOWN` since the last of these pods was bound; over without minSavings."""
    latest = last_bound_at(pool, pods)
    return OVER if latest is None else elapsed(latest, COOL_DOWN, now)


def last_bound_at(pool: NodePool, pods: Iterable[Pod]) -> datetime | None:
    """When the last of these pods was bound; None without minSavings, where it does not matter."""
    if pool.min_savings is None:
        return None
    bound = (bound_at(pod) for pod in pods if pod.reschedulable)
    return max((at for at in bound if at is not None), default=None)


def expiration_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """Soft expiration: `disruption.expireAfter`, and `disruptAfter` of Expiration. Never if neither is set."""
    if not pool.soft_expiration:
        return NEVER
    return elapsed(claim.metadata.creation_timestamp, expiration_span(pool), now)


@once
def expiration_span(pool: NodePool) -> timedelta | None:
    """The age at which nodes of a NodePool with soft expiration are replaced; None for Never."""
    return longer(pool.spec.disruption.expire_after, control(pool, Reason.EXPIRED))


def expiration_without_budgets(pool: NodePool) -> str:
    """How nodes of the NodePool expire if no budget applies; empty if they are replaced within budgets."""
    if pool.soft_expiration and expiration_span(pool) is not None:
        return ""
    hard = pool.hard_expire_after
    return "nodes never expire" if hard.never else f"after {hard}, regardless of budgets"


def budgets_apply(pool: NodePool, reason: Reason) -> bool:
    """Whether budgets limit the disruption of the NodePool's nodes for this reason."""
    return reason is not Reason.EXPIRED or not expiration_without_budgets(pool)


def drift_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`disruptAfter` of Drift, counted from the `Drifted` condition."""
    drifted = find(claim.status.conditions, DRIFTED)
    since = drifted.last_transition_time if drifted is not None and drifted.status == "True" else None
    return elapsed(since, drift_span(pool), now)


@once
def drift_span(pool: NodePool) -> timedelta | None:
    """How long a node must have been drifted before it is replaced; None for Never."""
    return longer(control(pool, Reason.DRIFTED))
