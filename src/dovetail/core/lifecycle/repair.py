"""Node repair: which nodes are unhealthy, since when, and when each is replaced by force.

The provider defines which conditions make a node unhealthy. Each is tolerated for the duration of the NodePool's policy
for that condition, else the NodePool's default, else the provider's duration. It counts from the condition's last
transition, so restarts do not extend it. Budgets, PDBs and do-not-disrupt do not apply. A circuit breaker does: if more
than a fifth of a NodePool is unhealthy, the cause is probably not the nodes, and none is replaced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dovetail.model.instants import add
from dovetail.model.kube_object import Condition
from dovetail.model.node import Node
from dovetail.model.nodepool import NodePool, Repair
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.settings import DecisionOptions

BREAKER_PERCENT = 20


@dataclass(frozen=True, slots=True)
class RepairTerms:
    """The provider's repair policies, and the options for NodePools without a repair block."""

    statements: tuple[ProviderRepairPolicy, ...]
    options: DecisionOptions = field(default_factory=DecisionOptions)

    def of(self, pool: NodePool | None) -> Repair | None:
        """The repair block that applies to a NodePool; None if its nodes are not repaired."""
        if not self.options.node_repair:
            return None
        written = pool.spec.repair if pool is not None else None
        return written if written is not None or not self.options.repair_without_block else Repair()


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    """One condition that makes a node unhealthy, and how long it is tolerated. `said_by` is the source of that."""

    condition: Condition
    since: datetime
    toleration: timedelta
    said_by: str

    @property
    def due_at(self) -> datetime:
        """When the node is replaced because of it."""
        return add(self.since, self.toleration)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The circuit breaker of a NodePool: how many of its nodes are unhealthy."""

    unhealthy: int
    total: int

    @property
    def allowed(self) -> int:
        """A fifth of the nodes, rounded up."""
        return -(-self.total * BREAKER_PERCENT // 100)

    @property
    def open(self) -> bool:
        """Whether too many nodes are unhealthy, so that none is repaired."""
        return self.unhealthy > self.allowed


def symptoms(node: Node, statements: Iterable[ProviderRepairPolicy]) -> list[tuple[Condition, ProviderRepairPolicy]]:
    """The unhealthy conditions of a node, with the provider's policy for each."""
    labels = node.metadata.labels
    policies = {(each.condition_type, each.status): each for each in statements if each.applies_to(labels)}
    found = ((condition, policies.get((condition.type, condition.status))) for condition in node.status.conditions)
    return [(condition, statement) for condition, statement in found if statement is not None]


def find_unhealthy_conditions(
    node: Node, repair: Repair, statements: Iterable[ProviderRepairPolicy]
) -> tuple[UnhealthyCondition, ...]:
    """The unhealthy conditions of a node, ordered by when they are due. Without a transition time none is due."""
    unhealthy_conditions = [
        UnhealthyCondition(condition, condition.last_transition_time, *_toleration(repair, statement))
        for condition, statement in symptoms(node, statements)
        if condition.last_transition_time is not None
    ]
    return tuple(sorted(unhealthy_conditions, key=lambda each: (each.due_at, each.condition.type)))


def _toleration(repair: Repair, statement: ProviderRepairPolicy) -> tuple[timedelta, str]:
    for policy in repair.policies:
        if policy.condition_type == statement.condition_type:
            return policy.toleration.span, "repair.policies"
    if repair.default_toleration_duration is not None:
        return repair.default_toleration_duration.span, "repair.defaultTolerationDuration"
    return statement.toleration, "the provider"


def read_breaker(nodes: Sequence[Node], statements: Iterable[ProviderRepairPolicy]) -> Breaker:
    """The breaker of a NodePool with these nodes. A node counts as soon as it is unhealthy, tolerated or not."""
    policies = tuple(statements)
    return Breaker(sum(bool(symptoms(node, policies)) for node in nodes), len(nodes))
