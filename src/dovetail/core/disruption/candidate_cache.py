"""What can be said of a node's pods whatever the time is, worked out once and kept from pass to pass.

A node that has not changed is the same object in the next snapshot. Which PodDisruptionBudgets select a pod depends on
their selectors alone; what they allow is read anew every time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.core.disruption.disruption_cost import burden, disruption_cost
from dovetail.core.pdbs import tolerates_disruption
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION
from dovetail.model.kube_object import LabelSelector
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

if TYPE_CHECKING:
    from dovetail.core.disruption.candidates import Candidate

MOST_KINDS = 20_000
"""So many kinds of pods are remembered before a new start."""

Selected = tuple[str, str, LabelSelector | None]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The pods of one node, as disruption looks at them."""

    node: ClusterNode
    sound: bool  # nothing that is written on it or its claim stands in the way of its disruption
    annotated: tuple[Pod, ...]  # say something about being disrupted, or ask for devices nobody can simulate
    guarded: tuple[tuple[Pod, tuple[int, ...]], ...]  # those some budgets select, with the positions of these
    guards: frozenset[tuple[int, ...]]  # all the sets of budgets among these
    pods_to_reschedule: tuple[Pod, ...]
    cost: float
    burden: float


class CandidateCache:
    """Facts of every node met so far; those of nodes that changed are forgotten when they are met again."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._selectors: tuple[Selected, ...] = ()
        self._by_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._snapshot: Snapshot | None = None
        self._pools: dict[str, NodePool] = {}
        self._selecting: dict[tuple[str, int], tuple[object, tuple[int, ...]]] = {}
        self._tolerating: dict[int, tuple[object, bool]] = {}
        self.candidates: dict[str, Candidate] = {}
        """Those of the last pass, by name, while pools and catalogues are what they were."""

    def turn_to(self, snapshot: Snapshot) -> None:
        """From now on, nodes of this snapshot are asked about."""
        if self._snapshot is snapshot:
            return
        selectors = tuple((each.metadata.namespace, each.name, each.spec.selector) for each in snapshot.pdbs)
        if selectors != self._selectors:
            self._facts.clear()
            self._selectors = selectors
            self._by_namespace, self._selecting = {}, {}
            for position, (namespace, _, selector) in enumerate(selectors):
                if selector is not None:
                    self._by_namespace.setdefault(namespace, []).append((position, selector))
        if len(self._facts) > 2 * len(snapshot.nodes):
            self._facts.clear()  # nodes come and go
            self.candidates.clear()
        if len(self._selecting) > MOST_KINDS or len(self._tolerating) > MOST_KINDS:
            self._selecting, self._tolerating = {}, {}  # workloads, too
        pools = {name: self._settled(name, pool) for name, pool in snapshot.nodepools.items()}
        known = self._snapshot
        if known is None or _differ(pools, self._pools) or _differ(snapshot.catalogs, known.catalogs):
            self.candidates.clear()
        self._pools, self._snapshot = pools, snapshot

    def _settled(self, name: str, pool: NodePool) -> NodePool:
        known = self._pools.get(name)
        return known if known is not None and known.equal_ignoring_counts(pool) else pool

    def pool(self, name: str) -> NodePool:
        """A pool, the same value for as long as nothing but its counts changes."""
        return self._pools[name]

    def of(self, node: ClusterNode) -> NodeFacts:
        """What is known of a node."""
        known = self._facts.get(node.name)
        if known is None or known.node is not node:
            known = self._facts[node.name] = self._read(node)
        return known

    def _read(self, node: ClusterNode) -> NodeFacts:
        selected = ((pod, self.guards(pod)) for pod in node.pods if pod.active and not pod.mirror)
        guarded = tuple((pod, guards) for pod, guards in selected if guards and not self._tolerates(pod))
        return NodeFacts(
            node=node,
            sound=_is_sound(node),
            annotated=tuple(
                pod for pod in node.pods if DO_NOT_DISRUPT in pod.metadata.annotations or pod.spec.resource_claims
            ),
            guarded=guarded,
            guards=frozenset([guards for _, guards in guarded]),
            pods_to_reschedule=tuple(pod for pod in node.pods if pod.reschedulable),
            cost=disruption_cost(node.pods),
            burden=burden(node.pods),
        )

    def guards(self, pod: Pod) -> tuple[int, ...]:
        """The positions of the budgets that select a pod. Pods of a workload share their labels, and the answer."""
        labels = pod.metadata.labels
        asked = (pod.metadata.namespace, id(labels))
        known = self._selecting.get(asked)
        if known is None:
            # The labels are kept with the answer, so that their identity cannot be given to another object.
            selectors: Sequence[tuple[int, LabelSelector]] = self._by_namespace.get(asked[0], ())
            found = tuple(position for position, selector in selectors if selector.matches(labels))
            known = self._selecting[asked] = (labels, found)
        return known[1]

    def _tolerates(self, pod: Pod) -> bool:
        tolerations = pod.spec.tolerations
        known = self._tolerating.get(id(tolerations))
        if known is None:
            known = self._tolerating[id(tolerations)] = (tolerations, tolerates_disruption(pod))
        return known[1]


def _differ(some: Mapping[str, object], others: Mapping[str, object]) -> bool:
    """Whether any of them is another object, or has another name."""
    return some.keys() != others.keys() or any(value is not others[name] for name, value in some.items())


def _is_sound(node: ClusterNode) -> bool:
    claim, itself = node.claim, node.node
    if claim is None or itself is None or not node.initialized or node.deleting or itself.deleting:
        return False
    written = claim.metadata.annotations
    if RECORD_ANNOTATION in written or REPLACES_ANNOTATION in written:
        return False
    return itself.metadata.annotations.get(DO_NOT_DISRUPT) != "true" and bool(node.nodepool_name)
