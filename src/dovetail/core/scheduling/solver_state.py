"""The solver state: the changes of a run, on top of the problem.

Free resources, host ports and attached volumes are dictionaries by row that hold only rows that changed; where a row
is absent the problem's value counts. Topology counts are shared by all pods with an equal rule. `removed` has the
rows that take no pods. Every change goes through the journal, so `undo(mark)` restores the state exactly, at the cost
of the changes and not of the cluster.

Drafts are not journaled: each run starts without drafts, and undo removes them all. This module records decisions and
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
from dovetail.core.scheduling.resource_vector import Need
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.topology_counts import AntiAffinityCounts, Domain, Journal, SpreadCounts, TopologyCounts
from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import Pod
from dovetail.model.taints import untolerated


class SolverState:
    """Existing nodes and drafts as changed by the run."""

    def __init__(self, problem: Problem, topology: Topology) -> None:
        self.problem = problem
        self.topology = topology
        self.journal = Journal()
        self.draft_fit = DraftFit()
        self.drafts: list[Draft] = []
        self.removed: dict[int, int] = {row: row for row in problem.existing_nodes.deleting_rows}
        self.free: dict[int, list[int]] = {}
        self.ports: dict[int, frozenset[HostPort]] = dict(problem.ports)
        self.attached: dict[int, frozenset[tuple[str, str]]] = dict(problem.attached)
        topology.host_pods.draft_is_eligible = lambda counts, number: self._is_eligible(
            counts, self.drafts[number - len(problem.existing_nodes)]
        )
        self._eligible: dict[tuple[SpreadCounts, DraftOptions], bool] = {}
        self._counted_shapes: dict[int, list[PodShape]] = {}  # by row: its shapes that some rule counts

    def free_on(self, row: int) -> list[int]:
        """The free resources of a row."""
        return self.free.get(row) or self.problem.free[row]

    def undo(self, mark: int) -> None:
        """Restore the state at a mark of the journal, without drafts."""
        self.journal.undo(mark)
        self.drafts.clear()

    def fill(self, shape: PodShape, row: int) -> None:
        """Subtract a pod's need from a row. Enough for a pod without ports and volumes that no rule counts."""
        left = list(self.free.get(row) or self.problem.free[row])
        for column, amount in shape.need:
            left[column] -= amount
        self.journal.put(self.free, row, left)

    def fill_up(self, need: Need, row: int, most: int) -> int:
        """As `fill` for up to `most` pods of one need, as many as fit; how many did."""
        left = list(self.free.get(row) or self.problem.free[row])
        for column, amount in need:
            fitting = left[column] // amount
            most = min(most, fitting)
        for column, amount in need:
            left[column] -= amount * most
        self.journal.put(self.free, row, left)
        return most

    def place(self, shape: PodShape, row: int) -> None:
        """Place a pod on a row: resources, ports, volumes, topology counts."""
        self.fill(shape, row)
        if shape.ports:
            self.journal.put(self.ports, row, self.ports.get(row, frozenset()) | {*shape.ports})
        if shape.volumes.attachments:
            self.journal.put(self.attached, row, self.attached.get(row, frozenset()) | {*shape.volumes.attachments})
        self._count(shape, row, 1)
        hosts = self.topology.host_pods
        if hosts.in_use:
            self.journal.put(hosts.pods, row, (*hosts.pods.get(row, ()), shape.constraints))

    def remove(self, row: int, spreads: Iterable[SpreadCounts]) -> None:
        """Remove a row and its pods; `spreads` are the spread rules that will be evaluated while it is removed."""
        self.journal.put(self.removed, row, row)
        counting = self._counted_shapes.get(row)
        if counting is None:
            counted_by = self.topology.counted_by
            counting = self._counted_shapes[row] = [
                shape for shape in self.problem.counted_shapes(row) if counted_by[shape.constraints]
            ]
        for shape in counting:
            self._count(shape, row, -1)
        for topology_counts in spreads:
            topology_counts.drop_row(row, self.journal)

    def close(self, row: int) -> None:
        """Stop placing pods on a row; its pods still count for topology."""
        self.journal.put(self.removed, row, row)

    def uncount(self, shape: PodShape, row: int, all_counts: Container[TopologyCounts]) -> None:
        """Stop counting a pod on a closed row for these rules."""
        for topology_counts in self.topology.counted_by[shape.constraints]:
            domain = topology_counts.domain(row) if topology_counts in all_counts else None
            if domain is not None and topology_counts.counts_on(row):
                self.journal.bump(topology_counts.counts, domain, -1)

    def replace_pods(self, row: int, gone: Iterable[PodShape], come: Iterable[PodShape]) -> None:
        """Follow a change of a row's pods in the problem. It becomes permanent: undo does not restore it."""
        self._counted_shapes.pop(row, None)
        for shape in gone:
            self._count(shape, row, -1)
        for shape in come:
            self._count(shape, row, 1)
        self.ports[row] = self.problem.ports_on(row)
        self.attached[row] = self.problem.attached_on(row)
        self.topology.read_host(row)
        self.journal.commit()

    def forget_tables(self) -> None:
        """Drop what was found about the instance type tables, because the problem has new ones."""
        self.draft_fit.clear()
        self._eligible.clear()

    def drop_domain(self, row: int) -> list[SpreadCounts]:
        """Remove a node that no longer exists from the known domains, permanently; the rules that lost one."""
        lost = []
        for topology_counts in self.topology.spreads:
            known = len(topology_counts.nodes_by_domain)
            topology_counts.drop_row(row, self.journal)
            if len(topology_counts.nodes_by_domain) < known:
                lost.append(topology_counts)
        self.journal.commit()
        return lost

    def _count(self, shape: PodShape, row: int, by: int) -> None:
        for topology_counts in self.topology.counted_by[shape.constraints]:
            domain = topology_counts.domain(row)
            if domain is not None and topology_counts.counts_on(row):
                self.journal.bump(topology_counts.counts, domain, by)

    # -- drafts

    def add_to_draft(self, draft: Draft, pods: Sequence[tuple[Pod, PodShape]], step: DraftStep) -> None:
        """Add pods to a draft with the options that were found; its pods count in the domains it can still have."""
        before = {topology_counts: self._domains(topology_counts, draft) for topology_counts in draft.counted}
        draft.apply(pods, step)
        for topology_counts, domains in before.items():
            self._recount(
                topology_counts, domains, self._domains(topology_counts, draft), draft.counted[topology_counts]
            )
        hosts = self.topology.host_pods
        if hosts.in_use:
            self.journal.put(hosts.pods, draft.number, tuple([shape.constraints for shape in draft.shapes]))
        for _, shape in pods:
            for topology_counts in self.topology.counted_by[shape.constraints]:
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
        """The domains in which the pods of a draft count for a rule."""
        if isinstance(topology_counts, SpreadCounts) and not self._is_eligible(topology_counts, draft):
            return ()
        if topology_counts.by_host:
            return (draft.number,)
        possible = draft.possible(topology_counts.key)
        return possible if isinstance(topology_counts, AntiAffinityCounts) or len(possible) == 1 else ()

    def _is_eligible(self, topology_counts: SpreadCounts, draft: Draft) -> bool:
        key = (topology_counts, draft.options)
        if key not in self._eligible:
            self._eligible[key] = self._may_be_eligible(topology_counts, draft.options)
        if not topology_counts.restricts_nodes or not self._eligible[key]:
            return self._eligible[key]
        return any(draft.could_match(alternative) for alternative in topology_counts.rule.alternatives or ())

    def _may_be_eligible(self, topology_counts: SpreadCounts, options: DraftOptions) -> bool:
        rule, template = topology_counts.rule, options.type_table.template
        if rule.tolerations is not None and untolerated(rule.tolerations, hard(template.taints)) is not None:
            return False
        return all(key == HOSTNAME or options.domains(key) for key in rule.held_keys)
