"""Placement: finds the first node or draft that accepts a pod.

For each preference level of the pod: the first existing node that accepts it, then a draft (fewest pods first, then the
oldest), then a new draft of the first NodePool that can hold it. `docs/concepts/scheduling.md` has the conditions.

`DraftQueue` orders the drafts. A set of drafts is one integer with bit i set for draft i. There is one set for each
number of pods and each value of draft options, so drafts that refused a pod, or whose options cannot accept it, are
skipped thousands at a time with `&` and `~`. The lowest set bit, `bits & -bits`, is the oldest draft. Invariant: each
draft is in exactly one set, that of its current number of pods and options.

Two shortcuts rely on the fact that within a run nodes only fill up and drafts only narrow. `_start` has, for each array
of candidate rows, the position of the first row that is not full. `_refused` has, for each preference level and need,
the set of drafts that can never accept a pod of that level and need again.
"""

from collections.abc import Callable, Iterator, Sequence

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import Attempt, fit, never_accepts
from dovetail.core.scheduling.draft_options import UNLIMITED, DraftOptions
from dovetail.core.scheduling.host_ports import conflict
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.purchasable import Purchasable
from dovetail.core.scheduling.resource_vector import Need, fits
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology_counts import HostSpreadCounts
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.pod import Pod


class DraftQueue:
    """Sets of drafts by number of pods and by options; bit i of a set is draft i."""

    def __init__(self) -> None:
        self._by_count: dict[int, dict[DraftOptions, int]] = {}

    def put(self, position: int, count: int, options: DraftOptions) -> None:
        """Add a draft that has `count` pods."""
        alike = self._by_count.setdefault(count, {})
        alike[options] = alike.get(options, 0) | 1 << position

    def take(self, position: int, count: int, options: DraftOptions) -> None:
        """Remove a draft; `count` and `options` are those it was added with."""
        alike = self._by_count[count]
        alike[options] ^= 1 << position
        if not alike[options]:
            del alike[options]
            if not alike:
                del self._by_count[count]

    def each(self, refused: int, never_accepts: Callable[[DraftOptions], bool]) -> Iterator[int]:
        """The positions to try in order, without the refused, and without options for which `never_accepts` is true."""
        known: dict[DraftOptions, bool] = {}
        for count in sorted(self._by_count):
            waiting = 0
            for options, positions in self._by_count[count].items():
                left = positions & ~refused
                if left and options not in known:
                    known[options] = never_accepts(options)
                if left and not known[options]:
                    waiting |= left
            while waiting:
                lowest = waiting & -waiting  # the lowest set bit: the oldest draft
                waiting ^= lowest
                yield lowest.bit_length() - 1


