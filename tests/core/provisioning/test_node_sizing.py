"""Nodes that are chosen by price for many pods together."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import HUGE, LARGE, SMALL, daemon_set, instance_type, node, nodepool, pod, snapshot
from dovetail.core.provisioning import node_sizing, pod_classes
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.solver import ProposedNode, place_all
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.snapshot import ClusterNode
from dovetail.settings import DecisionOptions

BARGAIN = instance_type("t.medium", "2", "4Gi", 0.2)
TYPES = (SMALL, LARGE, HUGE, BARGAIN)
ON_DEMAND = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
ONE_BY_ONE = DecisionOptions(sizes_by_price=False)


def pool(name="default", *requirements, **spec):
    return nodepool(name, template={"requirements": [ON_DEMAND, *requirements], **spec.pop("template", {})}, **spec)


def pods(number=20, cpu="1", memory="1Gi", **fields):
    return [pod(f"web-{n:03}", cpu, memory, **fields) for n in range(number)]


def place(waiting, pools=None, types=TYPES, nodes=(), daemon_sets=()):
    """The placement one by one, and by price."""
    pools = pools or [pool()]
    state = snapshot(waiting, nodes, pools, types, daemon_sets)
    each = place_all(Problem(state, waiting, pools), respect_preferences=True)
    return each, node_sizing.place_by_price(Problem(state, waiting, pools), respect_preferences=True)


def cost(placement):
    return sum(map(cheapest, placement.drafts))


def types_of(claim):
    return next(each.values for each in claim.spec.requirements if each.key == INSTANCE_TYPE)


def test_many_small_nodes_are_launched_where_they_cost_less_than_few_large_ones():
    each, by_price = place(pods())
    assert (len(each.drafts), cost(each)) == (2, pytest.approx(5.0))
    assert (len(by_price.drafts), cost(by_price)) == (10, pytest.approx(2.0))


def test_the_claim_lists_every_type_that_holds_its_pods():
    plan = plan_provisioning(snapshot(pods(), pools=[pool()], types=TYPES))
    assert {types_of(launch.claim) for launch in plan.launches} == {("t.medium", "m.small", "m.large", "m.huge")}
    assert sorted(each.key for launch in plan.launches for each in launch.pods) == sorted(each.key for each in pods())


def test_one_by_one_is_a_setting():
    plan = plan_provisioning(snapshot(pods(), pools=[pool()], types=TYPES), ONE_BY_ONE)
    assert len(plan.launches) == 2


def test_without_the_solver_pods_are_placed_one_by_one(monkeypatch):
    monkeypatch.setattr(node_sizing, "WITHOUT_HIGHS", "not installed")
    each, by_price = place(pods())
    assert cost(by_price) == cost(each)


def test_few_pods_are_placed_one_by_one():
    each, by_price = place(pods(node_sizing.LEAST_PODS - 1, cpu="2"))
    assert cost(by_price) == cost(each)


def test_pods_that_share_one_node_stay_there():
    each, by_price = place(pods(16))
    assert cost(by_price) == cost(each) == pytest.approx(4.0)


def test_daemon_pods_count_on_every_node():
    """With an agent of half a core, the small type holds one pod instead of two, and still costs least."""
    _, by_price = place(pods(), daemon_sets=[daemon_set(cpu="500m")])
    assert (len(by_price.drafts), cost(by_price)) == (20, pytest.approx(4.0))
    _, by_price = place(pods(), daemon_sets=[daemon_set(cpu="1500m")])
    assert cost(by_price) == pytest.approx(8.0), "two of the largest type"


def test_existing_nodes_are_filled_first():
    free = ClusterNode(node(cpu="4"), None)
    _, by_price = place(pods(36), nodes=[free])
    assert len(by_price.node_by_pod) == 4
    assert cost(by_price) == pytest.approx(16 * 0.2)


def test_min_values_hold():
    flexible = pool("default", {"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 3})
    plan = plan_provisioning(snapshot(pods(40), pools=[flexible], types=TYPES))
    assert all(len(types_of(launch.claim)) >= 3 for launch in plan.launches)
    assert len(plan.launches) == 20


def test_pods_that_no_offer_holds_together_with_min_values_do_not_keep_others_from_being_sized():
    """Only the largest type holds 14 cores, and the NodePool demands two types."""
    flexible = pool("default", {"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 2})
    each, by_price = place([*pods(40), pod("large", "14")], pools=[flexible])
    assert [*by_price.refusals] == [*each.refusals]
    assert len(by_price.drafts) == 20


def test_limits_hold():
    _, by_price = place(pods(), pools=[pool(limits={"cpu": "40"})])
    assert not by_price.refusals
    sizes = [max(each.capacity["cpu"].units for each in (c.type for c in draft.choices)) for draft in by_price.drafts]
    assert sum(sizes) <= 40


def test_the_heavier_pool_launches_the_nodes_even_if_another_is_cheaper():
    family = {"key": INSTANCE_TYPE, "operator": "In", "values": ["m.small", "m.large", "m.huge"]}
    heavy, light = pool("heavy", family, weight=10), pool("light")
    _, by_price = place(pods(), pools=[heavy, light])
    assert {each.pool_name for each in by_price.drafts} == {"heavy"}


def test_node_selectors_hold():
    """Pods of either zone and pods of both share nodes only where the zone is the same."""
    apart = [
        *pods(10, spec={"nodeSelector": {ZONE: "zone-a"}}),
        *[pod(f"b-{n}", spec={"nodeSelector": {ZONE: "zone-b"}}) for n in range(10)],
        *[pod(f"c-{n}") for n in range(11)],
    ]
    _, by_price = place(apart)
    assert not by_price.refusals
    assert cost(by_price) == pytest.approx(16 * 0.2)
    for draft in by_price.drafts:
        assert len({each.spec.node_selector[ZONE] for each in draft.pods if each.spec.node_selector}) <= 1


SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "spread"}},
}


def spread(number):
    labels = {"labels": {"app": "spread"}}
    fields = [
        {"spec": {"topologySpreadConstraints": [SPREAD]}, "metadata": {**labels, "uid": f"s{n}"}} for n in range(number)
    ]
    return [pod(f"spread-{n}", "1", "1Gi", **each) for n, each in enumerate(fields)]


def test_pods_with_topology_rules_join_the_chosen_nodes():
    each, by_price = place([*pods(), *spread(4)])
    assert not by_price.refusals
    assert cost(by_price) < cost(each)
    zones = [draft.possible(ZONE) for draft in by_price.drafts for each in draft.pods if each.metadata.labels]
    assert sorted(zones) == [("zone-a",), ("zone-a",), ("zone-b",), ("zone-b",)]


def test_where_most_pods_have_topology_rules_the_nodes_are_not_chosen():
    each, by_price = place([*pods(10), *spread(11)])
    assert cost(by_price) == cost(each)


def test_a_proposed_node_that_no_type_holds_is_not_opened():
    waiting = pods(3, cpu="8")
    pools = [pool()]
    problem = Problem(snapshot(waiting, pools=pools, types=TYPES), waiting, pools)
    proposed = ProposedNode(problem.type_tables[0], problem.pods_to_reschedule)
    placed = place_all(problem, respect_preferences=True, proposed=[proposed])
    assert not placed.refusals
    assert len(placed.drafts) == 2


def test_requests_are_rounded_up_where_there_are_too_many_classes(monkeypatch):
    monkeypatch.setattr(pod_classes, "MOST_CLASSES", 4)
    waiting = [pod(f"p{n:03}", f"{500 + n}m", "512Mi") for n in range(60)]
    each, by_price = place(waiting)
    assert not by_price.refusals
    assert cost(by_price) < cost(each)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([250, 500, 1000, 1900, 3000]), st.sampled_from([256, 1024, 4096]), st.booleans()),
        min_size=10,
        max_size=60,
    )
)
def test_by_price_places_the_same_pods_and_never_costs_more(sizes):
    bound = {"nodeSelector": {ZONE: "zone-b"}}
    waiting = [
        pod(f"p{n:03}", f"{cpu}m", f"{memory}Mi", spec=bound if zonal else {})
        for n, (cpu, memory, zonal) in enumerate(sizes)
    ]
    each, by_price = place(waiting)
    assert by_price.refusals.keys() == each.refusals.keys()
    assert cost(by_price) <= cost(each) + 1e-9
    placed = [*by_price.node_by_pod, *(key for draft in by_price.drafts for key in draft.pod_keys)]
    assert sorted(placed) == sorted(each.key for each in waiting)


def test_pods_that_others_keep_out_of_a_zone_are_not_proposed_for_it():
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    lonely = ClusterNode(node("node-1", cpu="1"), None, (pod("lonely", on="node-1", spec=apart),))
    waiting = [pod(f"web-{n:03}", metadata={"labels": {"app": "web"}}) for n in range(20)]
    _, by_price = place(waiting, nodes=[lonely])
    assert {draft.possible(ZONE) for draft in by_price.drafts} == {("zone-b",)}


def test_chosen_nodes_that_cost_more_are_not_used(monkeypatch):
    """The bargain is left out, so single pods need half a small node each."""
    singles = [[1]] * 20
    monkeypatch.setattr(pod_classes, "cheapest_nodes", lambda _packing, _known: iter(singles))
    each, by_price = place(pods(), types=(SMALL, LARGE, HUGE))
    assert (len(by_price.drafts), cost(by_price)) == (len(each.drafts), cost(each))
