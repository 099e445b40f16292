"""The solver state: what a run has changed so far, on top of the problem.

Free resources, host ports and attached volumes are dictionaries by row that hold only rows that changed; where a row
is absent the problem's value counts. Topology counts are shared by all pods with an equal rule. `removed` has the
rows that take no pods. Every change goes through the journal, so `undo(mark)` restores the state exactly, at the cost
of the changes and not of the cluster.

Drafts are not journaled: each run starts without drafts, and undo forgets them all. This module records decisions and
makes none.
"""

from collections.abc import Container, Iterable, Sequence

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import DraftFit
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_counts import AntiAffinityCounts, Domain, Journal, SpreadCounts, TopologyCounts
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import Pod
from dovetail.model.taints import untolerated


class SolverState:
    """Existing nodes and drafts as the run has changed them."""

    def __init__(self, base: Problem, topology: Topology) -> None:
        self.base = base
        self.topology = topology
        self.journal = Journal()
        self.draft_fit = DraftFit()
        self.drafts: list[Draft] = []
        self.removed: dict[int, int] = {row: row for row in base.existing_nodes.going}
        self.free: dict[int, list[int]] = {}
        self.ports: dict[int, frozenset[HostPort]] = dict(base.ports)
        self.attached: dict[int, frozenset[tuple[str, str]]] = dict(base.attached)
        self._eligible: dict[tuple[SpreadCounts, DraftOptions], bool] = {}
        self._counting: dict[int, list[PodShape]] = {}  # by row: the shapes on it that some rule counts

    def left(self, row: int) -> list[int]:
        """What a row has free now."""
        return self.free.get(row) or self.base.free[row]

    def undo(self, mark: int) -> None:
        """Back to a mark of the journal; drafts opened since are forgotten."""
        self.journal.undo(mark)
        self.drafts.clear()

    def fill(self, shape: PodShape, row: int) -> None:
        """Subtract a pod's need from a row; for a pod without ports, volumes and rules that is all that changes."""
        left = list(self.free.get(row) or self.base.free[row])
        for column, amount in shape.need:
            left[column] -= amount
        self.journal.put(self.free, row, left)

    def place(self, shape: PodShape, row: int) -> None:
        """Place a pod on a row: resources, ports, volumes, topology counts."""
        self.fill(shape, row)
        if shape.ports:
            self.journal.put(self.ports, row, self.ports.get(row, frozenset()) | {*shape.ports})
        if shape.volumes.attachments:
            self.journal.put(self.attached, row, self.attached.get(row, frozenset()) | {*shape.volumes.attachments})
        self._count(shape, row, 1)

    def remove(self, row: int, spreads: Iterable[SpreadCounts]) -> None:
        """Remove a row with its pods; `spreads` are the rules that will be evaluated while it is removed."""
        self.journal.put(self.removed, row, row)
        counting = self._counting.get(row)
        if counting is None:
            counted_by = self.topology.counted_by
            counting = self._counting[row] = [shape for shape in self.base.placed(row) if counted_by[shape]]
        for shape in counting:
            self._count(shape, row, -1)
        for topology_counts in spreads:
            topology_counts.drop_row(row, self.journal)

    def close(self, row: int) -> None:
        """A row takes no more pods; the pods on it still count."""
        self.journal.put(self.removed, row, row)

    def leave(self, shape: PodShape, row: int, all_counts: Container[TopologyCounts]) -> None:
        """A pod on a closed row no longer counts for these rules."""
        for topology_counts in self.topology.counted_by[shape]:
            domain = topology_counts.domain(row) if topology_counts in all_counts else None
            if domain is not None and topology_counts.counts_on(row):
                self.journal.bump(topology_counts.counts, domain, -1)

    def refill(self, row: int, gone: Iterable[PodShape], come: Iterable[PodShape]) -> None:
        """The problem has other pods on a row now. Not journaled: this becomes the state that undo returns to."""
        self._counting.pop(row, None)
        for shape in gone:
            self._count(shape, row, -1)
        for shape in come:
            self._count(shape, row, 1)
        self.ports[row] = self.base.ports_on(row)
        self.attached[row] = self.base.attached_on(row)
        self.journal.settle()

    def drop(self, row: int) -> None:
        """A room is gone for good, and with it the domains that nothing else is in."""
        for topology_counts in self.topology.spreads:
            topology_counts.drop_row(row, self.journal)
        self.journal.settle()

    def _count(self, shape: PodShape, row: int, by: int) -> None:
        for topology_counts in self.topology.counted_by[shape]:
            domain = topology_counts.domain(row)
            if domain is not None and topology_counts.counts_on(row):
                self.journal.bump(topology_counts.counts, domain, by)

    # -- drafts

    def open(self, draft: Draft) -> None:
        """Add a new draft, still without pods."""
        self.drafts.append(draft)

    def take(self, draft: Draft, pods: Sequence[tuple[Pod, PodShape]], step: DraftStep) -> None:
        """A draft takes pods and becomes what was found; its pods count where it still can be."""
        before = {topology_counts: self._domains(topology_counts, draft) for topology_counts in draft.counted}
        draft.become(pods, step)
        for topology_counts, domains in before.items():
            self._recount(
                topology_counts, domains, self._domains(topology_counts, draft), draft.counted[topology_counts]
            )
        for _, shape in pods:
            for topology_counts in self.topology.counted_by[shape]:
                draft.counted[topology_counts] = draft.counted.get(topology_counts, 0) + 1
                for domain in self._domains(topology_counts, draft):
                    self.journal.bump(topology_counts.counts, domain, 1)

    def _recount(
        self, topology_counts: TopologyCounts, before: tuple[Domain, ...], after: tuple[Domain, ...], pods: int
    ) -> None:
        if before == after:
            return
        for domain in before:
            if domain not in after:
                self.journal.bump(topology_counts.counts, domain, -pods)
        for domain in after:
            if domain not in before:
                self.journal.bump(topology_counts.counts, domain, pods)

    def _domains(self, topology_counts: TopologyCounts, draft: Draft) -> tuple[Domain, ...]:
        """Where a pod on a draft counts for a rule."""
        if isinstance(topology_counts, SpreadCounts) and not self._is_eligible(topology_counts, draft):
            return ()
        if topology_counts.by_host:
            return (draft.number,)
        possible = draft.possible(topology_counts.key)
        return possible if isinstance(topology_counts, AntiAffinityCounts) or len(possible) == 1 else ()

    def _is_eligible(self, topology_counts: SpreadCounts, draft: Draft) -> bool:
        asked = (topology_counts, draft.options)
        if asked not in self._eligible:
            self._eligible[asked] = self._may_be_eligible(topology_counts, draft.options)
        if not topology_counts.choosy or not self._eligible[asked]:
            return self._eligible[asked]
        return any(draft.could_be(alternative) for alternative in topology_counts.rule.alternatives or ())

    def _may_be_eligible(self, topology_counts: SpreadCounts, options: DraftOptions) -> bool:
        rule, template = topology_counts.rule, options.type_table.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return False
        return all(key == HOSTNAME or options.domains(key) for key in rule.held_keys)
