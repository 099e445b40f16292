"""That a preference keeps a node from being consolidated is said when it is true, and only then."""

from acceptance.fleet import ON_DEMAND, cluster, free, pdb, running, worker
from builders import LARGE
from dovetail.core import wording
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_pass
from dovetail.core.disruption.preferred_nodes import find_preference_blockers
from dovetail.core.explain.node import explain_node
from dovetail.settings import DecisionOptions

WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
RULE = {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", **WEB}}
APART = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [RULE]}}}
SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", **WEB}
    ]
}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}
NEAR = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [ZONE]}}
            ]
        }
    }
}
POOLS = [free(template=ON_DEMAND)]


def web(name, on, spec=None, **fields):
    return running(name, on, metadata={"labels": {"app": "web"}}, spec=spec or {}, **fields)


def said(*nodes, gates=None, **fields):
    found = cluster(*nodes, pools=POOLS, types=(LARGE,), **fields)
    context = PassContext(found, gates or DecisionOptions())
    plan = plan_pass(context, thorough=True)
    return [
        wording.message(each.refusal)
        for each in find_preference_blockers(plan.refusals_by_method["single-node"], context)
    ]


def test_a_preferred_anti_affinity_that_keeps_two_nodes_is_named():
    nodes = worker("a", web("x", "a", APART)), worker("b", web("y", "b", APART))
    assert said(*nodes) == [
        "pod default/x has a preferred anti-affinity which prevents consolidation of node a",
        "pod default/y has a preferred anti-affinity which prevents consolidation of node b",
    ]


def test_so_is_a_preferred_spread():
    (first, _) = said(worker("a", web("x", "a", SPREAD)), worker("b", web("y", "b", SPREAD), zone="zone-b"))
    assert first == "pod default/x has a preferred topology spread which prevents consolidation of node a"


def test_no_blocker_is_found_where_a_preference_makes_no_difference():
    full = {"cpu": "3500m"}
    assert said(worker("a", web("x", "a", APART, **full)), worker("b", web("y", "b", APART, **full))) == []
    assert said(worker("a", web("x", "a", NEAR, **full)), worker("b", web("y", "b", NEAR, **full))) == []


def test_no_blocker_is_found_where_another_obstacle_keeps_the_node():
    nodes = worker("a", web("x", "a", APART)), worker("b", web("y", "b", APART))
    assert said(*nodes, pdbs=[pdb()]) == []


def test_no_blocker_is_found_where_preferences_are_ignored():
    nodes = worker("a", web("x", "a", APART)), worker("b", web("y", "b", APART))
    assert said(*nodes, gates=DecisionOptions(respect_preferences=False)) == []


def test_an_explanation_names_it_beside_what_the_simulation_says():
    found = cluster(worker("a", web("x", "a", APART)), worker("b", web("y", "b", APART)), pools=POOLS, types=(LARGE,))
    views = {view.method: view for view in explain_node(found.nodes[0], PassContext(found)).methods}
    assert [each.code for each in views["single-node"].obstacles] == ["Unschedulable", "Preference"]
