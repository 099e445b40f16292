"""Compares two plans of the same nodes, before and after a change of their NodePools."""

from dataclasses import dataclass

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.node import find_verdicts
from dovetail.model.snapshot import Snapshot
from dovetail.model.verdict import NodeVerdict


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """What a plan does with a node: the command that takes it, or the verdict on a node that stays."""

    command: Command | None = None
    verdict: NodeVerdict | None = None


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that the two plans treat differently."""

    node: str
    nodepool: str
    before: PlannedNode
    after: PlannedNode


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """The nodes that two plans treat differently, by name."""

    unblocked: tuple[NodeChange, ...]  # leave only in the second plan
    blocked: tuple[NodeChange, ...]  # leave only in the first plan
    other_command: tuple[NodeChange, ...]  # leave in both, for another reason or with other replacements
    other_verdict: tuple[NodeChange, ...]  # stay in both, for another reason or until another time

    @property
    def same_commands(self) -> bool:
        """Whether both plans start the same commands."""
        return not (self.unblocked or self.blocked or self.other_command)

    @property
    def same(self) -> bool:
        """Whether both plans are the same, verdicts included."""
        return self.same_commands and not self.other_verdict


def compare_plans(before: PassPlan, after: PassPlan, snapshot: Snapshot) -> PlanComparison:
    """Compare two thorough plans for the managed nodes of a snapshot."""
    managed = {node.name: node.nodepool_name for node in snapshot.nodes if node.managed}
    first, second = _by_node(before), _by_node(after)
    changes = [NodeChange(name, managed[name], first[name], second[name]) for name in sorted(managed)]
    return PlanComparison(
        unblocked=tuple(each for each in changes if each.before.command is None and each.after.command is not None),
        blocked=tuple(each for each in changes if each.before.command is not None and each.after.command is None),
        other_command=tuple(each for each in changes if _other_command(each)),
        other_verdict=tuple(each for each in changes if each.before.verdict != each.after.verdict and _stays(each)),
    )


def _by_node(plan: PassPlan) -> dict[str, PlannedNode]:
    assert plan.context is not None, "plan_pass records its context"
    commands = {each.name: command for command in plan.commands for each in command.candidates}
    nodes = [each for each in plan.context.snapshot.nodes if each.managed and each.name not in commands]
    staying = {name: PlannedNode(verdict=verdict) for name, verdict in find_verdicts(plan, nodes).items()}
    return staying | {name: PlannedNode(command) for name, command in commands.items()}


def _stays(change: NodeChange) -> bool:
    return change.before.command is None and change.after.command is None


def _other_command(change: NodeChange) -> bool:
    first, second = change.before.command, change.after.command
    return first is not None and second is not None and _identity(first) != _identity(second)


def _identity(command: Command) -> tuple[object, ...]:
    """What happens to a node: the reason, and the NodePool and instance types of the replacements."""
    return (
        command.reason,
        [(draft.pool_name, [choice.type.name for choice in draft.choices]) for draft in command.replacements],
    )
