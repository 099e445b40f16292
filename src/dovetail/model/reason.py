"""Reasons to disrupt a node, and the actions by which budgets and action controls group them."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a node is, or would be, removed."""

    EXPIRED = "Expired"
    DRIFTED = "Drifted"
    EMPTY = "Empty"
    UNDERUTILIZED = "Underutilized"
    UNHEALTHY = "Unhealthy"
    INTERRUPTED = "Interrupted"
    MANUAL = "Manual"


class Action(StrEnum):
    """A group of reasons that a budget or an action control is for."""

    ALL = "All"
    CONSOLIDATION = "Consolidation"
    DRIFT = "Drift"
    EXPIRATION = "Expiration"
    EMPTINESS = "Emptiness"


VOLUNTARY = frozenset({Reason.EXPIRED, Reason.DRIFTED, Reason.EMPTY, Reason.UNDERUTILIZED})
"""The reasons that budgets govern. The others cannot be delayed."""

REASONS_BY_ACTION = {
    Action.ALL: VOLUNTARY,
    Action.CONSOLIDATION: frozenset({Reason.UNDERUTILIZED, Reason.EMPTY}),
    Action.DRIFT: frozenset({Reason.DRIFTED}),
    Action.EXPIRATION: frozenset({Reason.EXPIRED}),
    Action.EMPTINESS: frozenset({Reason.EMPTY}),
}
"""Consolidation includes the removal of empty nodes; Emptiness is only that."""

ACTIONS_BY_REASON = {
    Reason.EXPIRED: (Action.EXPIRATION, Action.ALL),
    Reason.DRIFTED: (Action.DRIFT, Action.ALL),
    Reason.EMPTY: (Action.EMPTINESS, Action.CONSOLIDATION, Action.ALL),
    Reason.UNDERUTILIZED: (Action.CONSOLIDATION, Action.ALL),
}
"""The actions that cover a reason, the most specific first: if several have a control, the first one applies."""
