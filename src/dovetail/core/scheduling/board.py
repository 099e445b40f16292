"""The state of a run: what it has placed and opened so far, laid over the base and undone exactly.

Placing a pod changes what is free and what the tallies count. Nothing here decides; it only keeps the books.
"""

from collections.abc import Container, Iterable, Sequence

from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.draft import Draft, Step
from dovetail.core.scheduling.joining import Joining
from dovetail.core.scheduling.options import Options
from dovetail.core.scheduling.ports import HostPort
from dovetail.core.scheduling.rooms import hard
from dovetail.core.scheduling.rulebook import Rulebook
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.tally import Domain, FarTally, Journal, SpreadTally, Tally
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import Pod
from dovetail.model.taints import untolerated


class Board:
    """Rooms and drafts as they are now."""

    def __init__(self, base: Base, rulebook: Rulebook) -> None:
        self.base = base
        self.rulebook = rulebook
        self.journal = Journal()
        self.joining = Joining()
        self.drafts: list[Draft] = []
        self.removed: dict[int, int] = {row: row for row in base.rooms.going}
        self.free: dict[int, list[int]] = {}
        self.ports: dict[int, frozenset[HostPort]] = dict(base.ports)
        self.attached: dict[int, frozenset[tuple[str, str]]] = dict(base.attached)
        self._eligible: dict[tuple[SpreadTally, Options], bool] = {}
        self._counting: dict[int, list[Shape]] = {}  # by row: the shapes on it that some rule counts

    def left(self, row: int) -> list[int]:
        """What a room has free now."""
        return self.free.get(row) or self.base.free[row]

    def undo(self, mark: int) -> None:
        """Back to a mark of the journal; drafts opened since are forgotten."""
        self.journal.undo(mark)
        self.drafts.clear()

    def fill(self, shape: Shape, row: int) -> None:
        """A pod takes its share of a room; if it is plain, that is all that changes."""
        left = list(self.free.get(row) or self.base.free[row])
        for column, amount in shape.need:
            left[column] -= amount
        self.journal.put(self.free, row, left)

    def place(self, shape: Shape, row: int) -> None:
        """A pod goes to a room."""
        self.fill(shape, row)
        if shape.ports:
            self.journal.put(self.ports, row, self.ports.get(row, frozenset()) | {*shape.ports})
        if shape.volumes.attachments:
            self.journal.put(self.attached, row, self.attached.get(row, frozenset()) | {*shape.volumes.attachments})
        self._count(shape, row, 1)

    def remove(self, row: int, spreads: Iterable[SpreadTally]) -> None:
        """A room goes with everything on it; `spreads` are the rules that will be asked while it is gone."""
        self.journal.put(self.removed, row, row)
        counting = self._counting.get(row)
        if counting is None:
            counted_by = self.rulebook.counted_by
            counting = self._counting[row] = [shape for shape in self.base.placed(row) if counted_by[shape]]
        for shape in counting:
            self._count(shape, row, -1)
        for tally in spreads:
            tally.drop_row(row, self.journal)

    def close(self, row: int) -> None:
        """A room takes nobody any more; who is there stays."""
        self.journal.put(self.removed, row, row)

    def leave(self, shape: Shape, row: int, tallies: Container[Tally]) -> None:
        """A pod leaves a room that is closed, or does not count there any more, as far as these rules go."""
        for tally in self.rulebook.counted_by[shape]:
            domain = tally.domain(row) if tally in tallies else None
            if domain is not None and tally.counts_on(row):
                self.journal.bump(tally.counts, domain, -1)

    def refill(self, row: int, gone: Iterable[Shape], come: Iterable[Shape]) -> None:
        """The base state of a room has changed: other pods are on it, for good."""
        self._counting.pop(row, None)
        for shape in gone:
            self._count(shape, row, -1)
        for shape in come:
            self._count(shape, row, 1)
        self.ports[row] = self.base.ports_on(row)
        self.attached[row] = self.base.attached_on(row)
        self.journal.settle()

    def drop(self, row: int) -> set[Tally]:
        """A room is gone for good; the rules for which it was a domain, or in one."""
        dropped = {tally for tally in self.rulebook.spreads if tally.known_by(row)}
        for tally in dropped:
            tally.drop_row(row, self.journal)
        self.journal.settle()
        return {*dropped}

    def _count(self, shape: Shape, row: int, by: int) -> None:
        for tally in self.rulebook.counted_by[shape]:
            domain = tally.domain(row)
            if domain is not None and tally.counts_on(row):
                self.journal.bump(tally.counts, domain, by)

    # -- drafts

    def open(self, draft: Draft) -> None:
        """A new draft joins the board, still without pods."""
        self.drafts.append(draft)

    def take(self, draft: Draft, pods: Sequence[tuple[Pod, Shape]], step: Step) -> None:
        """A draft takes pods and becomes what was found; its pods count where it still can be."""
        before = {tally: self._domains(tally, draft) for tally in draft.counted}
        draft.become(pods, step)
        for tally, domains in before.items():
            self._recount(tally, domains, self._domains(tally, draft), draft.counted[tally])
        for _, shape in pods:
            for tally in self.rulebook.counted_by[shape]:
                draft.counted[tally] = draft.counted.get(tally, 0) + 1
                for domain in self._domains(tally, draft):
                    self.journal.bump(tally.counts, domain, 1)

    def _recount(self, tally: Tally, before: tuple[Domain, ...], after: tuple[Domain, ...], pods: int) -> None:
        if before == after:
            return
        for domain in before:
            if domain not in after:
                self.journal.bump(tally.counts, domain, -pods)
        for domain in after:
            if domain not in before:
                self.journal.bump(tally.counts, domain, pods)

    def _domains(self, tally: Tally, draft: Draft) -> tuple[Domain, ...]:
        """Where a pod on a draft counts for a rule."""
        if isinstance(tally, SpreadTally) and not self._is_eligible(tally, draft):
            return ()
        if tally.by_host:
            return (draft.number,)
        possible = draft.possible(tally.key)
        return possible if isinstance(tally, FarTally) or len(possible) == 1 else ()

    def _is_eligible(self, tally: SpreadTally, draft: Draft) -> bool:
        asked = (tally, draft.options)
        if asked not in self._eligible:
            self._eligible[asked] = self._may_be_eligible(tally, draft.options)
        if not tally.choosy or not self._eligible[asked]:
            return self._eligible[asked]
        return any(draft.could_be(alternative) for alternative in tally.rule.alternatives or ())

    def _may_be_eligible(self, tally: SpreadTally, options: Options) -> bool:
        rule, template = tally.rule, options.market.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return False
        return all(key == HOSTNAME or options.domains(key) for key in rule.held_keys)