class PodPlacer:
    """Places the pods of one run. `max_drafts` and `below` bound the number and the price of new nodes."""

    def __init__(
        self,
        solver_state: SolverState,
        purchasable: Purchasable,
        *,
        below: float = UNLIMITED,
        max_drafts: int | None = None,
    ) -> None:
        self.solver_state = solver_state
        self.draft_fit = solver_state.draft_fit
        self._below = below
        self._most_drafts = max_drafts
        self._purchasable = purchasable
        self._start: dict[int, int] = {}  # by id of a candidate array: the first position to try
        self._draft_queue = DraftQueue()
        self._refused: dict[tuple[PreferenceLevel, Need], int] = {}  # the drafts that never accept it, one bit each
        self._collected: list[tuple[Pod, PodShape]] = []

    def place(self, pod: Pod, shape: PodShape) -> int | Draft | None:
        """Place a pod; returns the row of its existing node, its draft, or None if nothing accepts it."""
        if shape.volumes.problem:
            return None
        preference_levels = self.solver_state.topology.preference_levels(shape.constraints)
        for level in preference_levels:
            attempt = Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level)))
            row = self._find_existing_node(attempt)
            if row is not None:
                self.solver_state.place(shape, row)
                return row
            draft = self._find_draft(pod, attempt)
            if draft is not None:
                return draft
            if level is not preference_levels[-1] and self._fits_at_any_price(attempt):
                return None  # a preference is not given up to save money
        return None

    def place_on_existing_node(self, shape: PodShape) -> int | None:
        """Place a pod on the first existing node that meets its requirements, without preferences; its row, or None."""
        if shape.volumes.problem:
            return None
        level = self.solver_state.topology.preference_levels(shape.constraints)[-1]
        row = self._find_existing_node(Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level))))
        if row is not None:
            self.solver_state.place(shape, row)
        return row

    # -- existing nodes

    def _find_existing_node(self, attempt: Attempt) -> int | None:
        shape, allowance = attempt.shape, attempt.allowance
        candidates = self.solver_state.problem.candidates(shape, attempt.level)
        simple, ruled = not (shape.ports or shape.volumes.attachments), not allowance.rules.unconstrained
        for row in self.rows_with_room(candidates, shape):
            if (simple or self.accepts_ports_and_volumes(shape, row)) and not (ruled and allowance.reason_on_row(row)):
                return row
        return None

    def rows_with_room(self, candidates: Sequence[int], shape: PodShape) -> Iterator[int]:
        """The candidate rows that have room for a pod now, in order.

        Nodes only fill up: rows at the front that no longer hold the least need of the size class are skipped for the
        rest of the run.
        """
        free, before = self.solver_state.free, self.solver_state.problem.free
        removed, known = self.solver_state.removed, id(candidates)
        need, least = shape.need, shape.least
        full = True
        for position in range(self._start.get(known, 0), len(candidates)):
            row = candidates[position]
            left = free.get(row)  # None: the row is unchanged, and holds at least the least need
            if row in removed or (left is not None and not fits(left, least)):
                if full:
                    self._start[known] = position + 1
                continue
            full = False
            if fits(before[row] if left is None else left, need):
                yield row

    def accepts_ports_and_volumes(self, shape: PodShape, row: int) -> bool:
        """Whether the pod's host ports are free on a row and its volumes can be attached."""
        if shape.ports and conflict(shape.ports, self.solver_state.ports.get(row, ())) is not None:
            return False
        return not shape.volumes.attachments or self.attachable(shape, row)

    def attachable(self, shape: PodShape, row: int) -> bool:
        """Whether the pod's volumes stay within the attach limits of a node."""
        problem = self.solver_state.problem
        limits = problem.snapshot.storage.attach_limits.get(problem.existing_nodes.nodes[row].name)
        if not limits:
            return True
        present = self.solver_state.attached.get(row, frozenset())
        brought = {*shape.volumes.attachments} - present
        drivers = {driver for driver, _ in brought if driver in limits}
        return all(sum(each == driver for each, _ in present | brought) <= limits[driver] for driver in drivers)

    # -- drafts

    def _find_draft(self, pod: Pod, attempt: Attempt) -> Draft | None:
        rules, kind = attempt.allowance.rules, (attempt.level, attempt.shape.need)
        refused = self._refused.get(kind, 0)
        anti_affinity = [topology_counts.counts for topology_counts in rules.anti_affinity if topology_counts.by_host]
        spread = [
            (topology_counts, self_match)
            for topology_counts, self_match in rules.spread
            if isinstance(topology_counts, HostSpreadCounts)
        ]
        for position in self._draft_queue.each(refused, lambda options: never_accepts(options, attempt)):
            draft = self.solver_state.drafts[position]
            number = draft.number
            if any(number in counts for counts in anti_affinity) or any(
                topology_counts.exceeds_skew(number, self_match) for topology_counts, self_match in spread
            ):
                refused |= 1 << position  # no pod leaves a draft, so this is final
                continue
            step = self.draft_fit.step(draft, attempt)
            if isinstance(step, DraftStep):
                self._refused[kind] = refused
                self._take(position, [(pod, attempt.shape)], step)
                return draft
            if rules.unconstrained:
                refused |= 1 << position  # a draft only narrows, so this is final
        self._refused[kind] = refused
        return self._open(pod, attempt)

    def _take(self, position: int, pods: Sequence[tuple[Pod, PodShape]], step: DraftStep) -> None:
        draft = self.solver_state.drafts[position]
        self._draft_queue.take(position, len(draft.pods), draft.options)
        self.solver_state.add_to_draft(draft, pods, step)
        self._draft_queue.put(position, len(draft.pods), draft.options)

    def _open(self, pod: Pod, attempt: Attempt) -> Draft | None:
        if self._most_drafts is not None and len(self.solver_state.drafts) >= self._most_drafts:
            return None
        for type_table in self.solver_state.problem.type_tables:
            draft = self.new_draft(type_table)
            if isinstance(draft, str):
                continue
            step = self.draft_fit.step(draft, attempt)
            if isinstance(step, DraftStep):
                self._append(draft, [(pod, attempt.shape)], step)
                if self._most_drafts is None:  # a bounded run shares `_purchasable` with others
                    self._purchasable.spend(draft)
                return draft
        return None

    def _fits_at_any_price(self, attempt: Attempt) -> bool:
        """Whether a new node would accept the pod if this run could launch nodes of any price."""
        if self._below == UNLIMITED and self._most_drafts is None:
            return False
        drafts = (self.new_draft(type_table, UNLIMITED) for type_table in self.solver_state.problem.type_tables)
        return any(
            isinstance(self.draft_fit.step(draft, attempt), DraftStep) for draft in drafts if not isinstance(draft, str)
        )

    def limits_that_exclude(self, type_table: InstanceTypeTable, attempt: Attempt) -> str:
        """The limits without which a new node of a NodePool would accept a pod; empty if limits are not the reason."""
        root = self.solver_state.problem.root(type_table)
        if self._purchasable.root(type_table) is root:
            return ""
        draft = Draft(
            len(self.solver_state.problem.existing_nodes) + len(self.solver_state.drafts),
            root,
            self._empty_total(),
            self._below,
        )
        step = self.draft_fit.step(draft, attempt)
        if not isinstance(step, DraftStep):
            return ""
        draft.apply([], step)
        return self._purchasable.describe_blocking_limits([draft])

    def open_proposed(self, type_table: InstanceTypeTable, pods: Sequence[tuple[Pod, PodShape]]) -> bool:
        """Open a draft with all these pods; False, without a change, if no instance type holds them.

        A pod with preferences or topology rules is never proposed: no draft is opened.
        """
        rules, levels_of = self.solver_state.topology.rules, self.solver_state.topology.preference_levels
        levels = [levels_of(constraints) for constraints in {shape.constraints for _, shape in pods}]
        if any(len(each) > 1 or not rules(each[0]).unconstrained for each in levels):
            return False
        draft = self.new_draft(type_table)
        step = None if isinstance(draft, str) else self.step_together(draft, pods)
        if isinstance(draft, str) or step is None:
            return False
        self._append(draft, pods, step)
        self._purchasable.spend(draft)
        return True

    def step_together(self, draft: Draft, pods: Sequence[tuple[Pod, PodShape]]) -> DraftStep | None:
        """The draft with all these plain pods, or None if no instance type holds them."""
        total, options = list(draft.total), draft.options
        seen: PodShape | None = None
        for _, shape in pods:
            for column, amount in shape.need:
                total[column] += amount
            if shape is seen:
                continue
            seen = shape
            (level,) = self.solver_state.topology.preference_levels(shape.constraints)
            if self.draft_fit.untolerated(level, options.type_table):
                return None
            narrowed = options.narrow(level.alternatives[0])
            if isinstance(narrowed, str):
                return None
            options = narrowed
        step = fit(draft, options, total, draft.ports)
        return step if isinstance(step, DraftStep) else None

    def _append(self, draft: Draft, pods: Sequence[tuple[Pod, PodShape]], step: DraftStep) -> None:
        """Add a new draft with its first pods."""
        position = len(self.solver_state.drafts)
        self.solver_state.drafts.append(draft)
        self._draft_queue.put(position, 0, draft.options)
        self._take(position, pods, step)

    def _empty_total(self) -> list[int]:
        return [0] * len(self.solver_state.problem.units.names)

    def new_draft(self, type_table: InstanceTypeTable, below: float | None = None) -> Draft | str:
        """An empty draft of a NodePool, or why its limits allow none."""
        root = self._purchasable.root(type_table)
        if isinstance(root, str):
            return root
        number = len(self.solver_state.problem.existing_nodes) + len(self.solver_state.drafts)
        return Draft(number, root, self._empty_total(), self._below if below is None else below)
