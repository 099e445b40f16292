"""Objects that cannot be decoded, and which nodes, pods or NodePools each of them affects.

An unreadable object must not stop provisioning or disruption of other objects, and must not weaken any protection. So
everything it may affect is left alone: the node of a Pod, the node of a NodeClaim, the pods in the namespace of a
PodDisruptionBudget. If even that field cannot be decoded, everything is left alone.
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
"""The condition that marks a PodDisruptionBudget that replaces an unreadable one."""


class UnreadableEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One unreadable object. `node`: the Node it affects; `everywhere`: it may affect any node."""

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
    """An unreadable object with the node it affects."""
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


def blocking_replacement(bad: UnreadableObject) -> PodDisruptionBudget:
    """The replacement of an unreadable budget: it selects every pod of its namespace and allows no disruption."""
    return PodDisruptionBudget(
        metadata=bad.metadata,
        spec=PodDisruptionBudgetSpec(selector=LabelSelector()),
        status=PodDisruptionBudgetStatus(conditions=(Condition(type=UNREADABLE, status="True", message=bad.problem),)),
    )


def partial_nodes(unreadable: Iterable[UnreadableObject]) -> list[Node]:
    """Unreadable Nodes with their readable fields."""
    return [bad.partial for bad in unreadable if isinstance(bad.partial, Node) and bad.partial.name]


def partial_claims(unreadable: Iterable[UnreadableObject]) -> list[NodeClaim]:
    """Unreadable NodeClaims with their readable fields: they count against limits and budgets."""
    return [bad.partial for bad in unreadable if isinstance(bad.partial, NodeClaim) and bad.partial.name]


def completed(kind: Kind[Any], items: Iterable[Any], unreadable: Iterable[UnreadableObject]) -> tuple[Any, ...]:
    """The objects of a kind for a Snapshot: the readable ones, and replacements of the unreadable ones."""
    if kind is NODE:
        return (*items, *partial_nodes(unreadable))
    if kind is NODE_CLAIM:
        return (*items, *partial_claims(unreadable))
    if kind is POD_DISRUPTION_BUDGET:
        return (*items, *map(blocking_replacement, unreadable))
    return tuple(items)


class UnreadableIndex:
    """Unreadable objects by the node or NodePool they affect."""

    def __init__(self, unreadable: Iterable[UnreadableEntry]) -> None:
        self.all = tuple(unreadable)
        self.everywhere = next((each for each in self.all if each.everywhere), None)
        self.pools: Mapping[str, UnreadableEntry] = {
            each.name: each for each in self.all if each.kind == NODE_POOL.name
        }
        self._nodes = {each.node: each for each in self.all if each.node}
        self._claims = {each.name: each for each in self.all if each.kind == NODE_CLAIM.name}

    def of(self, node: Node | None, claim: NodeClaim | None) -> UnreadableEntry | None:
        """The unreadable object that affects this node (the node, its claim or one of its pods), or None."""
        found = self._nodes.get(node.name) if node is not None else None
        return found or (self._claims.get(claim.name) if claim is not None else None)
