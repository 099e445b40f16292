"""Finds the verdict on a node: the soonest way it can leave, and what it waits for until then.

Every method is one way. Ways are ranked: a command of the next pass, a command of a later pass, a known time, a way
that only a budget closes, one that may open at any time, one that only a manual change opens, and methods that do not
apply to the node. The best way gives the verdict; among equals the one with the fewest obstacles, then the order of the
methods.

Three rules keep the verdict true. A budget is blamed only if the node could leave without it: not if another obstacle
of the same way remains. A set of nodes is a way only if the planner found one (`in_set`). Expiration counts as a way
only if no other one opens before, and if its drain ends: not if a pod can never be evicted and no
terminationGracePeriod bounds the drain. Otherwise it is only a date, `NodeVerdict.expires_at`. A node past its hard
expiration is leaving: its NodeClaim is deleted at once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import IntEnum, auto
from typing import NamedTuple

import msgspec

from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.core.disruption.methods.expiration import Expiration
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.explain.obstacles import NOT_APPLICABLE, MethodView
from dovetail.model.instants import LAST_INSTANT
from dovetail.model.kube_object import Key
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode
from dovetail.model.verdict import NodeVerdict, ObstacleGroup, Outcome

REPAIR = "repair"
_LATER_PASS = frozenset({RefusalCode.NOT_THE_BEST, RefusalCode.NEXT_PASS, RefusalCode.ANOTHER_FIRST})
_NOT_DUE = frozenset({RefusalCode.WAITING, RefusalCode.NEVER})
_STOPS_DRAINS = frozenset({RefusalCode.POD_DISRUPTION_BUDGET, RefusalCode.DO_NOT_DISRUPT_POD})
_BUDGETS = frozenset({RefusalCode.BUDGET, RefusalCode.BUDGET_UNREADABLE})
_NO_OBJECT = ObjectRef("", "")


class _Rank(IntEnum):
    NOW = auto()
    LATER_PASS = auto()
    KNOWN_TIME = auto()
    BUDGET_ALONE = auto()  # widening it changes the plan
    MAY_OPEN = auto()
    MANUAL_CHANGE = auto()
    NOT_APPLICABLE = auto()


_CLOSED = frozenset({_Rank.BUDGET_ALONE, _Rank.MANUAL_CHANGE})


class _Way(NamedTuple):
    rank: _Rank
    at: datetime  # the last instant, unless a time is known
    lasting: int  # obstacles without a known end
    last_resort: bool  # a set of nodes: its obstacles say less about this node
    view: MethodView


def find_verdict(
    views: Sequence[MethodView], wait: Refusal | None, at: datetime, *, in_set: bool, bounded: bool = False
) -> NodeVerdict:
    """The verdict at an instant, from the views of all methods. `wait`: what the node waits for regardless of the plan.

    `bounded`: a terminationGracePeriod ends the drain of the node.
    """
    ways = [_way(view, in_set=in_set) for view in _rankable(views)]
    best = min(ways, key=lambda way: way[:4])
    if wait is not None and (best.rank is not _Rank.NOW or wait.code in _LEAVING):
        return _waiting(wait)
    if best.view.command is not None:
        return _taken(best.view)
    due_at = _expires_at(views)
    known = best.at if best.rank is _Rank.KNOWN_TIME else None
    blamed = _blamed(best)
    obstacles = group_obstacles([(best.view.method, each) for each in blamed])
    removed_at = due_at if bounded or not _never_drains(views) else None
    if removed_at is not None and removed_at <= at:
        return _expired(views)
    nothing_opens = best.rank in _CLOSED and all(way.rank is not _Rank.MAY_OPEN for way in ways)
    if removed_at is not None and (nothing_opens or (known is not None and removed_at < known)):
        by, why = Expiration.name, Reason.EXPIRED
        return NodeVerdict(outcome=Outcome.CAN_LEAVE, method=by, reason=why, at=removed_at, obstacles=obstacles)
    can_leave = best.rank in (_Rank.LATER_PASS, _Rank.KNOWN_TIME)
    for_good = any(each.permanent for each in blamed) and all(_blocked_for_good(view) for view in views)
    return NodeVerdict(
        outcome=Outcome.CAN_LEAVE if can_leave else Outcome.STAYS,
        method=best.view.method if can_leave else "",
        reason=best.view.reason if can_leave else None,
        at=known,
        permanent=for_good and not can_leave and removed_at is None,
        obstacles=obstacles,
        expires_at=due_at if not can_leave or best.view.method != Expiration.name else None,
    )


def group_obstacles(obstacles: Iterable[tuple[str, Refusal]]) -> tuple[ObstacleGroup, ...]:
    """Each obstacle once, with its pods and the names it is given with (the methods it stops); in the order given."""
    found: dict[Refusal, list[tuple[str, Refusal]]] = {}
    for method, refusal in obstacles:
        found.setdefault(_kind(refusal), []).append((method, refusal))
    return tuple(
        ObstacleGroup(
            members[0][1],
            pods=tuple(dict.fromkeys(each.pod for _, each in members if each.pod is not None)),
            methods=tuple(dict.fromkeys(method for method, _ in members)),
        )
        for members in found.values()
    )


def _kind(refusal: Refusal) -> Refusal:
    """What equal obstacles have in common: for a PDB not the pod, and never the object or the reason."""
    pod: Key | None = None if refusal.code is RefusalCode.POD_DISRUPTION_BUDGET else refusal.pod
    reason = refusal.reason if refusal.code is RefusalCode.WAITING else None
    return msgspec.structs.replace(refusal, object=_NO_OBJECT, pod=pod, reason=reason)


_LEAVING = frozenset({RefusalCode.DRAINING, RefusalCode.DISRUPTING})


def _waiting(wait: Refusal) -> NodeVerdict:
    """The verdict on a node that waits for its drain, replacements, repair or registration."""
    obstacles = (ObstacleGroup(wait),)
    if wait.code in _LEAVING:
        at, permanent = wait.until, wait.permanent
        return NodeVerdict(outcome=Outcome.LEAVING, at=at, permanent=permanent, obstacles=obstacles)
    if wait.code is RefusalCode.UNHEALTHY and wait.until is not None:
        return NodeVerdict(outcome=Outcome.CAN_LEAVE, method=REPAIR, at=wait.until, obstacles=obstacles)
    return NodeVerdict(outcome=Outcome.STAYS, permanent=wait.permanent, obstacles=obstacles)


def _taken(view: MethodView) -> NodeVerdict:
    """The verdict on a node that a command takes, in this pass or after another method."""
    command = view.command
    assert command is not None, "only called for nodes with a command"
    return NodeVerdict(
        outcome=Outcome.CAN_LEAVE if view.after else Outcome.LEAVES,
        method=view.method,
        reason=view.reason,
        after=view.after,
        replacements=len(command.replacements),
        together=len(command.candidates),
        saving_per_month=command.saving * HOURS_PER_MONTH,
        unpriced=command.unpriced,
    )


def _rankable(views: Sequence[MethodView]) -> list[MethodView]:
    """The methods that may be the way: all but expiration that is not due yet, which is a deadline."""
    due = [view for view in views if view.method != Expiration.name or not _is_deadline(view)]
    return due or list(views)


def _is_deadline(view: MethodView) -> bool:
    return any(each.code in _NOT_DUE for each in view.obstacles)


def _expires_at(views: Sequence[MethodView]) -> datetime | None:
    """When expiration removes the node. Hard expiration waits for nothing else."""
    for view in views:
        if view.method == Expiration.name and _is_deadline(view):
            hard = (each.until for each in view.obstacles if each.code is RefusalCode.NEVER)
            return next((until for until in hard if until is not None), view.lifts_at)
    return None


def _expired(views: Sequence[MethodView]) -> NodeVerdict:
    """The verdict on a node past its hard expiration."""
    due = next(each for view in views for each in view.obstacles if each.code is RefusalCode.NEVER and each.until)
    return NodeVerdict(outcome=Outcome.LEAVING, obstacles=group_obstacles([(Expiration.name, due)]))


def _never_drains(views: Sequence[MethodView]) -> bool:
    """Whether a pod of the node can never be evicted, so that its drain would not end."""
    return any(each.permanent and each.code in _STOPS_DRAINS for view in views for each in view.obstacles)


def _way(view: MethodView, *, in_set: bool) -> _Way:
    lasting = [each for each in view.obstacles if each.until is None and not _is_about_others(each)]
    known = max((each.until for each in view.obstacles if each.until is not None), default=None)
    of_set = view.method == MultiNode.name
    if view.command is not None:
        rank = _Rank.LATER_PASS if view.after else _Rank.NOW
    elif any(each.code in NOT_APPLICABLE for each in view.obstacles) or (of_set and not in_set):
        rank = _Rank.NOT_APPLICABLE
    elif lasting and all(each.code in _BUDGETS for each in lasting):
        rank = _Rank.BUDGET_ALONE
    elif lasting:
        rank = _Rank.MANUAL_CHANGE if _blocked_for_good(view) else _Rank.MAY_OPEN
    else:
        rank = _Rank.LATER_PASS if known is None else _Rank.KNOWN_TIME
    # Where nothing applies, single-node consolidation has the most to say: what consolidation requires.
    last_resort = view.method != SingleNode.name if rank is _Rank.NOT_APPLICABLE else of_set
    at = known if rank is _Rank.KNOWN_TIME and known is not None else LAST_INSTANT
    return _Way(rank, at, len(lasting), last_resort, view)


def _is_about_others(refusal: Refusal) -> bool:
    """Whether the node only waits for other nodes: those that go first, or that use up a budget."""
    budget = refusal.budget
    return refusal.code in _LATER_PASS or (
        refusal.code is RefusalCode.BUDGET and budget is not None and budget.limit > 0
    )


def _blocked_for_good(view: MethodView) -> bool:
    return any(each.permanent for each in view.obstacles)


def _blamed(way: _Way) -> list[Refusal]:
    """The obstacles of a way, those that end last first; without budgets that widening would not help."""
    ordered = sorted(way.view.obstacles, key=lambda each: each.until or LAST_INSTANT, reverse=True)
    others = [each for each in ordered if each.code is not RefusalCode.BUDGET]
    lasting = [each for each in others if each.until is None]
    if not others or len(others) == len(ordered):
        return ordered
    ends_at = LAST_INSTANT if lasting else max(each.until for each in others if each.until is not None)
    return [each for each in ordered if each in others or (each.until or LAST_INSTANT) > ends_at]
