"""The state of a NodePool: is its node class ready, is it valid, do its nodes register, what does it have."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from dovetail.model.conditions import ConditionVerdict
from dovetail.model.kube_object import Condition, Fault
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS, Quantity, Resources
from dovetail.model.snapshot import ClusterNode

VALIDATION_SUCCEEDED = "ValidationSucceeded"
NODE_CLASS_READY = "NodeClassReady"
NODE_REGISTRATION_HEALTHY = "NodeRegistrationHealthy"
DEPENDENTS = (VALIDATION_SUCCEEDED, NODE_CLASS_READY)
ALWAYS_COUNTED = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES)
REMEMBERED = 4
UNHEALTHY_FAILURES = 2


def judge_node_class(*, found: bool, deleting: bool, ready: Condition | None) -> ConditionVerdict:
    """`NodeClassReady` from what is known of the class."""
    if not found:
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassNotFound", "NodeClass not found on cluster")
    if deleting:
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassTerminating", "NodeClass is Terminating")
    if ready is None or ready.status == "Unknown":
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
    if ready.status != "True":
        return ConditionVerdict(NODE_CLASS_READY, "False", ready.reason, ready.message)
    return ConditionVerdict(NODE_CLASS_READY)


def judge_validation(faults: Iterable[Fault]) -> ConditionVerdict:
    """`ValidationSucceeded` with every fault in its message."""
    found = [str(fault) for fault in faults]
    if not found:
        return ConditionVerdict(VALIDATION_SUCCEEDED)
    return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "NodePoolValidationFailed", "; ".join(found)[:1024])


class NodePoolUsage:
    """What the nodes of a pool that stay have together, and how many they are; kept as they come and go."""

    def __init__(self) -> None:
        self.nodes = 0
        self._nano = dict.fromkeys(ALWAYS_COUNTED, 0)
        self._binary = dict.fromkeys(ALWAYS_COUNTED, False)

    def add(self, node: ClusterNode) -> None:
        """One more."""
        self._count(node, 1)

    def take(self, node: ClusterNode) -> None:
        """One that was added, as it was then, is no longer there."""
        self._count(node, -1)

    def _count(self, node: ClusterNode, times: int) -> None:
        if node.deleting:
            return
        self.nodes += times
        nano = self._nano
        for name, amount in node.capacity.items():  # in plain numbers: a quantity for every step costs five times more
            known = nano.get(name, 0)
            if not known:
                self._binary[name] = amount.binary
            nano[name] = known + times * amount.nano

    @property
    def resources(self) -> Resources:
        """The sum. What no node is left to have is not spoken of, but for what every node has."""
        kept = {name: nano for name, nano in self._nano.items() if nano or name in ALWAYS_COUNTED}
        total = {name: Quantity(nano, binary=self._binary[name]) for name, nano in kept.items()}
        return {**total, NODES: Quantity.of(self.nodes)}


def count(nodes: Iterable[ClusterNode]) -> tuple[Resources, int]:
    """What the nodes that stay have together, and how many they are."""
    tally = NodePoolUsage()
    for node in nodes:
        tally.add(node)
    return tally.resources, tally.nodes


@dataclass
class RegistrationHealth:
    """The last few outcomes of registration in one pool. Two failures among them are one too many."""

    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    generations: tuple[int, int] = (0, 0)

    def note(self, *, succeeded: bool) -> None:
        """One more outcome."""
        self.outcomes.append(succeeded)

    def restart(self, generations: tuple[int, int]) -> bool:
        """Forget everything when the pool or its class changed; says whether it did."""
        if generations == self.generations:
            return False
        self.generations = generations
        self.outcomes.clear()
        return True

    def verdict(self) -> ConditionVerdict:
        """`NodeRegistrationHealthy` as it stands."""
        failures = sum(not outcome for outcome in self.outcomes)
        if failures >= UNHEALTHY_FAILURES:
            return ConditionVerdict(NODE_REGISTRATION_HEALTHY, "False", "RegistrationFailed", "Failed to register node")
        if any(self.outcomes):
            return ConditionVerdict(NODE_REGISTRATION_HEALTHY)
        return ConditionVerdict(
            NODE_REGISTRATION_HEALTHY, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"
        )
