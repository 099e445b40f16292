"""Unschedulable pods: which constraint failed on how many nodes, what each NodePool says, and what came closest.

The words are those of kube-scheduler and Karpenter, as in `0/3 nodes are available: 2 Insufficient cpu`. Each node
counts once, with the first constraint it fails in the order of `docs/concepts/scheduling.md`; for resources, with
each that is short. Computed against the state at the end of the run, once for each shape, and for the last step of
its preferences, since everything optional has been given up by then.
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
    """Reasons, from the state at the end of the run; computed once for each shape."""

    def __init__(self, placer: PodPlacer) -> None:
        self._placing = placer
        self._solver_state = placer.solver_state
        self._known: dict[PodShape, str] = {}

    def refusal(self, pod: Pod, shape: PodShape) -> Refusal:
        """Why this pod has no place."""
        if shape not in self._known:
            self._known[shape] = self._why(shape)
        return Refusal(RefusalCode.UNSCHEDULABLE, pod_ref(pod.key), detail=self._known[shape])

    def _why(self, shape: PodShape) -> str:
        if shape.volumes.problem:
            return shape.volumes.problem
        total = len(self._solver_state.base.existing_nodes)
        nodes = f"0/{total} nodes are available: {self.existing_nodes(shape)}. " if total else ""
        pools = "; ".join(self._pools(self._attempt(shape))) or "no NodePool can make nodes now"
        return f"{nodes}No new node can take it: {pools}"

    def existing_nodes(self, shape: PodShape) -> str:
        """Which constraints failed, each with the number of nodes it failed on."""
        attempt = self._attempt(shape)
        reasons = Counter(
            reason
            for row in range(len(self._solver_state.base.existing_nodes))
            for reason in self.node_row(attempt, row)
        )
        return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))

    def _attempt(self, shape: PodShape) -> Attempt:
        level = self._solver_state.topology.preference_levels(shape)[-1]
        return Attempt(shape, level, AllowedDomains(self._solver_state.topology.rules(level)))

    def node_row(self, attempt: Attempt, row: int) -> list[str]:
        """The first constraint that a node fails, in the scheduler's words; one for each resource that is short."""
        shape, level, solver_state = attempt.shape, attempt.level, self._solver_state
        taints = solver_state.base.existing_nodes.taints[row]
        taint = untolerated(level.tolerations, hard(taints) if level.soft else taints)
        if taint is not None:
            return [_taint_words(str(taint))]
        if row in solver_state.base.existing_nodes.going:
            return ["node(s) were on their way out"]
        if shape.volumes.attachments and not self._placing.attachable(shape, row):
            return ["node(s) exceed max volume count"]
        if shape.ports and conflict(shape.ports, solver_state.ports.get(row, ())) is not None:
            return ["node(s) didn't have free ports for the requested pod ports"]
        left = solver_state.left(row)
        short = [solver_state.base.units.names[column] for column, amount in shape.need if left[column] < amount]
        if short:
            return [f"Insufficient {name}" for name in short]
        return [self._labels(attempt, row) or attempt.allowance.node_row(row)]

    def _labels(self, attempt: Attempt, row: int) -> str:
        existing_nodes = self._solver_state.base.existing_nodes
        if not existing_nodes.meeting(attempt.level.alternatives)[row]:
            return "node(s) didn't match Pod's node affinity/selector"
        if not existing_nodes.meeting(attempt.shape.volumes.on_rooms)[row]:
            return "node(s) had volume node affinity conflict"
        return ""

    def _pools(self, attempt: Attempt) -> list[str]:
        said = []
        for type_table in self._solver_state.base.type_tables:
            draft = self._placing.blank(type_table)
            outcome = draft if isinstance(draft, str) else self._outcome(draft, attempt)
            limits = self._placing.limits_against(type_table, attempt) if not isinstance(draft, str) else ""
            outcome += f"; instance types that would do exceed limits ({limits})" if limits else ""
            said.append(f"nodepool {type_table.template.pool.name}: {outcome}")
        return said

    def _outcome(self, draft: Draft, attempt: Attempt) -> str:
        outcome = self._placing.draft_fit.step(draft, attempt)
        assert not isinstance(outcome, DraftStep), "a pod that a new node takes is not left over"
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
        name = self._solver_state.base.units.names[column]
        if name == CPU:
            return f"{gap}m {name}"
        return f"{Quantity(gap * 10**9, binary=name in BYTES).canonical} {name}"


def _taint_words(taint: str) -> str:
    if taint.startswith("node.kubernetes.io/unschedulable"):
        return "node(s) were unschedulable"
    return f"node(s) had untolerated taint {{{taint}}}"
