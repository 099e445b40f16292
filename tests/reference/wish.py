"""What a pod asks for at one step of its ladder, and the ladder itself: preferences given up one at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.model.pod import (
    Affinity,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, tolerates
from reference.affinity import Expressions, read_term, required_alternatives


@dataclass(frozen=True)
class Wish:
    """A pod with the preferences it still holds."""

    pod: Pod
    preferred_near: tuple[WeightedPodAffinityTerm, ...]
    preferred_far: tuple[WeightedPodAffinityTerm, ...]
    preferred_nodes: tuple[tuple[int, NodeSelectorTerm], ...]
    spreads: tuple[TopologySpreadConstraint, ...]
    soft_taints_tolerated: bool = False

    @property
    def near(self) -> tuple[PodAffinityTerm, ...]:
        """Affinity terms held: the required ones, and the preferred ones not given up."""
        return required_near(self.pod) + tuple(each.pod_affinity_term for each in self.preferred_near)

    @property
    def far(self) -> tuple[PodAffinityTerm, ...]:
        return required_far(self.pod) + tuple(each.pod_affinity_term for each in self.preferred_far)

    @property
    def alternatives(self) -> list[Expressions]:
        """The required alternatives, each with the heaviest preferred node affinity term left."""
        required = required_alternatives(self.pod.spec)
        if not self.preferred_nodes:
            return required
        held = read_term(_heaviest(self.preferred_nodes, lambda each: each[0])[1])
        return [] if held is None else [each + held for each in required]

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        return all(
            tolerates(self.pod.spec.tolerations, taint)
            or (self.soft_taints_tolerated and taint.effect == PREFER_NO_SCHEDULE)
            for taint in taints
        )


def tolerates_hard(pod: Pod, taints: Sequence[Taint]) -> bool:
    """What `nodeTaintsPolicy: Honor` asks, at every step of the ladder: a preference is no bar."""
    return all(tolerates(pod.spec.tolerations, taint) for taint in taints if taint.effect != PREFER_NO_SCHEDULE)


def required_near(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = _affinity(pod).pod_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


def required_far(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = _affinity(pod).pod_anti_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()


def preference_levels(pod: Pod, *, respect_preferences: bool, soft_taints_exist: bool) -> Iterator[Wish]:
    """Every step, from all preferences held to none."""
    wish = full_wish(pod) if respect_preferences else bare_wish(pod)
    yield wish
    while (easier := _give_up_one(wish)) is not None:
        wish = easier
        yield wish
    if soft_taints_exist:
        yield replace(wish, soft_taints_tolerated=True)


def full_wish(pod: Pod) -> Wish:
    affinity = _affinity(pod)
    near, far, nodes = affinity.pod_affinity, affinity.pod_anti_affinity, affinity.node_affinity
    return Wish(
        pod=pod,
        preferred_near=near.preferred_during_scheduling_ignored_during_execution if near is not None else (),
        preferred_far=far.preferred_during_scheduling_ignored_during_execution if far is not None else (),
        preferred_nodes=tuple(
            (each.weight, each.preference)
            for each in (nodes.preferred_during_scheduling_ignored_during_execution if nodes is not None else ())
        ),
        spreads=pod.spec.topology_spread_constraints,
    )


def bare_wish(pod: Pod) -> Wish:
    hard = tuple(each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule")
    return Wish(pod=pod, preferred_near=(), preferred_far=(), preferred_nodes=(), spreads=hard)


def _give_up_one(wish: Wish) -> Wish | None:
    """The next easier wish: near, then far, then nodes (heaviest first), then soft spreads in the order written."""
    if wish.preferred_near:
        heaviest = _heaviest(wish.preferred_near, lambda each: each.weight)
        return replace(wish, preferred_near=_without(wish.preferred_near, heaviest))
    if wish.preferred_far:
        heaviest = _heaviest(wish.preferred_far, lambda each: each.weight)
        return replace(wish, preferred_far=_without(wish.preferred_far, heaviest))
    if wish.preferred_nodes:
        heaviest = _heaviest(wish.preferred_nodes, lambda each: each[0])
        return replace(wish, preferred_nodes=_without(wish.preferred_nodes, heaviest))
    soft = next((each for each in wish.spreads if each.when_unsatisfiable == "ScheduleAnyway"), None)
    return None if soft is None else replace(wish, spreads=_without(wish.spreads, soft))


def _heaviest(terms, weight):
    """The heaviest; among equals the one written first (`max` keeps the first)."""
    return max(terms, key=weight)


def _without(terms, dropped):
    """The terms less the first that is this very one."""
    at = next(index for index, term in enumerate(terms) if term is dropped)
    return terms[:at] + terms[at + 1 :]


def _affinity(pod: Pod) -> Affinity:
    return pod.spec.affinity or Affinity()
