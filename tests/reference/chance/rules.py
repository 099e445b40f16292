"""Random wishes of a pod about nodes and about other pods."""

from dovetail.model.kube_object import LabelSelector, LabelSelectorRequirement
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE
from dovetail.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.taints import Toleration
from reference.chance.catalog import expression
from reference.chance.dice import APPS, CPUS, FAMILY, NAMESPACES, RACK, TEAM, ZONES, Dice

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
KEYS = (HOSTNAME,) * 5 + (ZONE,) * 6 + (CAPACITY_TYPE, CAPACITY_TYPE, RACK, TEAM)


def some_selector(dice: Dice) -> dict[str, str]:
    if not dice.about("requirements", 0.35):
        return {}
    key, value = dice.pick(
        (
            (ZONE, dice.pick(ZONES)),
            (OLD_ZONE, dice.pick(ZONES)),
            (ARCH, "amd64"),
            (CAPACITY_TYPE, "spot"),
            (TEAM, dice.pick(("red", "blue"))),
            (NODEPOOL, "main"),
            (RACK, "r1"),
        )
    )
    return {key: value}


def some_expression(dice: Dice) -> NodeSelectorRequirement:
    return dice.pick(
        (
            expression(ZONE, "In", *dice.some(ZONES)[:2]),
            expression(ZONE, "NotIn", dice.pick(ZONES)),
            expression(CAPACITY_TYPE, "In", *dice.some(("on-demand", "spot"))),
            expression(CPUS, *dice.pick((("Gt", "1"), ("Lt", "8")))),
            expression(CPUS, *dice.pick((("Gte", "2"), ("Lte", "4")))),
            expression(TEAM, dice.pick(("In", "NotIn")), dice.pick(("red", "blue"))),
            expression(TEAM, dice.pick(("Exists", "DoesNotExist"))),
            expression(RACK, dice.pick(("Exists", "DoesNotExist"))),
            expression(RACK, "NotIn", dice.pick(("r1", "r2"))),
            expression(FAMILY, "In", dice.pick(("m", "c"))),
            expression(INSTANCE_TYPE, "NotIn", "t0.2x"),
            expression(NODEPOOL, "In", *dice.some(("east", "main", "west"))),
        )
    )


def some_term(dice: Dice) -> NodeSelectorTerm:
    count = 0 if dice.maybe(0.09) else dice.between(1, 2)
    return NodeSelectorTerm(match_expressions=tuple(some_expression(dice) for _ in range(count)))


def some_tolerations(dice: Dice) -> tuple[Toleration, ...]:
    if "taints" not in dice.themes:
        return ()
    choices = (
        Toleration(operator="Exists"),
        Toleration(key="dedicated", operator="Equal", value="red", effect="NoSchedule"),
        Toleration(key="dedicated", value="blue"),
        Toleration(key="dedicated", operator="Exists"),
        Toleration(key="slow", operator="Exists", effect="PreferNoSchedule"),
        Toleration(key="rank", operator="Gt", value="3"),
        Toleration(key="rank", operator="Lt", value="9", effect="NoSchedule"),
        Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
    )
    return tuple(dice.random.sample(choices, dice.pick((0, 1, 2, 3, 4))))


def some_affinity(dice: Dice, app: str) -> Affinity | None:
    nodes, near, far = _node_affinity(dice), _pod_affinity(dice, app, "near"), _pod_affinity(dice, app, "far")
    if nodes is None and near is None and far is None:
        return None
    return Affinity(node_affinity=nodes, pod_affinity=near, pod_anti_affinity=far)


def _node_affinity(dice: Dice) -> NodeAffinity | None:
    required = dice.about("requirements", 0.5)
    preferred = dice.about("preferences", 0.35)
    if not required and not preferred:
        return None
    terms = tuple(some_term(dice) for _ in range(dice.between(1, 2))) if required else ()
    weighted = tuple(
        PreferredTerm(weight=dice.pick((1, 5, 5)), preference=some_term(dice)) for _ in range(dice.between(1, 2))
    )
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms) if terms else None,
        preferred_during_scheduling_ignored_during_execution=weighted if preferred else (),
    )


def _pod_affinity(dice: Dice, app: str, side: str) -> PodAffinity | None:
    required = dice.about("affinity", 0.4 if side == "far" else 0.3)
    preferred = dice.about("preferences", 0.25)
    if not required and not preferred:
        return None
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=tuple(
            _pod_term(dice, app) for _ in range(dice.pick((1, 1, 2)))
        )
        if required
        else (),
        preferred_during_scheduling_ignored_during_execution=tuple(
            WeightedPodAffinityTerm(weight=dice.pick((1, 5, 5)), pod_affinity_term=_pod_term(dice, app))
            for _ in range(dice.pick((1, 1, 2)))
        )
        if preferred
        else (),
    )


def _pod_term(dice: Dice, app: str) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=dice.pick(KEYS),
        label_selector=some_label_selector(dice, app),
        namespaces=tuple(dice.some(tuple(NAMESPACES))[:2]) if dice.maybe(0.2) else (),
        namespace_selector=_namespace_selector(dice) if dice.maybe(0.2) else None,
        match_label_keys=("hash",) if dice.maybe(0.2) else (),
        mismatch_label_keys=("track",) if dice.maybe(0.15) else (),
    )


def _namespace_selector(dice: Dice) -> LabelSelector:
    return dice.pick((LabelSelector(), LabelSelector(match_labels={"tier": dice.pick(("front", "back"))})))


def some_label_selector(dice: Dice, app: str) -> LabelSelector | None:
    own = LabelSelector(match_labels={"app": app})
    return dice.pick(
        (
            own,
            own,
            own,
            own,
            LabelSelector(match_labels={"app": dice.pick(APPS)}),
            LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key="app", operator=dice.pick(("In", "NotIn")), values=(app,)),
                )
            ),
            LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key="track", operator=dice.pick(("Exists", "DoesNotExist"))),
                )
            ),
            LabelSelector(),
            None if dice.maybe(0.4) else own,
        )
    )


def some_spreads(dice: Dice, app: str) -> tuple[TopologySpreadConstraint, ...]:
    hard = dice.about("spread", 0.6)
    soft = dice.about("preferences", 0.25) or (hard and dice.maybe(0.2))
    kinds = ["DoNotSchedule"] * (dice.pick((1, 1, 2)) if hard else 0) + ["ScheduleAnyway"] * (1 if soft else 0)
    dice.random.shuffle(kinds)
    return tuple(_spread(dice, app, kind) for kind in kinds)


def _spread(dice: Dice, app: str, kind: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        topology_key=dice.pick(KEYS),
        max_skew=dice.pick((1, 1, 1, 2)),
        when_unsatisfiable=kind,
        label_selector=some_label_selector(dice, app),
        min_domains=dice.between(1, 4) if kind == "DoNotSchedule" and dice.maybe(0.3) else None,
        node_affinity_policy=dice.pick(("Honor", "Honor", "Ignore")),
        node_taints_policy=dice.pick(("Ignore", "Honor")),
        match_label_keys=("hash",) if dice.maybe(0.25) else (),
    )
