"""When a registered node is ready to take the pods it was made for. There is no time limit on this."""

from dovetail.model.conditions import ConditionVerdict
from dovetail.model.node import Node
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.quantity import ZERO
from dovetail.model.taints import is_ephemeral


def judge_initialization(claim: NodeClaim, node: Node | None) -> ConditionVerdict:
    """The `Initialized` condition as it should be: True, or Unknown with what is still awaited."""
    if node is None:
        return _awaiting("NodeNotFound", "Node not registered with cluster")
    if not node.ready:
        return _awaiting("NodeNotReady", "Node status is NotReady")
    for taint in node.spec.taints:
        if any(taint.matches(startup) for startup in claim.spec.startup_taints):
            return _awaiting("StartupTaintsExist", f'StartupTaint "{taint}" still exists')
        if is_ephemeral(taint):
            return _awaiting("KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{taint}" still exists')
    for name, amount in sorted(claim.spec.resources.requests.items()):
        if amount and not node.status.allocatable.get(name, ZERO):
            return _awaiting("ResourceNotRegistered", f'Resource "{name}" was requested but not registered')
    return ConditionVerdict(INITIALIZED)


def _awaiting(reason: str, message: str) -> ConditionVerdict:
    return ConditionVerdict(INITIALIZED, "Unknown", reason, message)
