"""Removal simulation: for each node or set of nodes, can it be removed, with at most one cheaper node in its place?

One problem and one solver state serve all nodes. A removal marks the journal, removes the rows with their counts,
places their pods by the usual placement, reads the result, and undoes everything: the cost is that of the pods, not of
the cluster. Results are cached until a change of the cluster affects them.

`follow` and `remove_node` apply changes of single nodes, `reprice` applies other prices; `removal_answers` says which
results survive. Invariant: the results afterwards equal the results of a new simulation
(`tests/properties/test_following.py`, `test_small_changes.py`).
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec

from dovetail.core.scheduling.catalog_table import PriceChange
from dovetail.core.scheduling.drain_simulation import DrainSimulation, EvictionPermits
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodConstraints, PodIndex, PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.purchasable import Purchasable, PurchaseTerms
from dovetail.core.scheduling.quick_reject import QuickReject
from dovetail.core.scheduling.removal import (
    Bounds,
    Entry,
    JointRemoval,
    PlainRun,
    PodsToReschedule,
    Queue,
    Removal,
    SimulationResult,
    retry_unplaced,
)
from dovetail.core.scheduling.removal_answers import RemovalAnswers, RowState
from dovetail.core.scheduling.repricing import Repricing
from dovetail.core.scheduling.shared_removals import RunKey, SharedRemovals
from dovetail.core.scheduling.single_node_fit import PlainRuns, SingleNodeFit, plain_level
from dovetail.core.scheduling.solver import run, scheduling_order
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_counts import SpreadCounts
from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import PREFER_NO_SCHEDULE


def simulate_removals(
    snapshot: Snapshot, pools: Sequence[NodePool], *, respect_preferences: bool = True
) -> Mapping[str, Removal]:
    """The result for every managed, initialized node that is not being deleted, by name."""
    simulation = RemovalSimulation(snapshot, pools, respect_preferences=respect_preferences)
    return {simulation.name(row): simulation.remove(row) for row in simulation.rows}


class RemovalSimulation:
    """Simulates the removal of many nodes on one problem."""

    def __init__(  # noqa: PLR0913 - its inputs
        self,
        snapshot: Snapshot,
        pools: Sequence[NodePool],
        *,
        respect_preferences: bool = True,
        waiting: Sequence[Pod] = (),
        closed: Container[str] = (),
        register: PodIndex | None = None,
    ) -> None:
        """`waiting` pods are placed first; nodes named in `closed` take no rescheduled pods."""
        self._problem = Problem(snapshot, waiting, pools, register=register)
        nodes = self._problem.existing_nodes.nodes
        self.rows = [row for row, node in enumerate(nodes) if node.managed and node.initialized]
        self._pods_by_row = {row: self._problem.reschedulable_pods(row) for row in self.rows}
        shapes = dict.fromkeys(
            shape for pods_to_reschedule in self._pods_by_row.values() for _, shape in pods_to_reschedule
        )
        shapes.update(dict.fromkeys(shape for _, shape in self._problem.pods_to_reschedule))
        self._topology = Topology(self._problem, shapes, respect_preferences=respect_preferences)
        self._solver_state = SolverState(self._problem, self._topology)
        self._purchasable = Purchasable(self._problem)
        self._quick_reject = QuickReject(self._solver_state)
        self._spreads: dict[PodConstraints, tuple[SpreadCounts, ...]] = {}
        self._has_rules: dict[PodConstraints, bool] = {}
        self._plain: dict[PodConstraints, PreferenceLevel | None] = {}
        for constraints in dict.fromkeys(shape.constraints for shape in shapes):
            self._read(constraints)
        self._plain_runs = PlainRuns(self._problem, self._plain)
        self._queues: dict[int, PodsToReschedule] = {}  # by row: its pods in the order they are placed
        self._prices: dict[int, float | None] = {}
        self._answers = RemovalAnswers(self._queues, SharedRemovals(self._problem))
        self._shared_keys: dict[int, RunKey | None] = {}
        self.expecting, self.quick_reject = self._place_waiting_pods()
        for row, node in enumerate(nodes):
            if node.name in closed:
                self._solver_state.removed[row] = row

    def _place_waiting_pods(self) -> tuple[frozenset[str], frozenset[Key]]:
        """The nodes that take waiting pods, and the pods left over, for which provisioning launches nodes."""
        placer = PodPlacer(self._solver_state, self._purchasable, max_drafts=0)
        node_by_pod: dict[Key, str] = {}
        left = run(placer, sorted(self._problem.pods_to_reschedule, key=scheduling_order), node_by_pod)
        return frozenset(node_by_pod.values()), frozenset([pod.key for pod, _ in left])

    def name(self, row: int) -> str:
        """The name of the node of a row."""
        return self._problem.existing_nodes.nodes[row].name

    def _read(self, constraints: PodConstraints) -> None:
        """Read what the simulation of removals asks about constraints."""
        rules = [self._topology.rules(level) for level in self._topology.preference_levels(constraints)]
        spreads = dict.fromkeys(topology_counts for each in rules for topology_counts, _ in each.spread)
        self._spreads[constraints] = tuple(spreads)
        self._has_rules[constraints] = not all(each.unconstrained for each in rules)
        self._plain[constraints] = plain_level(self._solver_state, constraints)

    def row(self, name: str) -> int:
        """The row of a node."""
        return self._problem.existing_nodes.row_by_name[name]

    def remove_together(self, rows: Sequence[int], bounds: Bounds) -> JointRemoval:
        """Simulate the removal of several nodes; nothing is changed."""
        rows_and_bounds = (tuple(rows), bounds)
        known = self._answers.joint.get(rows_and_bounds)
        if known is None:
            known = self._answers.joint[rows_and_bounds] = self._simulate_set(rows_and_bounds[0], bounds)
        return known

    def uninitialized_destination(self, rows: Sequence[int], bounds: Bounds) -> ClusterNode | None:
        """A node that is not initialized and would take a pod of these rows, or None.

        Other simulations exclude these nodes. This one includes them, so its result is not cached.
        """
        removed, nodes = self._solver_state.removed, self._problem.existing_nodes.nodes
        opened = [row for row in sorted(removed) if not nodes[row].initialized]
        if not opened:
            return None
        for row in opened:
            del removed[row]
        try:
            placer = PodPlacer(
                self._solver_state, Purchasable(self._problem), below=bounds.below, max_drafts=bounds.max_drafts
            )
            trail = self._simulate(rows, placer, self._removed_pods(self._queue(rows, bounds)))
        finally:
            removed.update((row, row) for row in opened)
        return next((nodes[row] for row in opened if row in trail.rows), None)

    def _simulate_set(self, rows: tuple[int, ...], bounds: Bounds) -> JointRemoval:
        purchasable = self._purchasable_without(rows)
        if bounds.max_drafts is None:
            placer = PodPlacer(self._solver_state, purchasable.copy(), below=bounds.below)
        else:
            placer = SingleNodeFit(self._solver_state, purchasable, below=bounds.below, max_drafts=bounds.max_drafts)
        removed_pods = self._removed_pods(self._queue(rows, bounds))
        trail = self._simulate(rows, placer, removed_pods)
        if trail.blocker is None:
            return JointRemoval(trail.drafts, None, trail.rows, removed_pods.shapes)
        limits = self._blocking_limits(rows, removed_pods, bounds)
        return JointRemoval((), trail.blocker, trail.rows, removed_pods.shapes, limits)

    def _queue(self, rows: Sequence[int], bounds: Bounds) -> Queue:
        """The pods of these rows to reschedule, in the order they are placed."""
        pods_to_reschedule = [
            entry
            for row in rows
            for entry in self._pods_by_row[row]
            if not bounds.staying or entry[0].key not in bounds.staying
        ]
        return sorted(pods_to_reschedule, key=scheduling_order)

    def _blocking_limits(self, rows: Sequence[int], removed_pods: PodsToReschedule, bounds: Bounds) -> str:
        """The limits without which the rows could be removed; empty if limits are not the reason."""
        purchasable = self._purchasable_without(rows)
        if not purchasable.restricted:
            return ""
        placer = PodPlacer(
            self._solver_state, purchasable.unlimited(), below=bounds.below, max_drafts=bounds.max_drafts
        )
        trail = self._simulate(rows, placer, removed_pods)
        return purchasable.describe_blocking_limits(trail.drafts) if trail.blocker is None else ""

    def _purchasable_without(self, rows: Sequence[int]) -> Purchasable:
        """What may be launched to replace these rows; they do not count against limits."""
        if not self._problem.limits.remaining:
            return self._purchasable
        return self._purchasable.without([self._problem.existing_nodes.nodes[row] for row in rows])

    def stalled(self, rows: Sequence[int], permits: EvictionPermits, bounds: Bounds) -> Pod | None:
        """The pod that a drain of these nodes would wait for forever, as PDBs allow evictions now, or None."""
        pods_to_reschedule = (entry for row in rows for entry in self._pods_by_row[row])
        ruled = any(pod.key in permits.budgets and self._has_required_rules(shape) for pod, shape in pods_to_reschedule)
        return self.drain(rows, permits, bounds).blocker() if ruled else None

    def drain(self, rows: Sequence[int], permits: EvictionPermits, bounds: Bounds) -> DrainSimulation:
        """The simulation of a drain of these nodes, with the replacements that `bounds` allow."""
        pods_to_reschedule = {row: self._pods_by_row[row] for row in rows}
        spreads = self._removed_pods([entry for queue in pods_to_reschedule.values() for entry in queue]).spreads
        purchasable = self._purchasable_without(rows)
        placer = PodPlacer(self._solver_state, purchasable, below=bounds.below, max_drafts=bounds.max_drafts)
        return DrainSimulation(placer, pods_to_reschedule, spreads, permits)

    def has_only_plain_pods(self, row: int) -> bool:
        """Whether only taints, labels and size decide where the pods of a row may run."""
        return all(self._plain[shape.constraints] is not None for _, shape in self._pods_by_row[row])

    def _has_required_rules(self, shape: PodShape) -> bool:
        """Whether topology rules constrain a pod even without its preferences."""
        return not self._topology.rules(self._topology.preference_levels(shape.constraints)[-1]).unconstrained

    def remove(self, row: int) -> Removal:
        """Simulate the removal of one node; nothing is changed."""
        known = self._answers.single.get(row)
        if known is None:
            known = self._answers.single[row] = self._with_limits(row, self._simulate_one(row))
        return known

    def _with_limits(self, row: int, removal: Removal) -> Removal:
        """The removal, with the limits that prevent it if there are any."""
        price = removal.price
        if removal.blocker is None or price is None or not self._problem.limits.remaining:
            return removal
        if not self._purchasable_without((row,)).restricted:
            return removal
        removed_pods = self._removed_from(row)
        limits = self._blocking_limits((row,), removed_pods, Bounds(below=price, max_drafts=1))
        return msgspec.structs.replace(removal, limits=limits) if limits else removal

    def _simulate_one(self, row: int) -> Removal:
        """The removal of one node. If one of an equal node is known, it is not simulated again."""
        price = self._price(row)
        if not self._pods_by_row[row]:
            return Removal("delete", price)
        removed_pods = self._removed_from(row)
        if row not in self._shared_keys:
            self._shared_keys[row] = self._answers.shared.key(row, removed_pods)
        key = self._shared_keys[row]
        if key is None:
            return self._simulate_row(row, removed_pods, price)
        known = self._answers.shared.find(key, removed_pods, price)
        if known is None:
            known = self._simulate_row(row, removed_pods, price)
            self._answers.shared.keep(key, removed_pods, known)
        return known

    def _simulate_row(self, row: int, removed_pods: PodsToReschedule, price: float | None) -> Removal:
        purchase = PurchaseTerms(price, self._purchasable_without((row,)))
        read = self._quick_reject.rows_read(removed_pods)
        blocker = self._quick_reject.find_blocker(row, removed_pods, purchase)
        if blocker is not None:
            return Removal("stay", price, blocker=blocker, rows=tuple(read))
        trail = self._simulate((row,), self._single_node_fit(purchase), removed_pods)
        read.update(trail.rows)
        if trail.blocker is not None:
            return Removal("stay", price, blocker=trail.blocker, rows=tuple(read))
        draft = next(iter(trail.drafts), None)
        return Removal("delete" if draft is None else "replace", price, draft, rows=tuple(read))

    def _single_node_fit(self, purchase: PurchaseTerms) -> SingleNodeFit:
        max_drafts = 0 if purchase.below is None else 1
        return SingleNodeFit(
            self._solver_state, purchase.purchasable, below=purchase.below or 0.0, max_drafts=max_drafts
        )

    def _removed_from(self, row: int) -> PodsToReschedule:
        """The pods of one row to reschedule, in the order they are placed; read again when the pods change."""
        known = self._queues.get(row)
        if known is None:
            queue = sorted(self._pods_by_row[row], key=scheduling_order)
            known = self._queues[row] = self._removed_pods(queue)
        return known

    def _removed_pods(self, queue: Queue) -> PodsToReschedule:
        shapes = dict.fromkeys([shape for _, shape in queue])
        spreads = tuple(dict.fromkeys([t for shape in shapes for t in self._spreads[shape.constraints]]))
        return PodsToReschedule(queue, tuple(shapes), spreads, tuple(self._plain_runs.split(queue)))

    def _simulate(self, rows: Sequence[int], placer: PodPlacer, removed_pods: PodsToReschedule) -> SimulationResult:
        """Remove these rows, place the pods, and undo everything."""
        solver_state = self._solver_state
        mark = solver_state.journal.mark()
        for row in rows:
            solver_state.remove(row, removed_pods.spreads)
        blocker = self._find_unplaced(placer, removed_pods)
        rows = solver_state.journal.written(solver_state.free, mark)
        trail = SimulationResult(blocker, tuple(solver_state.drafts), rows)
        solver_state.undo(mark)
        return trail

    def _find_unplaced(self, placer: PodPlacer, pods: PodsToReschedule) -> Pod | None:
        """Place all pods; returns a pod that nothing accepts, or None."""
        waiting: list[Entry] = []
        single_node_fit = placer if isinstance(placer, SingleNodeFit) else None
        for step in pods.queue if single_node_fit is None else pods.steps:
            if isinstance(step, PlainRun):
                assert single_node_fit is not None, "a queue has no runs"
                unfit = single_node_fit.place_run(step)
                if unfit is not None:
                    return unfit
                continue
            unfit = single_node_fit.add_collected() if single_node_fit is not None else None
            if unfit is not None:
                return unfit
            pod, shape = step
            if placer.place(pod, shape) is None:
                if not self._has_rules[shape.constraints]:
                    return pod  # nodes only fill up, so a retry does not help
                waiting.append((pod, shape))
        unfit = single_node_fit.add_collected() if single_node_fit is not None else None
        if unfit is not None:
            return unfit
        return retry_unplaced(placer, waiting)

    def reprice(self, snapshot: Snapshot, changes: Sequence[PriceChange]) -> None:
        """Go on with a snapshot in which nothing but these prices of offerings has changed."""
        repricing = Repricing(changes, self._problem.reprice(snapshot))
        self._purchasable = Purchasable(self._problem)
        self._solver_state.forget_tables()
        self._quick_reject.read_tables()
        self._prices.clear()
        self._answers.reprice(repricing)

    def remove_node(self, row: int) -> bool:
        """Remove a node that is being deleted or gone. False as for `follow`."""
        node = replace(self._problem.existing_nodes.nodes[row], pods=())
        if self._problem.limits.remaining or any(
            taint.effect == PREFER_NO_SCHEDULE for taint in self._problem.existing_nodes.taints[row]
        ):
            return False  # remaining limits, or the levels of preferences, may change
        if not self.follow(row, node, closed=True, gone=True):
            return False
        self.rows = [each for each in self.rows if each != row]
        self._pods_by_row.pop(row, None)
        self._problem.existing_nodes.row_by_name.pop(node.name)
        return True

    def follow(self, row: int, node: ClusterNode, *, closed: bool, gone: bool = False) -> bool:
        """Apply a change of a node's pods, of labels that were not read, or of whether it is closed.

        False means that the change cannot be applied, and a new simulation is needed.
        """
        problem, solver_state = self._problem, self._solver_state
        if not problem.existing_nodes.same_labels(row, node):
            return False
        before = self._row_state(row, closed=row in solver_state.removed)
        problem.replace_node(row, node, gone=gone)
        after = self._row_state(row, closed=closed)
        left, come = before.counted - after.counted, after.counted - before.counted
        if not all(self._add_shape(*bound_pod) for bound_pod in problem.bound_pods[row]):
            return False
        if not self._topology.record_move(row, [*left.elements()], [*come.elements()]):
            return False
        self._queues.pop(row, None)
        self._shared_keys.pop(row, None)
        if row in self._pods_by_row:
            self._pods_by_row[row] = self._problem.reschedulable_pods(row)
            if any(shape.constraints not in self._has_rules for _, shape in self._pods_by_row[row]):
                return False
        solver_state.replace_pods(row, left.elements(), come.elements())
        solver_state.removed.pop(row, None)
        if closed:
            solver_state.removed[row] = row
        lost_domains = solver_state.drop_domain(row) if gone else []
        if before == after and not gone:
            self._answers.forget_row(row)
        elif gone or (before.only_fills_up(after) and not problem.limits.remaining):
            self._quick_reject.forget_row(row)
            changed = self._topology.moved({**left, **come}).union(lost_domains)
            self._answers.forget_dependent(row, self._topology.ruled_by(changed))
        else:
            self._answers.forget_all()
            self._quick_reject.clear()
        return True

    def _row_state(self, row: int, *, closed: bool) -> RowState:
        shapes = Counter(shape for _, shape in self._problem.bound_pods[row])
        counted = Counter(self._problem.counted_shapes(row))
        return RowState(shapes, counted, tuple(self._problem.free[row]), closed)

    def _add_shape(self, pod: Pod, shape: PodShape) -> bool:
        """Add a new shape; False if it needs new resource columns, labels or rules."""
        topology, constraints = self._topology, shape.constraints
        if not self._problem.has_columns_for(shape):
            return False
        if not topology.knows(constraints):
            if not self._problem.shapes.covers_selectors_of(pod) or not topology.add(constraints):
                return False
            self._read(constraints)
        return True

    def _price(self, row: int) -> float | None:
        if row not in self._prices:
            self._prices[row] = self._problem.snapshot.price_of(self._problem.existing_nodes.nodes[row])
        return self._prices[row]
