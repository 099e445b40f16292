"""The drafts of a run in the order they are tried: fewest pods first, then the oldest.

A set of drafts is one integer with bit i set for draft i. There is one such set for each number of pods and each
value of draft options, so drafts that refused a pod, or whose options cannot accept it, are skipped thousands at a
time with `&` and `~`. The lowest set bit, `bits & -bits`, is the oldest draft.

Invariant: each draft is in exactly one set, that of its current number of pods and options.

Placement: finds the first place that accepts a pod.

For each step of the pod's preferences: the first existing node that accepts, then a draft (fewest pods first, then
the oldest), then a new draft of the first NodePool that can hold the pod. `docs/concepts/scheduling.md` has the
conditions.

Two shortcuts rely on the fact that within a run nodes only fill up and drafts only narrow. `_start` remembers, for
each array of candidate rows, where the rows that are not full begin. `_refused` is a set of drafts for each step, as
an integer with one bit for each draft: those that can never accept such a pod again.
"""

from collections.abc import Callable, Iterator, Sequence

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import Attempt, hopeless
from dovetail.core.scheduling.draft_options import UNLIMITED, DraftOptions
from dovetail.core.scheduling.host_ports import conflict
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.purchasable import Purchasable
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.pod import Pod


class DraftQueue:
    """Sets of draft positions, by number of pods and by options; bit i of a set is draft i."""

    def __init__(self) -> None:
        self._by_count: dict[int, dict[DraftOptions, int]] = {}

    def put(self, position: int, count: int, options: DraftOptions) -> None:
        """A draft that has `count` pods now."""
        alike = self._by_count.setdefault(count, {})
        alike[options] = alike.get(options, 0) | 1 << position

    def take(self, position: int, count: int, options: DraftOptions) -> None:
        """A draft is taken from where it was put."""
        alike = self._by_count[count]
        alike[options] ^= 1 << position
        if not alike[options]:
            del alike[options]
            if not alike:
                del self._by_count[count]

    def each(self, refused: int, hopeless: Callable[[DraftOptions], bool]) -> Iterator[int]:
        """The positions to try: all but the refused, and those whose options are hopeless."""
        known: dict[DraftOptions, bool] = {}
        for count in sorted(self._by_count):
            waiting = 0
            for options, positions in self._by_count[count].items():
                left = positions & ~refused
                if left and options not in known:
                    known[options] = hopeless(options)
                if left and not known[options]:
                    waiting |= left
            while waiting:
                lowest = waiting & -waiting  # the lowest set bit: the oldest draft
                waiting ^= lowest
                yield lowest.bit_length() - 1


