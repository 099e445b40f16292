"""What disruption reads of a node and its pods, whatever the time is: part of the cache of simulations.

Which PodDisruptionBudgets select a pod depends on their selectors alone; what they allow is read in every pass. Reading
all pods of a cluster costs several times as much as the rest of a pass in which few pods changed.
"""

from dataclasses import dataclass

from dovetail.core.disruption.disruption_cost import burden, disruption_cost
from dovetail.core.pdbs import tolerates_disruption
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION
from dovetail.model.kube_object import LabelSelector
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

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
    """Facts by node name. An entry holds while the node and the selectors of all budgets are what they were."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._selectors: tuple[Selected, ...] = ()
        self._by_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._snapshot: Snapshot | None = None

    def turn_to(self, snapshot: Snapshot) -> None:
        """From now on, nodes of this snapshot are asked about."""
        if self._snapshot is snapshot:  # never edited in place: the same object is the same value
            return
        selectors = tuple((each.metadata.namespace, each.name, each.spec.selector) for each in snapshot.pdbs)
        if selectors != self._selectors or len(self._facts) > 2 * len(snapshot.nodes):
            self._facts.clear()
        if selectors != self._selectors:
            self._selectors = selectors
            self._by_namespace = {}
            for position, (namespace, _, selector) in enumerate(selectors):
                if selector is not None:
                    self._by_namespace.setdefault(namespace, []).append((position, selector))
        self._snapshot = snapshot

    def of(self, node: ClusterNode) -> NodeFacts:
        """What is known of a node."""
        known = self._facts.get(node.name)
        if known is None or (known.node is not node and known.node != node):
            known = self._facts[node.name] = self._read(node)
        return known

    def _read(self, node: ClusterNode) -> NodeFacts:
        selected = ((pod, self.guards(pod)) for pod in node.pods if pod.active and not pod.mirror)
        guarded = tuple((pod, guards) for pod, guards in selected if guards and not tolerates_disruption(pod))
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
        """The positions of the budgets that select a pod."""
        selectors = self._by_namespace.get(pod.metadata.namespace, ())
        return tuple([position for position, selector in selectors if selector.matches(pod.metadata.labels)])


def _is_sound(node: ClusterNode) -> bool:
    claim, itself = node.claim, node.node
    if claim is None or itself is None or not node.initialized or node.deleting or itself.deleting:
        return False
    written = claim.metadata.annotations
    if RECORD_ANNOTATION in written or REPLACES_ANNOTATION in written:
        return False
    return itself.metadata.annotations.get(DO_NOT_DISRUPT) != "true" and bool(node.nodepool_name)
