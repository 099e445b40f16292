"""Preferences of a pod, as levels from "all of them" down to "requirements only".

At each level the preferences that are still held are treated as requirements. They are dropped in this order:
preferred pod affinity, pod anti-affinity, node affinity (each from the heaviest term), then `ScheduleAnyway` spread
constraints; at the last level `PreferNoSchedule` taints are tolerated. `docs/concepts/scheduling.md` has the details,
which follow Karpenter.

Levels compare by identity and are created once for each shape, so they can be keys of caches. Most pods have one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.core.scheduling.node_affinity import Alternative, node_alternatives, read_expressions
from dovetail.core.scheduling.topology_rules import AffinityRule, Owner, SpreadRule, Term, read_spread, read_term
from dovetail.model.pod import (
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodSpec,
    PreferredTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

NO_POD_AFFINITY = PodAffinity()
NO_NODE_AFFINITY = NodeAffinity()


@dataclass(frozen=True)
class Preferences:
    """The preferences that are still held, heaviest first; `soft` tolerates PreferNoSchedule taints."""

    pod_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    node_affinity: tuple[PreferredTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    soft: bool = False

    def fewer(self) -> "Preferences | None":
        """Without the next preference to drop, or None if nothing is left to drop."""
        for name in ("pod_affinity", "pod_anti_affinity", "node_affinity", "spread"):
            held = getattr(self, name)
            if held:
                return replace(self, **{name: held[1:]})
        return None


class PreferenceLevel:
    """What a pod requires at one preference level. Compared by identity."""

    __slots__ = ("affinity", "alternatives", "anti", "soft", "spread", "tolerations")

    def __init__(self, owner: Owner, held: Preferences) -> None:
        spec, required = owner.spec, node_alternatives(owner.spec)
        constraints = tuple(
            each
            for each in spec.topology_spread_constraints
            if _hard(each) or any(each is kept for kept in held.spread)
        )
        pod_affinity, pod_anti_affinity = _pod_affinity(spec), _pod_anti_affinity(spec)
        self.alternatives = (
            _with_preference(required, held.node_affinity[0].preference) if held.node_affinity else required
        )
        self.tolerations = spec.tolerations
        self.soft = held.soft
        self.spread: tuple[SpreadRule, ...] = tuple(
            read_spread(owner, each, constraints, required) for each in constraints
        )
        terms = (
            *pod_affinity.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in held.pod_affinity),
        )
        self.affinity = AffinityRule(tuple(dict.fromkeys(read_term(owner, term) for term in terms))) if terms else None
        terms = (
            *pod_anti_affinity.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in held.pod_anti_affinity),
        )
        self.anti: tuple[Term, ...] = tuple(dict.fromkeys(read_term(owner, term) for term in terms))


def read_preference_levels(owner: Owner, *, respect_preferences: bool, soft_taints: bool) -> Iterator[PreferenceLevel]:
    """The preference levels, all preferences first. Most pods have a single level."""
    held: Preferences | None = preferences(owner.spec) if respect_preferences else Preferences()
    last = Preferences()
    while held is not None:
        last = held
        yield PreferenceLevel(owner, held)
        held = held.fewer()
    if soft_taints:
        yield PreferenceLevel(owner, replace(last, soft=True))


def preferences(spec: PodSpec) -> Preferences:
    """All preferences of a pod, heaviest first."""
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return Preferences(
        pod_affinity=tuple(
            sorted(_pod_affinity(spec).preferred_during_scheduling_ignored_during_execution, key=_by_weight)
        ),
        pod_anti_affinity=tuple(
            sorted(_pod_anti_affinity(spec).preferred_during_scheduling_ignored_during_execution, key=_by_weight)
        ),
        node_affinity=tuple(
            sorted(
                (node_affinity or NO_NODE_AFFINITY).preferred_during_scheduling_ignored_during_execution, key=_by_weight
            )
        ),
        spread=tuple(each for each in spec.topology_spread_constraints if not _hard(each)),
    )


def _by_weight(term: WeightedPodAffinityTerm | PreferredTerm) -> int:
    return -term.weight


def _hard(constraint: TopologySpreadConstraint) -> bool:
    return constraint.when_unsatisfiable != "ScheduleAnyway"


def _pod_affinity(spec: PodSpec) -> PodAffinity:
    return (spec.affinity.pod_affinity if spec.affinity is not None else None) or NO_POD_AFFINITY


def _pod_anti_affinity(spec: PodSpec) -> PodAffinity:
    return (spec.affinity.pod_anti_affinity if spec.affinity is not None else None) or NO_POD_AFFINITY


def required_anti_terms(owner: Owner) -> tuple[Term, ...]:
    """The anti-affinity that other pods must respect too."""
    required = _pod_anti_affinity(owner.spec).required_during_scheduling_ignored_during_execution
    return tuple(dict.fromkeys(read_term(owner, term) for term in required))


def _with_preference(required: tuple[Alternative, ...], preference: NodeSelectorTerm) -> tuple[Alternative, ...]:
    wanted = read_expressions(preference)
    return tuple(dict.fromkeys(alternative.with_expressions(wanted) for alternative in required)) if wanted else ()
