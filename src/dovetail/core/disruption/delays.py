"""The clocks a NodePool puts before each action: how long a node must have been quiet, empty, drifted or alive.

Where a field and an action control speak of the same thing, the longer wait wins. `Never` means never.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model.conditions import find
from dovetail.model.duration import Delay
from dovetail.model.instants import add
from dovetail.model.nodeclaim import DRIFTED, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import ACTIONS_BY_REASON, Reason

ZERO = timedelta()


@dataclass(frozen=True, slots=True)
class DelayState:
    """Whether a clock has run out; `until` is when it will, None if it never does or has already."""

    over: bool
    until: datetime | None = None
    started: bool = True  # what it counts from has happened

    @property
    def never(self) -> bool:
        """Whether waiting is in vain."""
        return not self.over and self.until is None


OVER = DelayState(over=True)
NEVER = DelayState(over=False)
UNSTARTED = DelayState(over=False, started=False)


def control(pool: NodePool, reason: Reason) -> Delay | None:
    """The wait that the most specific action control with one asks for; `All` is the default of all actions."""
    entries = pool.action_controls
    waits = (entries[action].disrupt_after for action in ACTIONS_BY_REASON[reason] if action in entries)
    return next((wait for wait in waits if wait is not None), None)


def longer(*delays: Delay | None) -> timedelta | None:
    """The longest of several waits; None if any of them is Never. Absent ones ask nothing."""
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
    """Whether `wait` has passed since then; a clock that has not started never runs out."""
    if wait is None:
        return NEVER
    if since is None:
        return UNSTARTED
    until = add(since, wait)
    return OVER if now >= until else DelayState(over=False, until=until)


def consolidation_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidateAfter`, and the action control for Consolidation."""
    return elapsed(claim.quiet_since, consolidation_span(pool), now)


def consolidation_span(pool: NodePool) -> timedelta | None:
    """How long a node of the pool must have been quiet; None for ever."""
    return longer(pool.spec.disruption.consolidate_after, control(pool, Reason.UNDERUTILIZED))


def has_grace(pool: NodePool) -> bool:
    """Whether nodes take no part in consolidation for a while after something happened on them."""
    period = pool.spec.disruption.consolidation_grace_period
    return period is not None and period.span is not None


def consolidation_window(pool: NodePool) -> timedelta:
    """How long consolidation waits for a node of the pool to become quiet, if it does not do so for ever."""
    period = pool.spec.disruption.consolidation_grace_period
    grace = period.span if period is not None else None
    return max(consolidation_span(pool) or ZERO, grace or ZERO)


def emptiness_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidateAfter`, and the action control for Emptiness, or else that for Consolidation."""
    return elapsed(claim.quiet_since, longer(pool.spec.disruption.consolidate_after, control(pool, Reason.EMPTY)), now)


def grace_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """`consolidationGracePeriod`: after any pod event the node takes no part in consolidation. Never means unset."""
    period = pool.spec.disruption.consolidation_grace_period
    if period is None or period.span is None:
        return OVER
    return elapsed(claim.quiet_since, period.span, now)


def expiration_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """Soft expiration: `disruption.expireAfter`, and the action control for Expiration. Neither written: never."""
    if not pool.soft_expiration:
        return NEVER
    return elapsed(claim.metadata.creation_timestamp, expiration_span(pool), now)


def expiration_span(pool: NodePool) -> timedelta | None:
    """The age at which nodes of a pool with soft expiration are replaced; None for never."""
    return longer(pool.spec.disruption.expire_after, control(pool, Reason.EXPIRED))


def expiration_without_budgets(pool: NodePool) -> str:
    """How nodes of the pool expire, where no budget applies to it; empty where they are replaced within budgets."""
    if pool.soft_expiration and expiration_span(pool) is not None:
        return ""
    hard = pool.hard_expire_after
    return "nodes never expire" if hard.never else f"hard at {hard}: budgets do not apply"


def budgets_apply(pool: NodePool, reason: Reason) -> bool:
    """Whether nodes of the pool that go for this reason go within budgets."""
    return reason is not Reason.EXPIRED or not expiration_without_budgets(pool)


def drift_wait(pool: NodePool, claim: NodeClaim, now: datetime) -> DelayState:
    """The action control for Drift, from when the node was found to have drifted."""
    drifted = find(claim.status.conditions, DRIFTED)
    since = drifted.last_transition_time if drifted is not None and drifted.status == "True" else None
    return elapsed(since, longer(control(pool, Reason.DRIFTED)), now)
