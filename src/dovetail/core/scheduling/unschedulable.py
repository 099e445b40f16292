"""Unschedulable pods: which constraint failed on how many nodes, why each NodePool cannot help, and the closest type.

The words are those of kube-scheduler and Karpenter, as in `0/3 nodes are available: 2 Insufficient cpu`. Each node
counts once, with the first constraint it fails in the order of kube-scheduler's filters: unschedulable, taints, node
affinity and selector, host ports, resources, volumes, topology spread, pod affinity. For resources it counts with each
that is short. Computed against the state at the end of the run, once for each shape, and for the last preference level,
since the pod has given up all its preferences by then.
"""

from collections import Counter

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import TOO_SMALL, Attempt
from dovetail.core.scheduling.draft_options import NO_TYPE
from dovetail.core.scheduling.existing_nodes import hard
from dovetail.core.scheduling.host_ports import conflict
from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.core.wording import constraint_words
from dovetail.model.pod import Pod
from dovetail.model.refusal import FailedConstraint, PoolFailure, Refusal, RefusalCode, SchedulingFailure, pod_ref
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Quantity
from dovetail.model.taints import untolerated

BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE})
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
VOLUME_AFFINITY = "node(s) had volume node affinity conflict"


def insufficient(resource: str) -> str:
    """The words of kube-scheduler for a node that has too little of a resource."""
    return f"Insufficient {resource}"


class UnschedulableExplanation:
    """Explains why pods are unschedulable, from the state at the end of the run; once for each shape."""

    def __init__(self, placer: PodPlacer) -> None:
        self._placer = placer
        self._solver_state = placer.solver_state
        self._failure_by_shape: dict[PodShape, SchedulingFailure] = {}

    def refusal(self, pod: Pod, shape: PodShape) -> Refusal:
        """Why this pod is unschedulable."""
        about = pod_ref(pod.key)
        if shape.volumes.problem:
            return Refusal(RefusalCode.UNSCHEDULABLE, about, detail=shape.volumes.problem)
        if shape not in self._failure_by_shape:
            total = len(self._solver_state.problem.existing_nodes)
            attempt = self._attempt(shape)
            failure = SchedulingFailure(total, self._constraints(attempt), tuple(self._pools(attempt)))
            self._failure_by_shape[shape] = failure
        return Refusal(RefusalCode.UNSCHEDULABLE, about, scheduling=self._failure_by_shape[shape])

    def describe_nodes(self, shape: PodShape) -> str:
        """Which constraints failed, each with the number of nodes it failed on."""
        return constraint_words(self._constraints(self._attempt(shape)))

    def _constraints(self, attempt: Attempt) -> tuple[FailedConstraint, ...]:
        reasons = Counter(
            reason
            for row in range(len(self._solver_state.problem.existing_nodes))
            for reason in self.reasons_on_row(attempt, row)
        )
        return tuple(FailedConstraint(reason, count) for reason, count in sorted(reasons.items()))

    def _attempt(self, shape: PodShape) -> Attempt:
        level = self._solver_state.topology.preference_levels(shape.constraints)[-1]
        return Attempt(shape, level, AllowedDomains(self._solver_state.topology.rules(level)))

    def reasons_on_row(self, attempt: Attempt, row: int) -> list[str]:
        """The first constraint that a node fails, as kube-scheduler words it; one for each resource that is short."""
        shape, level, solver_state = attempt.shape, attempt.level, self._solver_state
        taints = solver_state.problem.existing_nodes.taints[row]
        taint = untolerated(level.tolerations, hard(taints) if level.soft else taints)
        if taint is not None:
            return [_taint_words(str(taint))]
        existing_nodes = solver_state.problem.existing_nodes
        deleting = row in existing_nodes.deleting_rows
        if deleting or existing_nodes.nodes[row].record is not None:
            return [f"node(s) were being {'deleted' if deleting else 'disrupted'}"]
        if not existing_nodes.meeting(level.alternatives)[row]:
            return [NODE_AFFINITY]
        if shape.ports and conflict(shape.ports, solver_state.ports.get(row, ())) is not None:
            return ["node(s) didn't have free ports for the requested pod ports"]
        left = solver_state.free_on(row)
        short = [solver_state.problem.units.names[column] for column, amount in shape.need if left[column] < amount]
        if short:
            return [insufficient(name) for name in short]
        if shape.volumes.attachments and not self._placer.attachable(shape, row):
            return ["node(s) exceed max volume count"]
        if not existing_nodes.meeting(shape.volumes.on_existing_nodes)[row]:
            return [VOLUME_AFFINITY]
        return [attempt.allowance.reason_on_row(row)]

    def _pools(self, attempt: Attempt) -> list[PoolFailure]:
        reasons = []
        for type_table in self._solver_state.problem.type_tables:
            draft = self._placer.new_draft(type_table)
            outcome = draft if isinstance(draft, str) else self._outcome(draft, attempt)
            limits = self._placer.limits_that_exclude(type_table, attempt) if not isinstance(draft, str) else ""
            outcome += f"; instance types that would do exceed limits ({limits})" if limits else ""
            reasons.append(PoolFailure(type_table.template.pool.name, outcome))
        return reasons

    def _outcome(self, draft: Draft, attempt: Attempt) -> str:
        outcome = self._placer.draft_fit.step(draft, attempt)
        assert not isinstance(outcome, DraftStep), "a pod that a new node accepts is not left over"
        if outcome == NO_TYPE:
            return f"{outcome}{_excluding(draft, attempt)}"
        return f"{outcome}{self._closest(draft, attempt)}" if outcome == TOO_SMALL else outcome

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


def _excluding(draft: Draft, attempt: Attempt) -> str:
    """The expressions of the pod that alone exclude every instance type of the NodePool."""
    expressions = dict.fromkeys(each for term in attempt.level.alternatives for each in term.expressions)
    alone = [each for each in expressions if isinstance(draft.options.narrow(Alternative([each])), str)]
    return f"; none matches {', '.join(map(str, alone))}" if alone else ""


def _taint_words(taint: str) -> str:
    if taint.startswith("node.kubernetes.io/unschedulable"):
        return "node(s) were unschedulable"
    return f"node(s) had untolerated taint {{{taint}}}"
