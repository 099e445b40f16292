"""What disruption reads of a node and its pods, whatever the time is: part of the cache of simulations.

Which PodDisruptionBudgets select a pod depends on their selectors alone; what they allow is read in every pass. Reading
all pods of a cluster costs several times as much as the rest of a pass in which few pods changed.

Which nodes may be disrupted at all, and the first thing that stands in the way of each of the others.

Checks run in a fixed order, the node's own before those of its pods, annotations before PodDisruptionBudgets. Every
node of a NodePool ends as a Candidate or as a Refusal; none is dropped silently.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from dovetail.core.disruption.disruption_cost import BASE_COST, burden, disruption_cost, lifetime_left
from dovetail.core.failure import internal_error
from dovetail.core.pdbs import find_block, protection_refusal, tolerates_disruption
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION
from dovetail.model.do_not_disrupt import longest_first, protection
from dovetail.model.kube_object import LabelSelector
from dovetail.model.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, node_ref
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


@dataclass(frozen=True)
class Candidate:
    """A node that nothing protects right now."""

    node: ClusterNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    price: float  # 0 when nobody knows it
    cost: float
    weight: float
    pods_to_reschedule: tuple[Pod, ...]
    """The pods that need a new home when it goes."""

    @lazy
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @lazy
    def ref(self) -> ObjectRef:
        """The node, as refusals name it."""
        return node_ref(self.node.name)

    @lazy
    def order(self) -> tuple[float, str]:
        """What hurts least comes first; in Balanced pools, what a saving costs. Then by name."""
        if self.pool.consolidation_policy == "Balanced":
            return -self.price / self.cost, self.name
        return self.weight, self.name

    @property
    def capacity_type(self) -> str:
        """How it is paid for."""
        return self.node.labels.get(CAPACITY_TYPE, "")

    @property
    def zone(self) -> str:
        """Where it is."""
        return self.node.labels.get(ZONE, "")

    @property
    def empty(self) -> bool:
        """Whether no pod on it is worth rescheduling."""
        return self.cost <= BASE_COST


def find_candidates(
    snapshot: Snapshot, nodes: Sequence[ClusterNode], *, eventual: bool, book: CandidateCache
) -> tuple[list[Candidate], list[Refusal]]:
    """Each of some nodes that are managed as a candidate or a refusal.

    With `eventual`, of what its pods have against it only do-not-disrupt counts where a claim bounds its own drain: the
    drain deals with the rest.
    """
    book.turn_to(snapshot)
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    pools = {name for name in snapshot.nodepools if name in snapshot.catalogs and snapshot.pause_of(name) is None}
    giving = {(place,) for place, each in enumerate(snapshot.pdbs) if each.status.disruptions_allowed > 0}

    all_read = not snapshot.unreadable

    def judge(node: ClusterNode, claim: NodeClaim) -> Candidate | Refusal:
        facts = book.of(node)
        free = facts.sound and node.nodepool_name in pools and node.name not in snapshot.nominated
        free = free and (all_read or not (snapshot.unread.everywhere or snapshot.unread_on(node)))
        refusal = None if free else node_refusal(node, snapshot)
        bounded = eventual and claim.spec.termination_grace_period is not None
        if refusal is None and (facts.annotated or not (bounded or facts.guards <= giving)):
            blocks = (block for block in _blocks(facts, snapshot) if stands(block, bounded=bounded))
            refusal = next(blocks, None)
        return refusal or _candidate(facts, snapshot)

    for node in nodes:
        if node.claim is None:
            continue
        try:  # as `attempt` does, without its cost: every node is judged in every pass
            judged = judge(node, node.claim)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this node alone
            judged = internal_error(node_ref(node.name), error)
        if isinstance(judged, Refusal):
            refusals.append(judged)
        else:
            candidates.append(judged)
    return candidates, refusals


def node_refusal(node: ClusterNode, snapshot: Snapshot) -> Refusal | None:
    """The first thing the node itself has against being disrupted."""
    return next(node_refusals(node, snapshot), None)


def node_refusals(node: ClusterNode, snapshot: Snapshot) -> Iterator[Refusal]:
    """Everything the node itself has against being disrupted, in the order it is looked at."""
    claim = node.claim
    assert claim is not None, "only managed nodes are asked"
    about = node_ref(node.name)
    bad = snapshot.unread_on(node) or snapshot.unread.everywhere
    if bad is not None:
        yield Refusal(RefusalCode.UNREADABLE, about, permanent=True, detail=str(bad))
    record = node.record
    if record is not None and not claim.deleting:
        yield Refusal(RefusalCode.ALREADY_DISRUPTING, about, command=record.id)
    replaced = claim.metadata.annotations.get(REPLACES_ANNOTATION, "")
    if replaced in snapshot.running_commands:
        yield Refusal(RefusalCode.REPLACEMENT, about, command=replaced)
    if node.node is None:
        yield Refusal(RefusalCode.NODE_MISSING, about)
    elif not node.initialized:
        yield Refusal(RefusalCode.NOT_INITIALIZED, about)
    if node.deleting or (node.node is not None and node.node.deleting):
        yield Refusal(RefusalCode.DELETING, about)
    if node.name in snapshot.nominated:
        yield Refusal(RefusalCode.NOMINATED, about)
    if is_protected(node):
        yield Refusal(RefusalCode.DO_NOT_DISRUPT_NODE, about, permanent=True)
    yield from _pool_refusals(node, snapshot, about)


def is_protected(node: ClusterNode) -> bool:
    """Whether the Node carries the do-not-disrupt annotation."""
    return node.node is not None and node.node.metadata.annotations.get(DO_NOT_DISRUPT) == "true"


def _pool_refusals(node: ClusterNode, snapshot: Snapshot, about: ObjectRef) -> Iterator[Refusal]:
    pool = node.nodepool_name
    if not pool:
        yield Refusal(RefusalCode.NO_NODE_POOL, about, permanent=True)
    elif pool in snapshot.unread.pools:
        bad = str(snapshot.unread.pools[pool])
        yield Refusal(RefusalCode.UNREADABLE, about, permanent=True, nodepool=pool, detail=bad)
    elif pool not in snapshot.nodepools or pool not in snapshot.catalogs:
        yield Refusal(RefusalCode.NODE_POOL_MISSING, about, permanent=True, nodepool=pool)
    paused = snapshot.pause_of(pool)
    if paused is not None:
        until, by = paused.until, paused.by
        yield Refusal(RefusalCode.PAUSED, about, until, until is None, setting=by, detail=paused.fault)


def stands(block: Refusal, *, bounded: bool) -> bool:
    """Whether what a pod has against a disruption counts, where a claim may bound its own drain."""
    return not bounded or block.code == RefusalCode.DO_NOT_DISRUPT_POD


def pod_blocks(node: ClusterNode, snapshot: Snapshot) -> list[Refusal]:
    """Everything the node's pods have against it: annotations, the longest protection first; then PDBs."""
    return _blocks(_facts(node, snapshot), snapshot)


