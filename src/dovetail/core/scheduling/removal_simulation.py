"""Removal simulation: for each node or set of nodes, could it go, with at most one cheaper node in its place?

One problem and one solver state answer for all nodes. A removal marks the journal, removes the rows with their
counts, places their pods by the usual placement, reads the answer, and undoes everything: the cost is that of the
pods, not of the cluster.

Answers are kept until a change may affect them (`removal_cache`); `follow` and `remove_node` apply changes of single
nodes. Invariant: an answer that is kept equals the answer of a new simulation (`tests/properties/test_following.py`).
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec

from dovetail.core.scheduling.drain_simulation import DrainSimulation, EvictionPermits
from dovetail.core.scheduling.instance_type_table import PRICES_BY_OFFERING
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_index import PodIndex
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.problem import SOFT, Problem, Requalified
from dovetail.core.scheduling.purchasable import Purchasable, PurchaseTerms
from dovetail.core.scheduling.quick_reject import QuickReject
from dovetail.core.scheduling.removal import (
    Bounds,
    EquivalentRemoval,
    JointRemoval,
    PodsToReschedule,
    Queue,
    Removal,
    Trail,
    try_again,
)
from dovetail.core.scheduling.removal_cache import (
    BEYOND,
    CachedRemoval,
    NodeChange,
    NodeFootprint,
    RemovalCache,
    count_by_shape,
    multiset_difference,
    reach,
)
from dovetail.core.scheduling.single_node_fit import SingleNodeFit, plain_stance
from dovetail.core.scheduling.solver import queue_order, run
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_counts import SpreadCounts, TopologyCounts
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot


def simulate_removals(
    snapshot: Snapshot, pools: Sequence[NodePool], *, respect_preferences: bool = True
) -> Mapping[str, Removal]:
    """The answer for every managed, initialised node that is not on its way out, by name."""
    swept = RemovalSimulation(snapshot, pools, respect_preferences=respect_preferences)
    return {swept.name(row): swept.remove(row) for row in swept.rows}


class RemovalSimulation:
    """One base state, asked about many nodes."""

    def __init__(  # noqa: PLR0913 - what it is made from
        self,
        snapshot: Snapshot,
        pools: Sequence[NodePool],
        *,
        respect_preferences: bool = True,
        waiting: Sequence[Pod] = (),
        closed: Container[str] = (),
        register: PodIndex | None = None,
    ) -> None:
        """`waiting` pods are placed first; nodes named in `closed` take none of the pods that are rescheduled."""
        self._base = Problem(snapshot, waiting, pools, register=register)
        self._prices = {pool: PRICES_BY_OFFERING.of(types) for pool, types in snapshot.catalogs.items()}
        nodes = self._base.existing_nodes.nodes
        self.rows = [row for row, node in enumerate(nodes) if node.managed and node.initialized]
        self._moving_by_row = {row: self._pods_to_reschedule(row) for row in self.rows}
        shapes = dict.fromkeys(
            shape for pods_to_reschedule in self._moving_by_row.values() for _, shape in pods_to_reschedule
        )
        shapes.update(dict.fromkeys(shape for _, shape in self._base.pods_to_reschedule))
        self._topology = Topology(self._base, shapes, respect_preferences=respect_preferences)
        self._solver_state = SolverState(self._base, self._topology)
        self._purchasable = Purchasable(self._base)
        self._quick_reject = QuickReject(self._solver_state)
        self._spreads = {shape: self._spreads_of(shape) for shape in shapes}
        self._bound = {shape: not self._free(shape) for shape in shapes}
        self._plain = {shape: plain_stance(self._solver_state, shape) for shape in shapes}
        self._departures: dict[int, PodsToReschedule] = {}
        self._price_by_row: dict[int, float | None] = {}
        self._answers = RemovalCache[int, Removal]()
        self._sets = RemovalCache[tuple[tuple[int, ...], Bounds], JointRemoval]()
        self._twins: dict[tuple[float | None, Purchasable, tuple[int, ...]], EquivalentRemoval | None] = {}
        self.expecting, self.quick_reject = self._give_room_to_the_waiting()
        for row, node in enumerate(nodes):
            if node.name in closed:
                self._solver_state.removed[row] = row

    def _give_room_to_the_waiting(self) -> tuple[frozenset[str], frozenset[Key]]:
        """The nodes that take them, and the pods left over, for which provisioning launches nodes."""
        placer = PodPlacer(self._solver_state, self._purchasable, most_drafts=0)
        node_by_pod: dict[Key, str] = {}
        left = run(placer, sorted(self._base.pods_to_reschedule, key=queue_order), node_by_pod)
        return frozenset(node_by_pod.values()), frozenset([pod.key for pod, _ in left])

    def name(self, row: int) -> str:
        """The node of a row."""
        return self._base.existing_nodes.nodes[row].name

    def _pods_to_reschedule(self, row: int) -> Queue:
        movable = self._base.existing_nodes.nodes[row].movable
        return [bound_pod for bound_pod in self._base.bound_pods[row] if id(bound_pod[0]) in movable]

    def _spreads_of(self, shape: PodShape) -> tuple[SpreadCounts, ...]:
        rules = (self._topology.rules(level) for level in self._topology.preference_levels(shape))
        return tuple(dict.fromkeys(topology_counts for each in rules for topology_counts, _ in each.spread))

    def _free(self, shape: PodShape) -> bool:
        return all(self._topology.rules(level).free for level in self._topology.preference_levels(shape))

    def row(self, name: str) -> int:
        """The row of a node."""
        return self._base.existing_nodes.row_by_name[name]

    def remove_together(self, rows: Sequence[int], bounds: Bounds) -> JointRemoval:
        """Take several nodes away, look, and put everything back."""
        asked = (tuple(rows), bounds)
        known = self._sets.get(asked)
        if known is None:
            known = self._sets[asked] = self._look_together(asked[0], bounds)
        return known.value

    def starting_place(self, rows: Sequence[int], bounds: Bounds) -> ClusterNode | None:
        """A node that is not initialized and would take a pod of these rows before anything is launched, or None.

        Other simulations leave these nodes out. This one includes them, so its answer is not cached.
        """
        removed = self._solver_state.removed
        opened = [
            row for row, node in enumerate(self._base.existing_nodes.nodes) if not node.initialized and row in removed
        ]
        if not opened:
            return None
        for row in opened:
            del removed[row]
        try:
            placer = PodPlacer(
                self._solver_state, Purchasable(self._base), below=bounds.below, most_drafts=bounds.most_drafts
            )
            trail = self._simulate(rows, placer, self._removed_pods(self._queue(rows, bounds)))
        finally:
            removed.update((row, row) for row in opened)
        taken = {*trail.places, *(row for _, row in trail.later)}
        return next((self._base.existing_nodes.nodes[row] for row in opened if row in taken), None)

    def _look_together(self, rows: tuple[int, ...], bounds: Bounds) -> CachedRemoval[JointRemoval]:
        purchasable = self._in_exchange(rows)
        if bounds.most_drafts is None:
            placer = PodPlacer(self._solver_state, purchasable.fresh(), below=bounds.below)
        else:
            placer = SingleNodeFit(self._solver_state, purchasable, below=bounds.below, most_drafts=bounds.most_drafts)
        removed_pods = self._removed_pods(self._queue(rows, bounds))
        trail = self._simulate(rows, placer, removed_pods)
        together = JointRemoval(trail.drafts if trail.blocker is None else (), trail.blocker)
        if trail.blocker is not None:
            together = replace(together, limits=self._limiting(rows, removed_pods, bounds))
        return CachedRemoval(together, rows, removed_pods.shapes, tuple(trail.places), tuple(trail.later))

    def _queue(self, rows: Sequence[int], bounds: Bounds) -> Queue:
        """The pods that leave these rows, in the order they are placed."""
        pods_to_reschedule = [
            entry for row in rows for entry in self._moving_by_row[row] if entry[0].key not in bounds.staying
        ]
        return sorted(pods_to_reschedule, key=queue_order)

    def _limiting(self, rows: Sequence[int], removed_pods: PodsToReschedule, bounds: Bounds) -> str:
        """The limits without which nodes could go that cannot; empty if they could not go without limits either."""
        purchasable = self._in_exchange(rows)
        if not purchasable.restricted:
            return ""
        placer = PodPlacer(
            self._solver_state, purchasable.unlimited(), below=bounds.below, most_drafts=bounds.most_drafts
        )
        trail = self._simulate(rows, placer, removed_pods)
        return purchasable.blocking(trail.drafts) if trail.blocker is None else ""

    def _in_exchange(self, rows: Sequence[int]) -> Purchasable:
        """What may be launched to replace these rows, which do not count against limits."""
        return self._purchasable.without([self._base.existing_nodes.nodes[row] for row in rows])

    def stalled(self, rows: Sequence[int], permits: EvictionPermits, bounds: Bounds) -> Pod | None:
        """The pod that a drain of these nodes would wait for without end, as PDBs allow evictions now, or None."""
        pods_to_reschedule = (entry for row in rows for entry in self._moving_by_row[row])
        ruled = any(pod.key in permits.budgets and self._ruled(shape) for pod, shape in pods_to_reschedule)
        return self.drain(rows, permits, bounds).blocker() if ruled else None

    def drain(self, rows: Sequence[int], permits: EvictionPermits, bounds: Bounds) -> DrainSimulation:
        """The simulation of a drain of these nodes, with what may be launched to replace them."""
        pods_to_reschedule = {row: self._moving_by_row[row] for row in rows}
        spreads = self._removed_pods([entry for queue in pods_to_reschedule.values() for entry in queue]).spreads
        purchasable = self._in_exchange(rows)
        placer = PodPlacer(self._solver_state, purchasable, below=bounds.below, most_drafts=bounds.most_drafts)
        return DrainSimulation(placer, pods_to_reschedule, spreads, permits)

    def unruled(self, row: int) -> bool:
        """Whether nothing but taints, labels and size decides where the pods of a node may run."""
        return all(self._plain[shape] is not None for _, shape in self._moving_by_row[row])

    def _ruled(self, shape: PodShape) -> bool:
        """Whether topology binds a pod even when it gives up everything it prefers."""
        return not self._topology.rules(self._topology.preference_levels(shape)[-1]).free

    def remove(self, row: int) -> Removal:
        """Take one node away, look, and put everything back."""
        known = self._answers.get(row)
        if known is None:
            known = self._answers[row] = self._with_limits(row, self._look(row))
        return known.value

    def _with_limits(self, row: int, answer: CachedRemoval[Removal]) -> CachedRemoval[Removal]:
        """The answer that a node stays names the limits it stays for."""
        price = answer.value.price
        if answer.value.blocker is None or price is None or not self._in_exchange((row,)).restricted:
            return answer
        removed_pods = self._removed_pods(sorted(self._moving_by_row[row], key=queue_order))
        limits = self._limiting((row,), removed_pods, Bounds(below=price, most_drafts=1))
        if not limits:
            return answer
        return msgspec.structs.replace(answer, value=msgspec.structs.replace(answer.value, limits=limits))

    def _look(self, row: int) -> CachedRemoval[Removal]:
        pods_to_reschedule = self._moving_by_row[row]
        price = self._price(row)
        if not pods_to_reschedule:
            return CachedRemoval(Removal("delete", price), (row,))
        removed_pods = self._departures.get(row)
        if removed_pods is None:
            removed_pods = self._departures[row] = self._alone(sorted(pods_to_reschedule, key=queue_order))
        purchase = PurchaseTerms(price, self._in_exchange((row,)))
        equivalent = self._equivalent(removed_pods, purchase)
        if equivalent is not None and row not in equivalent.existing_nodes:
            return equivalent.answer(row, removed_pods, price)
        evidence = self._answers.seen.get(row)
        if evidence is None:
            check = self._quick_reject.check(row, removed_pods.queue, purchase)
            evidence = check.evidence
            if check.blocker is not None:
                removal = Removal("stay", price, blocker=check.blocker)
                return CachedRemoval(removal, (row,), removed_pods.shapes, evidence=evidence)
        trail = self._simulate((row,), self._single_node_fit(purchase), removed_pods)
        if trail.blocker is not None:
            removal = Removal("stay", price, blocker=trail.blocker)
        else:
            removal = Removal("replace", price, trail.drafts[0]) if trail.drafts else Removal("delete", price)
        return CachedRemoval(removal, (row,), removed_pods.shapes, tuple(trail.places), tuple(trail.later), evidence)

    def _single_node_fit(self, purchase: PurchaseTerms) -> SingleNodeFit:
        most_drafts = 0 if purchase.below is None else 1
        return SingleNodeFit(
            self._solver_state, purchase.purchasable, below=purchase.below or 0.0, most_drafts=most_drafts
        )

    def _equivalent(self, removed_pods: PodsToReschedule, purchase: PurchaseTerms) -> EquivalentRemoval | None:
        """The answer for plain pods with these needs, whichever node they are on; None if they may need a new node.

        It holds for each node with such pods, in the same order, except for the nodes that take them.
        """
        if removed_pods.homes is None:
            return None
        key = (purchase.below, purchase.purchasable, removed_pods.homes)
        if key not in self._twins:
            self._twins[key] = self._from_afar(removed_pods, purchase)
        return self._twins[key]

    def _from_afar(self, removed_pods: PodsToReschedule, purchase: PurchaseTerms) -> EquivalentRemoval | None:
        check, few = self._quick_reject.check_equivalent(removed_pods.queue, purchase)
        homes = zip(removed_pods.shapes, removed_pods.homes or (), strict=True)
        seen = frozenset([home for shape, home in homes if shape in check.evidence])
        blocker = check.blocker
        places: tuple[int, ...] = ()
        if blocker is None:
            trail = self._simulate((), self._single_node_fit(purchase), removed_pods)
            if trail.blocker is None and trail.drafts:
                return None
            blocker, places = trail.blocker, tuple(trail.places)
        pods = [pod for pod, _ in removed_pods.queue]
        blocked = next((place for place, pod in enumerate(pods) if pod is blocker), None)
        return EquivalentRemoval(few.union(places), places, blocked, seen)

    def _alone(self, queue: Queue) -> PodsToReschedule:
        """The pods of one node, and the candidate rows of each."""
        removed_pods = self._removed_pods(queue)
        if any(self._plain[shape] is None for shape in removed_pods.shapes):
            return removed_pods
        homes = tuple(
            [id(self._quick_reject.existing_nodes(shape)) for shape in removed_pods.shapes]
        )  # one list for all alike
        return msgspec.structs.replace(removed_pods, homes=homes)

    def _removed_pods(self, queue: Queue) -> PodsToReschedule:
        shapes = tuple([shape for _, shape in queue])
        return PodsToReschedule(
            queue, shapes, tuple(dict.fromkeys([t for shape in shapes for t in self._spreads[shape]]))
        )

    def _simulate(self, rows: Sequence[int], placer: PodPlacer, removed_pods: PodsToReschedule) -> Trail:
        """Remove these rows, place the pods, and undo: the place of each pod, the drafts, the pod without a place."""
        solver_state = self._solver_state
        mark = solver_state.journal.mark()
        for row in rows:
            solver_state.remove(row, removed_pods.spreads)
        trail = Trail()
        trail.blocker = self._blocker(placer, removed_pods.queue, trail)
        trail.drafts = tuple(solver_state.drafts)
        solver_state.undo(mark)
        return trail

    def _blocker(self, placer: PodPlacer, queue: Queue, trail: Trail) -> Pod | None:
        """A pod that finds no place, or None when all do."""
        waiting: list[tuple[Pod, PodShape]] = []
        places = trail.places
        single_node_fit = placer if isinstance(placer, SingleNodeFit) else None
        for pod, shape in queue:
            plain = self._plain[shape] if single_node_fit is not None else None
            if single_node_fit is not None and plain is not None:
                row = single_node_fit.place_plain(pod, shape, plain)
                places.append(BEYOND if row is None else row)
                if row is None:
                    return pod
                continue
            unfit = single_node_fit.settle() if single_node_fit is not None else None
            if unfit is not None:
                return unfit
            found = placer.place(pod, shape)
            places.append(found if isinstance(found, int) else BEYOND)
            if found is None:
                if not self._bound[shape]:
                    return pod  # nodes only fill up, so no later try helps
                waiting.append((pod, shape))
        unfit = single_node_fit.settle() if single_node_fit is not None else None
        if unfit is not None:
            return unfit
        return try_again(placer, waiting, trail.later)

    def remove_node(self, row: int) -> bool:
        """A node is leaving or gone: it takes no pods, and its pods do not count. False as for `follow`."""
        node = replace(self._base.existing_nodes.nodes[row], pods=())
        if self._base.limits.remaining or any(taint.effect == SOFT for taint in self._base.existing_nodes.taints[row]):
            return False  # limits or preferences may have another effect without it
        if not self.follow(row, node, closed=True, gone=True):
            return False
        self.rows = [each for each in self.rows if each != row]
        self._moving_by_row.pop(row, None)
        self._base.existing_nodes.row_by_name.pop(node.name)
        return True

    def follow(self, row: int, node: ClusterNode, *, closed: bool, gone: bool = False) -> bool:
        """The pods of a node have changed, or whether it takes pods: keep each answer that this cannot affect.

        False means that the change cannot be applied, and a new simulation is needed.
        """
        base, solver_state = self._base, self._solver_state
        self._twins.clear()
        before = self._room(row)
        lists = base.replace_room(row, node, gone=gone)
        after = replace(self._room(row), closed=closed)
        if before.taking == after.taking and before.closed is closed and not gone:
            lists = Requalified()  # it is as full as before
        left, come = multiset_difference(before.placed, after.placed), multiset_difference(after.placed, before.placed)
        if not all(self._adopted(*bound_pod) for bound_pod in base.bound_pods[row]):
            return False
        if not self._topology.moved(row, left, come):
            return False
        if row in self._moving_by_row:
            self._moving_by_row[row] = self._pods_to_reschedule(row)
            self._departures.pop(row, None)
            self._quick_reject.forget(row)
            if any(shape not in self._bound for _, shape in self._moving_by_row[row]):
                return False
        solver_state.refill(row, left, come)
        listed = set() if before.closed else lists.before
        solver_state.removed.pop(row, None)
        if closed:
            solver_state.removed[row] = row
        else:
            listed = listed | lists.after
        dropped = solver_state.drop(row) if gone else set()
        change = replace(self._change(row, lists, listed, {*left, *come}, dropped), reach=reach(row, before, after))
        self._answers.turn(change, before, after)
        self._sets.turn(change, before, after)
        return True

    def _adopted(self, pod: Pod, shape: PodShape) -> bool:
        """Whether a shape is known, or can be made known without any rule becoming another."""
        book = self._topology
        if not book.knows(shape):
            if not self._base.measures(pod, shape) or not book.adopt(shape):
                return False
            self._spreads[shape] = self._spreads_of(shape)
            self._bound[shape] = not self._free(shape)
            self._plain[shape] = plain_stance(self._solver_state, shape)
        return True

    def _room(self, row: int) -> NodeFootprint:
        taking = count_by_shape([shape for _, shape in self._base.bound_pods[row]])
        return NodeFootprint(
            taking,
            count_by_shape(self._base.placed(row)),
            tuple(self._base.free[row]),
            row in self._solver_state.removed,
        )

    def _change(
        self, row: int, lists: Requalified, listed: set[int], moved: set[PodShape], dropped: set[TopologyCounts]
    ) -> NodeChange:
        touched, always, cramped, expelled = set(), set(), set(), set()
        for shape in self._bound:
            preference_levels = self._topology.preference_levels(shape)
            known = [id(self._base.candidates_known(level)) for level in preference_levels]
            if not listed.isdisjoint(known):
                touched.add(shape)
                if len(preference_levels) > 1:
                    always.add(shape)
            if not lists.short.isdisjoint(known):
                cramped.add(shape)
                if not lists.left.isdisjoint(known):
                    expelled.add(shape)
        counting = dropped | {
            topology_counts for shape in moved for topology_counts in self._topology.counted_by[shape]
        }
        always |= self._topology.asking(counting) if counting else set()
        return NodeChange(row, frozenset(touched), frozenset(always), frozenset(cramped), frozenset(expelled))

    def _price(self, row: int) -> float | None:
        if row not in self._price_by_row:
            node = self._base.existing_nodes.nodes[row]
            labels = node.labels
            bought = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
            self._price_by_row[row] = self._prices.get(node.nodepool_name, {}).get(bought)
        return self._price_by_row[row]
