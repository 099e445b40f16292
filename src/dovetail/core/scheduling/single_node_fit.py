"""Single-node fit: placement for a run that may open at most one draft.

A pod is plain if only taints, labels and size decide where it may run, and no topology rule counts it. Whether a draft
holds plain pods depends only on their total, and more pods never make it easier: several fit one by one exactly if
they fit together. So plain pods are collected, and added to the draft in one step when its state is needed, or at the
end of the run. That turns many checks of instance types into one.
"""

from collections.abc import Iterator, Mapping, Sequence

from dovetail.core.scheduling.draft import Draft, DraftStep
from dovetail.core.scheduling.draft_fit import Attempt
from dovetail.core.scheduling.node_affinity import ANYWHERE
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodConstraints, PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.removal import Entry, PlainRun, Queue
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology_domains import AllowedDomains
from dovetail.model.pod import Pod


class SingleNodeFit(PodPlacer):
    """Placement that collects plain pods for its only draft."""

    def place_run(self, run: PlainRun) -> Pod | None:
        """Place plain pods on rows, and collect the others for the draft; returns a pod that neither takes, or None.

        Each pod of a run would be tried on the same rows with the same need, so a row is filled in one step, and once
        no row has room for one of them, none has room for the next. Whether the draft holds the collected pods is found
        by `add_collected`.
        """
        placed, number = 0, len(run.entries)
        while placed < number:
            row = next(self.rows_with_room(run.candidates, run.shape), None)
            if row is None:
                break
            placed += self.solver_state.fill_up(run.shape.need, row, number - placed)
        for pod, shape in run.entries[placed:]:
            if self.solver_state.drafts:
                self._collected.append((pod, shape))
                continue
            (level,) = self.solver_state.topology.preference_levels(shape.constraints)
            attempt = Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level)))
            if self._open(pod, attempt) is None:
                return pod
        return None

    def _find_draft(self, pod: Pod, attempt: Attempt) -> Draft | None:
        """Add the pod to the only draft, or open it."""
        if not self.solver_state.drafts:
            return self._open(pod, attempt)
        draft = self.solver_state.drafts[0]
        step = self.draft_fit.step(draft, attempt)
        if not isinstance(step, DraftStep):
            return None
        self._take(0, [(pod, attempt.shape)], step)
        return draft

    def _take(self, position: int, pods: Sequence[tuple[Pod, PodShape]], step: DraftStep) -> None:
        self.solver_state.add_to_draft(self.solver_state.drafts[position], pods, step)

    def add_collected(self) -> Pod | None:
        """Add all collected pods to the draft; returns the first pod that it cannot hold, or None."""
        if not self._collected:
            return None
        gathered, self._collected = self._collected, []
        draft = self.solver_state.drafts[0]
        step = self.step_together(draft, gathered)
        if step is not None:
            self._take(0, gathered, step)
            return None
        return self._one_by_one(draft, gathered)

    def _one_by_one(self, draft: Draft, gathered: list[tuple[Pod, PodShape]]) -> Pod:
        for pod, shape in gathered:
            (level,) = self.solver_state.topology.preference_levels(shape.constraints)
            attempt = Attempt(shape, level, AllowedDomains(self.solver_state.topology.rules(level)))
            step = self.draft_fit.step(draft, attempt)
            if not isinstance(step, DraftStep):
                return pod
            self._take(0, [(pod, shape)], step)
        raise AssertionError("pods that fit one after the other fit together")


class PlainRuns:
    """Splits queues into runs of plain pods. `levels` has the only level of plain ones; more may be added to it."""

    def __init__(self, problem: Problem, levels: Mapping[PodConstraints, PreferenceLevel | None]) -> None:
        self._problem = problem
        self._levels = levels
        self._groups: dict[PodShape, int] = {}  # of plain shapes; -1 for others

    def split(self, queue: Queue) -> Iterator[PlainRun | Entry]:
        """The queue in order, with plain pods that follow each other in one run.

        The pods of a run have the same candidate rows and need the same.
        """
        group, together = -1, list[Entry]()
        for entry in queue:
            shape = entry[1]
            found = self._groups[shape] if shape in self._groups else self._group(shape)
            if together and (found != group or together[0][1].need != shape.need):
                yield self._run(group, together)
                together = []
            group = found
            if found < 0:
                yield entry
            else:
                together.append(entry)
        if together:
            yield self._run(group, together)

    def _group(self, shape: PodShape) -> int:
        level = self._levels[shape.constraints]
        group = self._groups[shape] = -1 if level is None else self._problem.candidate_group(shape, level)
        return group

    def _run(self, group: int, entries: list[Entry]) -> PlainRun:
        shape = entries[0][1]
        level = self._levels[shape.constraints]
        assert level is not None, "the pods of a run are plain"
        return PlainRun(self._problem.candidates(shape, level), group, shape, tuple(entries))


def plain_level(solver_state: SolverState, constraints: PodConstraints) -> PreferenceLevel | None:
    """The only preference level of plain pods, or None if pods with these constraints are not plain."""
    level = decided_by_size(constraints, solver_state.topology.preference_levels(constraints))
    plain = (
        level is not None
        and solver_state.topology.rules(level).unconstrained
        and not solver_state.topology.is_counted(constraints)
    )
    return level if plain else None


def decided_by_size(constraints: PodConstraints, levels: Sequence[PreferenceLevel]) -> PreferenceLevel | None:
    """The only preference level of pods whose own spec has nothing but taints, labels and size; otherwise None."""
    level = levels[0]
    decided = (
        len(levels) == 1
        and len(level.alternatives) == 1
        and level.affinity is None
        and not (level.spread or level.anti)
        and not (constraints.ports or constraints.volumes.attachments or constraints.volumes.problem)
        and constraints.volumes.on_drafts == (ANYWHERE,)
    )
    return level if decided else None
