"""Removal simulation: for each node or set of nodes, could it go, with at most one cheaper node in its place?

One problem and one solver state answer for all nodes. A removal marks the journal, removes the rows with their
counts, places their pods by the usual placement, reads the answer, and undoes everything: the cost is that of the
pods, not of the cluster.

`follow` and `remove_node` apply changes of single nodes. Invariant: the answer afterwards equals the answer of a new
simulation (`tests/properties/test_following.py`).
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec

from dovetail.core.scheduling.drain_simulation import DrainSimulation, EvictionPermits
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodIndex, PodShape
from dovetail.core.scheduling.problem import SOFT, Problem
from dovetail.core.scheduling.purchasable import Purchasable, PurchaseTerms
from dovetail.core.scheduling.quick_reject import QuickReject
from dovetail.core.scheduling.removal import Bounds, JointRemoval, PodsToReschedule, Queue, Removal, Trail, try_again
from dovetail.core.scheduling.single_node_fit import SingleNodeFit, plain_stance
from dovetail.core.scheduling.solver import queue_order, run
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_counts import SpreadCounts
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
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
        self._removals: dict[int, Removal] = {}
        self._sets: dict[tuple[tuple[int, ...], Bounds], JointRemoval] = {}
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
        return [bound_pod for bound_pod in self._base.bound_pods[row] if bound_pod[0].reschedulable]

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
        return known

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
        return next((self._base.existing_nodes.nodes[row] for row in opened if row in trail.rows), None)

    def _look_together(self, rows: tuple[int, ...], bounds: Bounds) -> JointRemoval:
        purchasable = self._in_exchange(rows)
        if bounds.most_drafts is None:
            placer = PodPlacer(self._solver_state, purchasable.fresh(), below=bounds.below)
        else:
            placer = SingleNodeFit(self._solver_state, purchasable, below=bounds.below, most_drafts=bounds.most_drafts)
        removed_pods = self._removed_pods(self._queue(rows, bounds))
        trail = self._simulate(rows, placer, removed_pods)
        if trail.blocker is None:
            return JointRemoval(trail.drafts, None)
        return JointRemoval((), trail.blocker, self._limiting(rows, removed_pods, bounds))

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
        known = self._removals.get(row)
        if known is None:
            known = self._removals[row] = self._with_limits(row, self._look(row))
        return known

    def _with_limits(self, row: int, removal: Removal) -> Removal:
        """The answer that a node stays names the limits it stays for."""
        price = removal.price
        if removal.blocker is None or price is None or not self._in_exchange((row,)).restricted:
            return removal
        removed_pods = self._removed_pods(sorted(self._moving_by_row[row], key=queue_order))
        limits = self._limiting((row,), removed_pods, Bounds(below=price, most_drafts=1))
        return msgspec.structs.replace(removal, limits=limits) if limits else removal

    def _look(self, row: int) -> Removal:
        price = self._price(row)
        if not self._moving_by_row[row]:
            return Removal("delete", price)
        removed_pods = self._removed_pods(sorted(self._moving_by_row[row], key=queue_order))
        purchase = PurchaseTerms(price, self._in_exchange((row,)))
        blocker = self._quick_reject.find_blocker(row, removed_pods.queue, purchase)
        if blocker is not None:
            return Removal("stay", price, blocker=blocker)
        trail = self._simulate((row,), self._single_node_fit(purchase), removed_pods)
        if trail.blocker is not None:
            return Removal("stay", price, blocker=trail.blocker)
        return Removal("replace", price, trail.drafts[0]) if trail.drafts else Removal("delete", price)

    def _single_node_fit(self, purchase: PurchaseTerms) -> SingleNodeFit:
        most_drafts = 0 if purchase.below is None else 1
        return SingleNodeFit(
            self._solver_state, purchase.purchasable, below=purchase.below or 0.0, most_drafts=most_drafts
        )

    def _removed_pods(self, queue: Queue) -> PodsToReschedule:
        shapes = [shape for _, shape in queue]
        return PodsToReschedule(queue, tuple(dict.fromkeys([t for shape in shapes for t in self._spreads[shape]])))

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
        single_node_fit = placer if isinstance(placer, SingleNodeFit) else None
        for pod, shape in queue:
            plain = self._plain[shape] if single_node_fit is not None else None
            if single_node_fit is not None and plain is not None:
                if not single_node_fit.place_plain(pod, shape, plain):
                    return pod
                continue
            unfit = single_node_fit.settle() if single_node_fit is not None else None
            if unfit is not None:
                return unfit
            found = placer.place(pod, shape)
            if isinstance(found, int):
                trail.rows.add(found)
            if found is None:
                if not self._bound[shape]:
                    return pod  # nodes only fill up, so no later try helps
                waiting.append((pod, shape))
        unfit = single_node_fit.settle() if single_node_fit is not None else None
        if unfit is not None:
            return unfit
        return try_again(placer, waiting, trail.rows)

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
        """Other pods are on a node, or it is closed or not: bring the base state up to that.

        False means that the change cannot be applied, and a new simulation is needed.
        """
        base, solver_state = self._base, self._solver_state
        before = self._taking(row), self._counting(row), tuple(base.free[row]), row in solver_state.removed
        base.replace_room(row, node, gone=gone)
        after = self._taking(row), self._counting(row), tuple(base.free[row]), closed
        left, come = before[1] - after[1], after[1] - before[1]
        if not all(self._adopted(*bound_pod) for bound_pod in base.bound_pods[row]):
            return False
        if not self._topology.moved(row, [*left.elements()], [*come.elements()]):
            return False
        if row in self._moving_by_row:
            self._moving_by_row[row] = self._pods_to_reschedule(row)
            if any(shape not in self._bound for _, shape in self._moving_by_row[row]):
                return False
        solver_state.refill(row, left.elements(), come.elements())
        solver_state.removed.pop(row, None)
        if closed:
            solver_state.removed[row] = row
        if gone:
            solver_state.drop(row)
        self._forget(row, everything=gone or before != after)
        return True

    def _forget(self, row: int, *, everything: bool) -> None:
        """Let go of answers. To other nodes a row is the same as long as its pods take and count as they did."""
        if everything:
            self._removals.clear()
            self._sets.clear()
        else:  # its own answers name its pods
            self._removals.pop(row, None)
            self._sets = {asked: found for asked, found in self._sets.items() if row not in asked[0]}

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

    def _taking(self, row: int) -> Counter[PodShape]:
        """The pods that take room."""
        return Counter(shape for _, shape in self._base.bound_pods[row])

    def _counting(self, row: int) -> Counter[PodShape]:
        """The pods that topology counts."""
        return Counter(self._base.placed(row))

    def _price(self, row: int) -> float | None:
        node = self._base.existing_nodes.nodes[row]
        kind = self._base.snapshot.types_by_pool.get(node.nodepool_name, {}).get(node.labels.get(INSTANCE_TYPE, ""))
        bought = kind.bought_with(node.labels) if kind is not None else None
        return bought.price if bought is not None else None