class PodPlacer:
    """One run on a solver state. `most_drafts` and `below` bound the number and the price of new nodes."""

    def __init__(
        self,
        solver_state: SolverState,
        purchasable: Purchasable,
        *,
        below: float = UNLIMITED,
        most_drafts: int | None = None,
    ) -> None:
        self.solver_state = solver_state
        self.draft_fit = solver_state.draft_fit
        self._below = below
        self._most_drafts = most_drafts
        self._purchasable = purchasable
        self._start: dict[int, int] = {}  # where the scan of a list of candidates may begin
        self._shelf = DraftQueue()
        self._refused: dict[PreferenceLevel, int] = {}  # drafts that can never be joined any more, one bit each
        self._gathered: list[tuple[Pod, PodShape]] = []

    def place(self, pod: Pod, shape: PodShape) -> int | Draft | None:
        """Place a pod: the row of its existing node, or its draft, or None."""
        if shape.volumes.problem:
            return None
        preference_levels = self.solver_state.topology.preference_levels(shape)
        for level in preference_levels:
            attempt = Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level)))
            row = self._find_room(attempt)
            if row is not None:
                self.solver_state.place(shape, row)
                return row
            draft = self._find_draft(pod, attempt)
            if draft is not None:
                return draft
            if level is not preference_levels[-1] and self._dearer(attempt):
                return None  # a preference that could be kept is not given up because that costs more
        return None

    def settle_in_room(self, shape: PodShape) -> int | None:
        """Place a pod on the first existing node that meets its requirements; its row, or None."""
        if shape.volumes.problem:
            return None
        level = self.solver_state.topology.preference_levels(shape)[-1]
        row = self._find_room(Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level))))
        if row is not None:
            self.solver_state.place(shape, row)
        return row

    # -- existing nodes

    def _find_room(self, attempt: Attempt) -> int | None:
        shape, allowance = attempt.shape, attempt.allowance
        solver_state = self.solver_state
        candidates = solver_state.base.candidates(shape, attempt.level)
        known, free, removed = id(candidates), solver_state.free, solver_state.removed
        simple, ruled = not (shape.ports or shape.volumes.attachments), not allowance.rules.free
        full = True
        for position in range(self._start.get(known, 0), len(candidates)):
            row = candidates[position]
            left = free.get(row)  # absent: unchanged, and the pod fits
            if row in removed or (left is not None and not _holds(left, shape)):
                if full:  # nodes only fill up: later pods with this need start here
                    self._start[known] = position + 1
                continue
            full = False
            if (simple or self.suits(shape, row)) and not (ruled and allowance.node_row(row)):
                return row
        return None

    def suits(self, shape: PodShape, row: int) -> bool:
        """Whether a node has the pod's ports free and can attach its volumes."""
        if shape.ports and conflict(shape.ports, self.solver_state.ports.get(row, ())) is not None:
            return False
        return not shape.volumes.attachments or self.attachable(shape, row)

    def attachable(self, shape: PodShape, row: int) -> bool:
        """Whether the pod's volumes stay within the attach limits of a node."""
        base = self.solver_state.base
        limits = base.snapshot.storage.attach_limits.get(base.existing_nodes.nodes[row].name)
        if not limits:
            return True
        present = self.solver_state.attached.get(row, frozenset())
        brought = {*shape.volumes.attachments} - present
        drivers = {driver for driver, _ in brought if driver in limits}
        return all(sum(each == driver for each, _ in present | brought) <= limits[driver] for driver in drivers)

    # -- drafts

    def _find_draft(self, pod: Pod, attempt: Attempt) -> Draft | None:
        level, rules = attempt.level, attempt.allowance.rules
        refused = self._refused.get(level, 0)
        far = [topology_counts.counts for topology_counts in rules.far if topology_counts.by_host]
        spread = [(topology_counts, itself) for topology_counts, itself in rules.spread if topology_counts.by_host]
        for position in self._shelf.each(refused, lambda options: hopeless(options, attempt)):
            draft = self.solver_state.drafts[position]
            number = draft.number
            if any(number in counts for counts in far) or any(
                topology_counts.full(number, itself) for topology_counts, itself in spread
            ):
                refused |= 1 << position  # no pod leaves a draft, so this is final
                continue
            step = self.draft_fit.step(draft, attempt)
            if isinstance(step, DraftStep):
                self._refused[level] = refused
                self._take(position, [(pod, attempt.shape)], step)
                return draft
            if rules.free:
                refused |= 1 << position  # a draft only narrows, so this is final
        self._refused[level] = refused
        return self._open(pod, attempt)

    def _take(self, position: int, pods: list[tuple[Pod, PodShape]], step: DraftStep) -> None:
        draft = self.solver_state.drafts[position]
        self._shelf.take(position, len(draft.pods), draft.options)
        self.solver_state.take(draft, pods, step)
        self._shelf.put(position, len(draft.pods), draft.options)

    def _open(self, pod: Pod, attempt: Attempt) -> Draft | None:
        if self._most_drafts is not None and len(self.solver_state.drafts) >= self._most_drafts:
            return None
        for type_table in self.solver_state.base.type_tables:
            draft = self.blank(type_table)
            if isinstance(draft, str):
                continue
            step = self.draft_fit.step(draft, attempt)
            if isinstance(step, DraftStep):
                position = len(self.solver_state.drafts)
                self.solver_state.open(draft)
                self._shelf.put(position, 0, draft.options)
                self._take(position, [(pod, attempt.shape)], step)
                if self._most_drafts is None:  # a run that may open one draft has nothing left to bound
                    self._purchasable.buy(draft)
                return draft
        return None

    def _dearer(self, attempt: Attempt) -> bool:
        """Whether a new node of any price would take the pod, though this run may not launch it."""
        if self._below == UNLIMITED and self._most_drafts is None:
            return False
        drafts = (self.blank(type_table, UNLIMITED) for type_table in self.solver_state.base.type_tables)
        return any(
            isinstance(self.draft_fit.step(draft, attempt), DraftStep) for draft in drafts if not isinstance(draft, str)
        )

    def limits_against(self, type_table: InstanceTypeTable, attempt: Attempt) -> str:
        """The limits without which a new node of a NodePool would take a pod; empty if it would not anyway."""
        root = self.solver_state.base.root(type_table)
        if self._purchasable.root(type_table) is root:
            return ""
        draft = Draft(
            len(self.solver_state.base.existing_nodes) + len(self.solver_state.drafts),
            root,
            self._nothing(),
            self._below,
        )
        step = self.draft_fit.step(draft, attempt)
        if not isinstance(step, DraftStep):
            return ""
        draft.become([], step)
        return self._purchasable.blocking([draft])

    def _nothing(self) -> list[int]:
        return [0] * len(self.solver_state.base.units.names)

    def blank(self, type_table: InstanceTypeTable, below: float | None = None) -> Draft | str:
        """A new draft of a NodePool without pods, or why its limits allow none."""
        root = self._purchasable.root(type_table)
        if isinstance(root, str):
            return root
        number = len(self.solver_state.base.existing_nodes) + len(self.solver_state.drafts)
        return Draft(number, root, self._nothing(), self._below if below is None else below)


def _holds(left: Sequence[int], shape: PodShape) -> bool:
    for column, amount in shape.need:  # noqa: SIM110 - half as slow as all(), and asked very often
        if left[column] < amount:
            return False
    return True
