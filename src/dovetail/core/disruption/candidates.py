"""Finds the nodes that may be disrupted, and the first obstacle of each other node.

`find_candidates` turns every managed node into a `Candidate` or a `Refusal`; it drops none silently. The checks run in
a fixed order: the Node and NodeClaim, the NodePool, the pods. Of the pods, do-not-disrupt annotations come before
PodDisruptionBudgets (PDBs).

`CandidateCache` keeps `NodeFacts`, the facts that depend only on the node, its pods and the selectors of all PDBs. What
a PDB allows and what depends on the time is read in every pass. Without the cache, reading all pods of a cluster takes
several times as long as the rest of a pass in which few pods changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from dovetail.core.disruption.disruption_cost import BASE_COST, disruption_cost, lifetime_left, total_eviction_cost
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

PdbSelector = tuple[str, str, LabelSelector | None]
"""Namespace, name and selector of a PDB."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node and its pods, as far as they do not depend on the time. PDBs are given by position in the snapshot."""

    node: ClusterNode
    disruptable: bool  # nothing on the Node or its NodeClaim prevents disruption
    restricted_pods: tuple[Pod, ...]  # with a do-not-disrupt annotation, or resourceClaims that cannot be simulated
    pods_with_pdbs: tuple[tuple[Pod, tuple[int, ...]], ...]
    pdb_sets: frozenset[tuple[int, ...]]  # the distinct PDB positions in `pods_with_pdbs`
    pods_to_reschedule: tuple[Pod, ...]
    disruption_cost: float
    eviction_cost: float


