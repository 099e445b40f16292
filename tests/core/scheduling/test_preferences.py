"""What a pod gives up, step by step, until only its requirements are left."""

from builders import pod
from core.scheduling.parts import PREFERRED, REQUIRED, SELECTS_WEB, spread
from dovetail.core.scheduling.preferences import preferences, read_preference_levels
from dovetail.core.scheduling.topology_rules import Owner
from dovetail.model.labels import HOSTNAME, ZONE


def steps(spec, *, respect_preferences=True, soft_taints=False):
    owner = Owner("default", {}, pod(spec=spec).spec, {})
    return list(read_preference_levels(owner, respect_preferences=respect_preferences, soft_taints=soft_taints))


def weighted(weight, key):
    return {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": SELECTS_WEB}}


def node_preference(weight, zone):
    return {"weight": weight, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}


def held(step):
    """What a step insists on: (affinity keys, anti-affinity keys, node alternatives, spread keys)."""
    near = [term.key for term in step.affinity.terms] if step.affinity is not None else []
    return (
        near,
        [term.key for term in step.anti],
        [str(each) for each in step.alternatives],
        [s.key for s in step.spread],
    )


def test_a_pod_without_preferences_has_one_step():
    assert len(steps({})) == 1


def test_preferences_are_dropped_in_order_and_each_kind_from_the_heaviest_term():
    spec = {
        "affinity": {
            "podAffinity": {PREFERRED: [weighted(1, ZONE), weighted(9, HOSTNAME)]},
            "podAntiAffinity": {PREFERRED: [weighted(5, "rack")]},
            "nodeAffinity": {PREFERRED: [node_preference(3, "zone-a")]},
        },
        **spread(whenUnsatisfiable="ScheduleAnyway"),
    }
    found = [held(step) for step in steps(spec)]
    assert [len(near) for near, _, _, _ in found] == [2, 1, 0, 0, 0, 0]
    assert found[1][0] == [ZONE]
    assert [len(far) for _, far, _, _ in found] == [1, 1, 1, 0, 0, 0]
    assert ["zone-a" in nodes[0] for _, _, nodes, _ in found] == [True, True, True, True, False, False]
    assert [keys for _, _, _, keys in found] == [[ZONE]] * 5 + [[]]


def test_of_several_node_preferences_one_is_held_at_a_time_heaviest_first():
    spec = {"affinity": {"nodeAffinity": {PREFERRED: [node_preference(1, "zone-b"), node_preference(9, "zone-a")]}}}
    nodes = [held(step)[2] for step in steps(spec)]
    assert [("zone-a" in each[0], "zone-b" in each[0]) for each in nodes] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_requirements_are_never_dropped():
    spec = {
        "affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": SELECTS_WEB}]}},
        **spread(),
    }
    (only,) = steps(spec)
    assert held(only)[1] == [ZONE]
    assert held(only)[3] == [ZONE]


def test_with_preferences_ignored_only_requirements_count():
    spec = spread(whenUnsatisfiable="ScheduleAnyway")
    (only,) = steps(spec, respect_preferences=False)
    assert only.spread == ()


def test_soft_taints_are_tolerated_in_one_more_step_at_the_end():
    spec = spread(whenUnsatisfiable="ScheduleAnyway")
    assert [step.soft for step in steps(spec, soft_taints=True)] == [False, False, True]
    assert steps(spec, soft_taints=True)[-1].spread == ()


def test_preferences_are_sorted_by_weight():
    spec = pod(spec={"affinity": {"podAffinity": {PREFERRED: [weighted(1, ZONE), weighted(9, HOSTNAME)]}}}).spec
    assert [each.weight for each in preferences(spec).pod_affinity] == [9, 1]
