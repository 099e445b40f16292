"""Unschedulable pods: which constraint failed on how many nodes, why each NodePool cannot help, and the closest type.

The words are those of kube-scheduler and Karpenter, as in `0/3 nodes are available: 2 Insufficient cpu`. Each node
counts once, with the first constraint it fails in the order of `docs/concepts/scheduling.md`; for resources, with
each that is short. Computed against the state at the end of the run, once for each shape, and for the last preference
level, since the pod has given up all its preferences by then.
"""

from collections import Counter

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import TOO_SMALL, Attempt
from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.host_ports import conflict
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, pod_ref
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Quantity
from dovetail.model.taints import untolerated

BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE})


class UnschedulableExplanation:
    """Explains why pods are unschedulable, from the state at the end of the run; once for each shape."""

    def __init__(self, placer: PodPlacer) -> None:
        self._placer = placer
        self._solver_state = placer.solver_state
        self._reason_by_shape: dict[PodShape, str] = {}

    def refusal(self, pod: Pod, shape: PodShape) -> Refusal:
        """Why this pod is unschedulable."""
        if shape not in self._reason_by_shape:
            self._reason_by_shape[shape] = self._why(shape)
        return Refusal(RefusalCode.UNSCHEDULABLE, pod_ref(pod.key), detail=self._reason_by_shape[shape])

    def _why(self, shape: PodShape) -> str:
        if shape.volumes.problem:
            return shape.volumes.problem
        total = len(self._solver_state.problem.existing_nodes)
        nodes = f"0/{total} nodes are available: {self.describe_nodes(shape)}. " if total else ""
        pools = "; ".join(self._pools(self._attempt(shape))) or "no NodePool can launch nodes now"
        return f"{nodes}No new node can take it: {pools}"

    def describe_nodes(self, shape: PodShape) -> str:
        """Which constraints failed, each with the number of nodes it failed on."""
        attempt = self._attempt(shape)
        reasons = Counter(
            reason
            for row in range(len(self._solver_state.problem.existing_nodes))
            for reason in self.reasons_on_row(attempt, row)
        )
        return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))

    def _attempt(self, shape: PodShape) -> Attempt:
        level = self._solver_state.topology.preference_levels(shape)[-1]
        return Attempt(shape, level, AllowedDomains(self._solver_state.topology.rules(level)))

    def reasons_on_row(self, attempt: Attempt, row: int) -> list[str]:
        """The first constraint that a node fails, as kube-scheduler words it; one for each resource that is short."""
        shape, level, solver_state = attempt.shape, attempt.level, self._solver_state
        taints = solver_state.problem.existing_nodes.taints[row]
        taint = untolerated(level.tolerations, hard(taints) if level.soft else taints)
        if taint is not None:
            return [_taint_words(str(taint))]
        if row in solver_state.problem.existing_nodes.deleting_rows:
            return ["node(s) were being deleted"]
        if shape.volumes.attachments and not self._placer.attachable(shape, row):
            return ["node(s) exceed max volume count"]
        if shape.ports and conflict(shape.ports, solver_state.ports.get(row, ())) is not None:
            return ["node(s) didn't have free ports for the requested pod ports"]
        left = solver_state.free_on(row)
        short = [solver_state.problem.units.names[column] for column, amount in shape.need if left[column] < amount]
        if short:
            return [f"Insufficient {name}" for name in short]
        return [self._labels(attempt, row) or attempt.allowance.reason_on_row(row)]

    def _labels(self, attempt: Attempt, row: int) -> str:
        existing_nodes = self._solver_state.problem.existing_nodes
        if not existing_nodes.meeting(attempt.level.alternatives)[row]:
            return "node(s) didn't match Pod's node affinity/selector"
        if not existing_nodes.meeting(attempt.shape.volumes.on_existing_nodes)[row]:
            return "node(s) had volume node affinity conflict"
        return ""

    def _pools(self, attempt: Attempt) -> list[str]:
        reasons = []
        for type_table in self._solver_state.problem.type_tables:
            draft = self._placer.new_draft(type_table)
            outcome = draft if isinstance(draft, str) else self._outcome(draft, attempt)
            limits = self._placer.limits_that_exclude(type_table, attempt) if not isinstance(draft, str) else ""
            outcome += f"; instance types that would do exceed limits ({limits})" if limits else ""
            reasons.append(f"nodepool {type_table.template.pool.name}: {outcome}")
        return reasons

    def _outcome(self, draft: Draft, attempt: Attempt) -> str:
        outcome = self._placer.draft_fit.step(draft, attempt)
        assert not isinstance(outcome, DraftStep), "a pod that a new node accepts is not left over"
        if outcome != TOO_SMALL:
            return outcome
        return f"{outcome}{self._closest(draft, attempt)}"

    def _closest(self, draft: Draft, attempt: Attempt) -> str:
        """The type that is short of the fewest resources, and by how much."""
        best: tuple[int, float, str] | None = None
        for alternative in attempt.level.alternatives:
            options = draft.options.narrow(alternative)
            if isinstance(options, str):
                continue
            for position, row in enumerate(options.net.tolist()):
                short = {column: amount - row[column] for column, amount in attempt.shape.need if row[column] < amount}
                missing = sum(gap / max(amount, 1) for (c, amount) in attempt.shape.need if (gap := short.get(c, 0)))
                words = ", ".join(self._gap(column, gap) for column, gap in sorted(short.items()))
                rank = (len(short), missing, f"{options.choice(position).type.name} is short of {words}")
                best = rank if best is None or rank < best else best
        return f"; closest: {best[2]}" if best is not None else ""

    def _gap(self, column: int, gap: int) -> str:
        name = self._solver_state.problem.units.names[column]
        if name == CPU:
            return f"{gap}m {name}"
        return f"{Quantity(gap * 10**9, binary=name in BYTES).canonical} {name}"


def _taint_words(taint: str) -> str:
    if taint.startswith("node.kubernetes.io/unschedulable"):
        return "node(s) were unschedulable"
    return f"node(s) had untolerated taint {{{taint}}}"
