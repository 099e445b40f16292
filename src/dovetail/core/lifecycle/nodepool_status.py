"""The status of a NodePool: its conditions and the resources of its nodes.

`judge_node_class` and `judge_validation` compute the conditions that `Ready` depends on. `RegistrationHealth` keeps the
last registration outcomes for `NodeRegistrationHealthy`. `NodePoolUsage` sums capacities incrementally: adding or
removing a node costs O(resources), not O(nodes).
"""

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
    """The `NodeClassReady` condition, from the state of the node class."""
    if not found:
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassNotFound", "NodeClass not found on cluster")
    if deleting:
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassTerminating", "NodeClass is Terminating")
    if ready is None or ready.status == "Unknown":
        return ConditionVerdict(NODE_CLASS_READY, "False", "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
    if ready.status != "True":
        return ConditionVerdict(NODE_CLASS_READY, "False", ready.reason, ready.message)
    return ConditionVerdict(NODE_CLASS_READY)


def judge_validation(faults: Iterable[Fault], dropped: Iterable[Fault] = ()) -> ConditionVerdict:
    """The `ValidationSucceeded` condition, with every fault in its message; fields that were `dropped` are no fault."""
    found = [str(fault) for fault in faults]
    if not found:
        return ConditionVerdict(VALIDATION_SUCCEEDED, message="; ".join(map(str, dropped))[:1024])
    return ConditionVerdict(VALIDATION_SUCCEEDED, "False", "NodePoolValidationFailed", "; ".join(found)[:1024])


class NodePoolUsage:
    """The total capacity and the number of a NodePool's nodes that are not being deleted."""

    def __init__(self) -> None:
        self.nodes = 0
        self._nano = dict.fromkeys(ALWAYS_COUNTED, 0)
        self._binary = dict.fromkeys(ALWAYS_COUNTED, False)

    def add(self, node: ClusterNode) -> None:
        """Add a node."""
        self._count(node, 1)

    def take(self, node: ClusterNode) -> None:
        """Remove a node, given as it was added."""
        self._count(node, -1)

    def _count(self, node: ClusterNode, times: int) -> None:
        if node.deleting:
            return
        self.nodes += times
        nano = self._nano
        for name, amount in node.capacity.items():  # integers: adding Quantity objects takes five times as long
            known = nano.get(name, 0)
            if not known:
                self._binary[name] = amount.binary
            nano[name] = known + times * amount.nano

    @property
    def resources(self) -> Resources:
        """The total. Resources that no node has are left out, except those that every node has."""
        kept = {name: nano for name, nano in self._nano.items() if nano or name in ALWAYS_COUNTED}
        total = {name: Quantity(nano, binary=self._binary[name]) for name, nano in kept.items()}
        return {**total, NODES: Quantity.of(self.nodes)}


def count(nodes: Iterable[ClusterNode]) -> tuple[Resources, int]:
    """The total capacity and the number of the nodes that are not being deleted."""
    usage = NodePoolUsage()
    for node in nodes:
        usage.add(node)
    return usage.resources, usage.nodes


@dataclass
class RegistrationHealth:
    """The last registration outcomes of one NodePool; with two failures among them it is unhealthy."""

    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    generations: tuple[int, int] = (0, 0)

    def note(self, *, succeeded: bool) -> None:
        """Record an outcome."""
        self.outcomes.append(succeeded)

    def restart(self, generations: tuple[int, int]) -> bool:
        """Clear the outcomes if the NodePool or its node class changed; returns whether they did."""
        if generations == self.generations:
            return False
        self.generations = generations
        self.outcomes.clear()
        return True

    def verdict(self) -> ConditionVerdict:
        """The `NodeRegistrationHealthy` condition."""
        failures = sum(not outcome for outcome in self.outcomes)
        if failures >= UNHEALTHY_FAILURES:
            return ConditionVerdict(NODE_REGISTRATION_HEALTHY, "False", "RegistrationFailed", "Failed to register node")
        if any(self.outcomes):
            return ConditionVerdict(NODE_REGISTRATION_HEALTHY)
        return ConditionVerdict(
            NODE_REGISTRATION_HEALTHY, "Unknown", "AwaitingReconciliation", "object is awaiting reconciliation"
        )
