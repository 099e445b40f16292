"""Reasons and messages of the Kubernetes events about disruption of Nodes, NodeClaims and NodePools.

Reasons and texts are Karpenter's. A suffix after a hyphen says whether the obstacle ends by itself: `until` an instant,
`may change`, or `permanent`. This module only builds texts; controllers publish the events.
"""

from collections.abc import Sequence

from dovetail.core.disruption.balanced_policy import THRESHOLD, Balance
from dovetail.core.disruption.command import Command
from dovetail.core.wording import message, sentence
from dovetail.model.kinds import DAEMON_SET, NODE, NODE_CLAIM, POD, POD_DISRUPTION_BUDGET
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.unreadable_objects import UnreadableEntry

BLOCKED = "DisruptionBlocked"
PAUSED = "DisruptionPaused"
UNCONSOLIDATABLE = "Unconsolidatable"
PREFERENCE = "PreferencePreventsConsolidation"
CANDIDATE = "ConsolidationCandidate"
REJECTED = "ConsolidationRejected"
APPROVED = "ConsolidationApproved"

_SHOWN = 3
_OF_THE_NODE = frozenset(
    {
        RefusalCode.UNREADABLE,
        RefusalCode.INTERNAL_ERROR,
        RefusalCode.NODE_MISSING,
        RefusalCode.NOT_INITIALIZED,
        RefusalCode.DELETING,
        RefusalCode.NOMINATED,
        RefusalCode.DO_NOT_DISRUPT_NODE,
        RefusalCode.NO_NODE_POOL,
        RefusalCode.NODE_POOL_MISSING,
        RefusalCode.NO_CATALOG,
    }
)
_OF_PODS = frozenset({RefusalCode.DO_NOT_DISRUPT_POD, RefusalCode.POD_DISRUPTION_BUDGET, RefusalCode.UNKNOWN_DEVICES})
_BLOCKING = _OF_THE_NODE | _OF_PODS
_OF_CONSOLIDATION = frozenset(
    {
        RefusalCode.CONSOLIDATION_DISABLED,
        RefusalCode.POLICY_WHEN_EMPTY,
        RefusalCode.LABEL_MISSING,
        RefusalCode.INSTANCE_TYPE_UNKNOWN,
        RefusalCode.CANT_REPLACE,
        RefusalCode.UNSCHEDULABLE,
        RefusalCode.DRAIN_WOULD_STALL,
    }
)
_OF_REPLACEMENTS = frozenset({RefusalCode.REPLACEMENT_NOT_INITIALIZED, RefusalCode.DRIFT_NOT_FIXED})
TOLD = _BLOCKING | _OF_CONSOLIDATION | _OF_REPLACEMENTS
"""Codes of refusals that are published as events on nodes. Others are published on the NodePool, or not at all."""
_CONSOLIDATION = frozenset({"emptiness", "multi-node", "single-node"})


def refused(method: str, refusal: Refusal) -> tuple[str, str]:
    """Reason and message of the event for a refusal whose code is one of `TOLD`."""
    code = refusal.code
    if code in _BLOCKING:
        return BLOCKED, sentence(message(refusal)) + _lasting(refusal)
    if code is RefusalCode.INSTANCE_TYPE_UNKNOWN:
        return UNCONSOLIDATABLE, f'Instance Type "{refusal.detail}" not found'
    blocks = code in _OF_REPLACEMENTS or code is RefusalCode.UNSCHEDULABLE
    reason = BLOCKED if blocks and method not in _CONSOLIDATION else UNCONSOLIDATABLE
    return reason, sentence(message(refusal))


def blocking_budget(reason: Reason) -> str:
    """The event of a NodePool whose budgets allow no disruption for a reason."""
    return f"No allowed disruptions for disruption reason {reason} due to blocking budget"


def unreadable_budget(fault: str) -> str:
    """The event of a NodePool with an invalid budget."""
    return f"No node is disrupted, because the NodePool cannot be understood: {fault}"


def unreadable_objects(odd: Sequence[str]) -> str:
    """Why nodes of a NodePool are not disrupted because of unreadable objects; empty without any."""
    more = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
    return f"nodes are not disrupted while {'; '.join(odd[:_SHOWN])}{more}: correct or delete it" if odd else ""


def unreadable_consequence(bad: UnreadableEntry) -> str:
    """The event of an object that cannot be read: the consequence, the fix, and what is wrong."""
    follows = {
        NODE.name: "it is neither disrupted nor given new pods",
        NODE_CLAIM.name: "it is neither launched nor terminated, and its node is neither disrupted nor given new pods",
        POD_DISRUPTION_BUDGET.name: "it is taken to allow no disruption of any pod in its namespace",
        DAEMON_SET.name: "new nodes reserve no resources for its pods",
        POD.name: f"its node {bad.node} is neither disrupted nor given new pods"
        if bad.node
        else "no node is launched for it",
    }.get(bad.kind, "it is taken to be missing")
    follows = "no node is disrupted" if bad.everywhere else follows
    return f"Cannot be read, so {follows} until it is corrected or deleted: {bad.problem}"


def stale_caches(kinds: Sequence[str]) -> str:
    """The event of all NodePools while a cache is stale."""
    what = f"the cache of {', '.join(kinds)} is" if len(kinds) == 1 else f"the caches of {', '.join(kinds)} are"
    return f"No node is disrupted while {what} stale: the API server has not confirmed it for too long"


def considered(command: Command, node: str) -> str:
    """The event of a node in a command with replacements, before the command is validated."""
    return f"Consolidation candidate: {_short(command, node)} {_savings(command)}"


def rejected(command: Command, node: str, why: str) -> str:
    """The event of a node whose command was not valid any more."""
    return f"Consolidation rejected: {_short(command, node)}, reason: {why} {_savings(command)}"


def approved(balance: Balance) -> str:
    """The event of a command that a Balanced NodePool approved."""
    shares = f"savings {balance.saved:.1%}, disruption {balance.disrupted:.1%}"
    return f"score {balance.score:.2f} >= threshold {THRESHOLD:.2f} (k: {round(1 / THRESHOLD)}, {shares})"


def _short(command: Command, node: str) -> str:
    number = len(command.candidates)
    if number > 1:
        return f"{command.decision}: [{node}] (part of {number}-node consolidation)"
    launched = len(command.replacements)
    return f"{command.decision}: [{node}]" + (f" -> [{launched} replacement{'s' * (launched > 1)}]" if launched else "")


def _savings(command: Command) -> str:
    return f"(savings: ${command.saving:.2f})"


def _lasting(refusal: Refusal) -> str:
    """Whether waiting helps."""
    if refusal.until is not None:
        return f" - until {refusal.until:%Y-%m-%dT%H:%M:%SZ}"
    if refusal.permanent:
        return " - permanent: needs a manual change"
    return " - may change" if refusal.code in _OF_PODS else ""
