"""Objects that cannot be read, and how far the fault of each reaches.

One bad object must stop neither provisioning nor disruption of the rest, and must not weaken any protection. So what
may hide behind it is left alone, and no more: the node of a Pod, the node of a NodeClaim, the pods in the namespace of
a PodDisruptionBudget. Only where even that cannot be read is everything left alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.model.cluster_objects import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET, Kind
from dovetail.model.kube_object import Condition, Key, LabelSelector, UnreadableObject
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod

UNREADABLE = "Unreadable"
"""The condition of a PodDisruptionBudget that stands for one that cannot be read."""


class UnreadableEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One object that cannot be read. `node`: the Node it concerns; `everywhere`: it may concern any node."""

    kind: str
    namespace: str = ""
    name: str = ""
    problem: str = ""
    node: str = ""
    everywhere: bool = False

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key} cannot be read ({self.problem})"


def unread(kind: Kind[Any], bad: UnreadableObject) -> UnreadableEntry:
    """How far the fault of an object reaches."""
    node, everywhere = "", False
    if kind is NODE:
        node = bad.metadata.name
    elif kind is POD and isinstance(bad.partial, Pod):
        node, everywhere = bad.partial.node_name, not bad.knows("spec.nodeName")
    elif kind is POD or (kind is POD_DISRUPTION_BUDGET and not bad.knows("metadata.namespace")):
        everywhere = True
    return UnreadableEntry(
        kind=kind.name,
        namespace=bad.metadata.namespace,
        name=bad.metadata.name,
        problem=bad.problem,
        node=node,
        everywhere=everywhere,
    )


def stand_in(bad: UnreadableObject) -> PodDisruptionBudget:
    """A budget in place of one that cannot be read: it selects every pod of its namespace and allows nothing."""
    return PodDisruptionBudget(
        metadata=bad.metadata,
        spec=PodDisruptionBudgetSpec(selector=LabelSelector()),
        status=PodDisruptionBudgetStatus(conditions=(Condition(type=UNREADABLE, status="True", message=bad.problem),)),
    )


def partial_nodes(unreadable: Iterable[UnreadableObject]) -> list[Node]:
    """Nodes that cannot be read, with what is known of them: they are still there."""
    return [bad.partial for bad in unreadable if isinstance(bad.partial, Node) and bad.partial.name]


def partial_claims(unreadable: Iterable[UnreadableObject]) -> list[NodeClaim]:
    """NodeClaims that cannot be read, with what is known of them: they still count against limits and budgets."""
    return [bad.partial for bad in unreadable if isinstance(bad.partial, NodeClaim) and bad.partial.name]


def completed(kind: Kind[Any], items: Iterable[Any], unreadable: Iterable[UnreadableObject]) -> tuple[Any, ...]:
    """The objects of a kind for a Snapshot: those that can be read, and what stands for those that cannot."""
    if kind is NODE:
        return (*items, *partial_nodes(unreadable))
    if kind is NODE_CLAIM:
        return (*items, *partial_claims(unreadable))
    if kind is POD_DISRUPTION_BUDGET:
        return (*items, *map(stand_in, unreadable))
    return tuple(items)


class UnreadableIndex:
    """Unreadable objects by what they concern."""

    def __init__(self, unreadable: Iterable[UnreadableEntry]) -> None:
        self.all = tuple(unreadable)
        self.everywhere = next((each for each in self.all if each.everywhere), None)
        self.pools: Mapping[str, UnreadableEntry] = {
            each.name: each for each in self.all if each.kind == NODE_POOL.name
        }
        self._nodes = {each.node: each for each in self.all if each.node}
        self._claims = {each.name: each for each in self.all if each.kind == NODE_CLAIM.name}

    def of(self, node: Node | None, claim: NodeClaim | None) -> UnreadableEntry | None:
        """The unreadable object that concerns this node: itself, its claim or one of its pods; or None."""
        found = self._nodes.get(node.name) if node is not None else None
        return found or (self._claims.get(claim.name) if claim is not None else None)