class CandidateCache:
    """`NodeFacts` by node name. An entry is valid while the node and the selectors of all PDBs are equal."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._selectors: tuple[PdbSelector, ...] = ()
        self._by_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._snapshot: Snapshot | None = None

    def use_snapshot(self, snapshot: Snapshot) -> None:
        """Drop what the PDB selectors of this snapshot invalidate; later calls are about its nodes."""
        if self._snapshot is snapshot:  # snapshots are immutable: the same object is the same value
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

    def facts(self, node: ClusterNode) -> NodeFacts:
        """The facts of a node of the current snapshot."""
        known = self._facts.get(node.name)
        if known is None or (known.node is not node and known.node != node):
            known = self._facts[node.name] = self._read(node)
        return known

    def _read(self, node: ClusterNode) -> NodeFacts:
        selected = ((pod, self.pdb_positions(pod)) for pod in node.pods if pod.active and not pod.mirror)
        pods_with_pdbs = tuple((pod, pdbs) for pod, pdbs in selected if pdbs and not tolerates_disruption(pod))
        return NodeFacts(
            node=node,
            disruptable=_is_disruptable(node),
            restricted_pods=tuple(
                pod for pod in node.pods if DO_NOT_DISRUPT in pod.metadata.annotations or pod.spec.resource_claims
            ),
            pods_with_pdbs=pods_with_pdbs,
            pdb_sets=frozenset([pdbs for _, pdbs in pods_with_pdbs]),
            pods_to_reschedule=tuple(pod for pod in node.pods if pod.reschedulable),
            disruption_cost=disruption_cost(node.pods),
            eviction_cost=total_eviction_cost(node.pods),
        )

    def pdb_positions(self, pod: Pod) -> tuple[int, ...]:
        """The positions of the PDBs that select a pod."""
        selectors = self._by_namespace.get(pod.metadata.namespace, ())
        return tuple([position for position, selector in selectors if selector.matches(pod.metadata.labels)])


def _is_disruptable(node: ClusterNode) -> bool:
    """Whether `node_refusals` has nothing against the Node and NodeClaim, without reading the rest of the snapshot."""
    claim, kube_node = node.claim, node.node
    if claim is None or kube_node is None or not node.initialized or node.deleting or kube_node.deleting:
        return False
    annotations = claim.metadata.annotations
    if RECORD_ANNOTATION in annotations or REPLACES_ANNOTATION in annotations:
        return False
    return kube_node.metadata.annotations.get(DO_NOT_DISRUPT) != "true" and bool(node.nodepool_name)


@dataclass(frozen=True)
class Candidate:
    """A node that may be disrupted now, as far as the node, its pods and its NodePool are concerned."""

    node: ClusterNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    price: float  # dollars an hour; 0 if unknown
    cost: float  # disruption cost: 1 plus the eviction costs of its pods; used by Balanced NodePools
    weight: float  # eviction costs times the share of its lifetime left; orders candidates elsewhere
    pods_to_reschedule: tuple[Pod, ...]

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
        """Sort key: lowest weight first; with Balanced or minSavings, highest price per disruption cost; by name."""
        if self.pool.consolidation_policy == "Balanced" or self.pool.min_savings is not None:
            return -self.price / self.cost, self.name
        return self.weight, self.name

    @property
    def capacity_type(self) -> str:
        """The capacity type label: spot, on-demand or reserved."""
        return self.node.labels.get(CAPACITY_TYPE, "")

    @property
    def zone(self) -> str:
        """The zone label."""
        return self.node.labels.get(ZONE, "")

    @property
    def empty(self) -> bool:
        """Whether no pod on it has to be rescheduled at a cost."""
        return self.cost <= BASE_COST


def find_candidates(
    snapshot: Snapshot, nodes: Sequence[ClusterNode], *, eventual: bool, cache: CandidateCache
) -> tuple[list[Candidate], list[Refusal]]:
    """Turn each managed node among `nodes` into a candidate or a refusal.

    With `eventual` (Karpenter's eventual disruption class), only do-not-disrupt pods block a node whose NodeClaim has a
    terminationGracePeriod: its drain ends in any case, so PDBs do not block.
    """
    cache.use_snapshot(snapshot)
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    pools = {name for name in snapshot.nodepools if name in snapshot.catalogs and snapshot.pause_of(name) is None}
    # Pods with exactly one PDB, which allows a disruption, are not blocked: no need to read them one by one.
    permissive = {(position,) for position, pdb in enumerate(snapshot.pdbs) if pdb.status.disruptions_allowed > 0}

    all_read = not snapshot.unreadable

    def judge(node: ClusterNode, claim: NodeClaim) -> Candidate | Refusal:
        facts = cache.facts(node)
        free = facts.disruptable and node.nodepool_name in pools and node.name not in snapshot.nominated
        free = free and (all_read or not (snapshot.unread.everywhere or snapshot.unread_on(node)))
        refusal = None if free else next(node_refusals(node, snapshot), None)
        bounded = eventual and claim.spec.termination_grace_period is not None
        if refusal is None and (facts.restricted_pods or not (bounded or facts.pdb_sets <= permissive)):
            blocks = (block for block in _pod_blocks(facts, snapshot) if still_blocks(block, bounded=bounded))
            refusal = next(blocks, None)
        return refusal or _candidate(facts, snapshot)

    for node in nodes:
        if node.claim is None:
            continue
        try:  # as `attempt` does, without the cost of a call for every node in every pass
            judged = judge(node, node.claim)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - an error about one node must not stop the others
            judged = internal_error(node_ref(node.name), error)
        if isinstance(judged, Refusal):
            refusals.append(judged)
        else:
            candidates.append(judged)
    return candidates, refusals


def node_refusals(node: ClusterNode, snapshot: Snapshot) -> Iterator[Refusal]:
    """Every reason of the Node, its NodeClaim and its NodePool not to disrupt it, in the order of the checks."""
    claim = node.claim
    assert claim is not None, "only managed nodes are checked"
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
    elif pool not in snapshot.nodepools:
        yield Refusal(RefusalCode.NODE_POOL_MISSING, about, permanent=True, nodepool=pool)
    elif pool in snapshot.missing_catalogs:
        yield Refusal(RefusalCode.NO_CATALOG, about, nodepool=pool, detail=snapshot.missing_catalogs[pool])
    elif pool not in snapshot.catalogs:
        kind = snapshot.nodepools[pool].node_class_ref.label
        yield Refusal(RefusalCode.NO_PROVIDER, about, permanent=True, nodepool=pool, detail=kind)
    paused = snapshot.pause_of(pool)
    if paused is not None:
        until, by = paused.until, paused.by
        yield Refusal(RefusalCode.PAUSED, about, until, until is None, setting=by, detail=paused.fault)


def still_blocks(block: Refusal, *, bounded: bool) -> bool:
    """Whether a pod blocks the disruption of its node; where the drain is bounded, only do-not-disrupt does."""
    return not bounded or block.code == RefusalCode.DO_NOT_DISRUPT_POD


def pod_blocks(node: ClusterNode, snapshot: Snapshot, cache: CandidateCache | None = None) -> list[Refusal]:
    """Every pod of the node that blocks its disruption: annotations, the longest protection first; then PDBs."""
    return _pod_blocks(_facts(node, snapshot, cache), snapshot)


def _facts(node: ClusterNode, snapshot: Snapshot, cache: CandidateCache | None) -> NodeFacts:
    cache = cache or CandidateCache()
    cache.use_snapshot(snapshot)
    return cache.facts(node)


def _pod_blocks(facts: NodeFacts, snapshot: Snapshot) -> list[Refusal]:
    about = node_ref(facts.node.name)
    blocks = [
        protection_refusal(about, pod, protected)
        for pod, protected in longest_first(facts.restricted_pods, snapshot.at)
    ]
    blocks += [
        Refusal(RefusalCode.UNKNOWN_DEVICES, about, permanent=True, pod=pod.key)
        for pod in facts.restricted_pods
        if pod.spec.resource_claims and pod.reschedulable
    ]
    for pod, pdbs in facts.pods_with_pdbs:
        if len(pdbs) == 1 and snapshot.pdbs[pdbs[0]].status.disruptions_allowed > 0:
            continue
        if protection(pod, snapshot.at).active:
            continue
        block = find_block(pod, [snapshot.pdbs[each] for each in pdbs])
        if block is not None:
            blocks.append(msgspec.structs.replace(block, object=about))
    return blocks


def build_candidate(node: ClusterNode, snapshot: Snapshot, cache: CandidateCache | None = None) -> Candidate:
    """A candidate for a node, whether or not something blocks its disruption."""
    return _candidate(_facts(node, snapshot, cache), snapshot)


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
        cost=facts.disruption_cost,
        weight=facts.eviction_cost * lifetime_left(node.claim, snapshot.at, pool.spec.disruption.expire_after),
        pods_to_reschedule=facts.pods_to_reschedule,
    )


def node_price(node: ClusterNode, instance_type: InstanceType | None) -> float:
    """The hourly price of the node's offering, available now or not; 0 if unknown."""
    bought = instance_type.offering_for_labels(node.labels) if instance_type is not None else None
    return bought.price if bought is not None else 0.0


LEAST_SAVING = 1e-9
"""Dollars an hour. Prices are floats and their sums are rounded: 0.1 + 0.2 > 0.3, but a replacement saves nothing."""


def price_ceiling(candidates: Sequence[Candidate]) -> float:
    """The price that a replacement of these nodes must stay below to save money."""
    return sum(each.price for each in candidates) - LEAST_SAVING


def least_disruptive_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in the order that methods consider them: see `Candidate.order`."""
    return sorted(candidates, key=attrgetter("order"))
