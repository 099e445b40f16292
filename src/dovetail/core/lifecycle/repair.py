"""Which nodes are unhealthy, since when, and at which instant each is due to be replaced by force.

A provider says which conditions make a node unhealthy. How long one is put up with is, in this order: what a policy of
the NodePool says for the condition, the pool's default, the provider's own duration. The clock runs from the
condition's last transition, so it survives restarts. Nothing else stands in the way, neither budgets nor protection,
but a breaker: when more than a fifth of a pool is unhealthy the fault is hardly the nodes', and none is replaced.
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
    """What the provider calls unhealthy, and what goes for pools that say nothing of repair."""

    statements: tuple[ProviderRepairPolicy, ...]
    options: DecisionOptions = field(default_factory=DecisionOptions)

    def of(self, pool: NodePool | None) -> Repair | None:
        """What a pool says of repair; None where its nodes are not repaired."""
        if not self.options.node_repair:
            return None
        written = pool.spec.repair if pool is not None else None
        return written if written is not None or not self.options.repair_without_block else Repair()


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    """One condition that makes a node unhealthy, and how long it is put up with."""

    condition: Condition
    since: datetime
    toleration: timedelta
    said_by: str

    @property
    def due_at(self) -> datetime:
        """When the node is eligible for repair because of it."""
        return add(self.since, self.toleration)


@dataclass(frozen=True, slots=True)
class Breaker:
    """How much of a pool is unhealthy."""

    unhealthy: int
    total: int

    @property
    def allowed(self) -> int:
        """A fifth of the pool, rounded up."""
        return -(-self.total * BREAKER_PERCENT // 100)

    @property
    def open(self) -> bool:
        """Too much of the pool is unhealthy: nothing is repaired."""
        return self.unhealthy > self.allowed


def symptoms(node: Node, statements: Iterable[ProviderRepairPolicy]) -> list[tuple[Condition, ProviderRepairPolicy]]:
    """The conditions of a node that a provider calls unhealthy."""
    said = {(each.condition_type, each.status): each for each in statements}
    found = ((condition, said.get((condition.type, condition.status))) for condition in node.status.conditions)
    return [(condition, statement) for condition, statement in found if statement is not None]


def find_unhealthy_conditions(
    node: Node, repair: Repair, statements: Iterable[ProviderRepairPolicy]
) -> tuple[UnhealthyCondition, ...]:
    """What ails a node, what is due first first. A condition that does not say since when is never due."""
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
    """The breaker of a pool with these nodes. A node counts as soon as it is unhealthy, tolerated or not."""
    said = tuple(statements)
    return Breaker(sum(bool(symptoms(node, said)) for node in nodes), len(nodes))