def _facts(node: ClusterNode, snapshot: Snapshot) -> NodeFacts:
    book = CandidateCache()
    book.turn_to(snapshot)
    return book.of(node)


def _blocks(facts: NodeFacts, snapshot: Snapshot) -> list[Refusal]:
    about = node_ref(facts.node.name)
    blocks = [
        protection_refusal(about, pod, protected) for pod, protected in longest_first(facts.annotated, snapshot.at)
    ]
    blocks += [
        Refusal(RefusalCode.UNKNOWN_DEVICES, about, permanent=True, pod=pod.key)
        for pod in facts.annotated
        if pod.spec.resource_claims and pod.reschedulable
    ]
    for pod, guards in facts.guarded:
        if len(guards) == 1 and snapshot.pdbs[guards[0]].status.disruptions_allowed > 0:
            continue
        if protection(pod, snapshot.at).active:
            continue
        block = find_block(pod, [snapshot.pdbs[each] for each in guards])
        if block is not None:
            blocks.append(msgspec.structs.replace(block, object=about))
    return blocks


def build_candidate(node: ClusterNode, snapshot: Snapshot) -> Candidate:
    """A node with what its disruption would cost and save."""
    return _candidate(_facts(node, snapshot), snapshot)


def _candidate(facts: NodeFacts, snapshot: Snapshot) -> Candidate:
    node = facts.node
    assert node.claim is not None, "only managed nodes become candidates"
    instance_type = snapshot.types_by_pool.get(node.nodepool_name, {}).get(node.labels.get(INSTANCE_TYPE, ""))
    pool = snapshot.nodepools[node.nodepool_name]
    return Candidate(
        node=node,
        claim=node.claim,
        pool=pool,
        instance_type=instance_type,
        price=node_price(node, instance_type),
        cost=facts.cost,
        weight=facts.burden * lifetime_left(node.claim, snapshot.at, pool.spec.disruption.expire_after),
        pods_to_reschedule=facts.pods_to_reschedule,
    )


def node_price(node: ClusterNode, instance_type: InstanceType | None) -> float:
    """What the node costs an hour, as its offering says, whether that can be had now or not; 0 if nobody knows."""
    bought = instance_type.bought_with(node.labels) if instance_type is not None else None
    return bought.price if bought is not None else 0.0


LEAST_SAVING = 1e-9
"""Dollars an hour. Prices are floats, and sums of them are rounded: 0.1 + 0.2 is more than 0.3, yet saves nothing."""


def price_ceiling(candidates: Sequence[Candidate]) -> float:
    """The price that a replacement of these nodes must be below, so that the command saves something."""
    return sum(each.price for each in candidates) - LEAST_SAVING


def least_disruptive(candidates: Iterable[Candidate]) -> list[Candidate]:
    """In the order they are considered: what hurts least first; Balanced pools by what a saving costs; then by name."""
    return sorted(candidates, key=attrgetter("order"))
