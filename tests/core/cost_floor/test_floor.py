"""The floor under any cluster: worked by hand, against the whole program, and against what was really bought."""

from dataclasses import replace

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import HUGE, LARGE, SMALL, TYPES, claim, daemon_set, instance_type, node, nodepool, pod, snapshot
from dovetail.core.cost_floor.floor import Floor, lower_bound
from dovetail.core.cost_floor.linear_program import BoundUnavailable, LinearProgram
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.solver import solve
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.snapshot import ClusterNode

ON_DEMAND = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]}
DEDICATED = [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}]


def floor(*pods, pools=None, types=TYPES):
    pools = pools or [nodepool(template=ON_DEMAND)]
    return Floor({each.name: each for each in pools}, {each.name: types for each in pools}).of(pods)


def test_half_a_machine_costs_half_its_price():
    assert floor(pod("a", cpu="2", memory="1Gi"), types=(LARGE,)) == pytest.approx(0.5)


def test_the_resource_that_runs_out_first_decides():
    assert floor(pod("a", cpu="1", memory="12Gi"), types=(LARGE,)) == pytest.approx(0.75)


def test_pods_that_complement_each_other_share_a_machine():
    """One is all cpu, the other all memory: together they fill what each alone would pay for."""
    both = pod("a", cpu="4", memory="0"), pod("b", cpu="0", memory="16Gi")
    assert floor(*both, types=(LARGE,)) == pytest.approx(1.0)
    apart = replace(LARGE, name="m.other")
    assert floor(*both, types=(LARGE, apart)) == pytest.approx(1.0)


def test_spot_counts_where_the_pool_may_buy_it():
    assert floor(pod("a", cpu="4"), pools=[nodepool()], types=(LARGE,)) == pytest.approx(0.4)


def test_a_pod_is_only_where_it_may_be():
    cheap = pod("a", cpu="4")
    bound = pod("b", cpu="4", spec={"nodeSelector": {CAPACITY_TYPE: "on-demand"}})
    term = {"matchExpressions": [{"key": CAPACITY_TYPE, "operator": "NotIn", "values": ["spot"]}]}
    affine = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    also = pod("c", cpu="4", spec={"affinity": affine})
    assert floor(cheap, bound, also, pools=[nodepool()], types=(LARGE,)) == pytest.approx(0.4 + 1 + 1)


def test_taints_keep_out_who_does_not_tolerate_them():
    pools = [nodepool("cheap", template={"taints": DEDICATED}), nodepool("dear", template=ON_DEMAND)]
    tolerant = pod("a", cpu="4", spec={"tolerations": [{"key": "dedicated", "operator": "Exists"}]})
    assert floor(pod("b", cpu="4"), tolerant, pools=pools, types=(LARGE,)) == pytest.approx(1 + 0.4)


def test_a_machine_that_is_too_small_holds_no_part_of_a_pod():
    dear = instance_type("m.dear", "16", "64Gi", 40.0)
    assert floor(pod("a", cpu="8"), types=(LARGE, dear)) == pytest.approx(20.0)


def test_what_fits_nowhere_costs_nothing_and_daemons_come_with_the_node():
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon = pod("d", cpu="2", metadata={"ownerReferences": [owner]})
    over = pod("o", cpu="2", status={"phase": "Succeeded"})
    assert floor(pod("a", cpu="100"), daemon, over) == 0
    assert floor(pod("a", cpu="100"), pod("b", cpu="2", memory="1Gi"), types=(LARGE,)) == pytest.approx(0.5)
    assert floor() == 0
    assert floor(pod("a"), types=()) == 0


def running(name, *pods, managed=True, **labels):
    made = claim(name, labels=labels, status={"providerID": f"kwok://{name}"}) if managed else None
    return ClusterNode(node=node(name, labels=labels), claim=made, pods=pods)


def test_pods_on_nodes_of_others_cost_us_nothing():
    ours, theirs = running("a", pod("a", cpu="2", memory="1Gi")), running("b", pod("b", cpu="2"), managed=False)
    found = snapshot(nodes=[ours, theirs], pools=[nodepool(template=ON_DEMAND)], types=(LARGE,))
    assert lower_bound(found) == pytest.approx(0.5)


def test_what_is_sold_out_counts_only_for_those_who_have_it():
    """A node bought at the cheap price goes on at it: leaving that out would call a real cluster impossible."""
    sold_out = replace(SMALL, offerings=tuple(replace(each, available=False) for each in SMALL.offerings))
    types, on = (sold_out, HUGE), {INSTANCE_TYPE: "m.small", ZONE: "zone-a", CAPACITY_TYPE: "spot"}
    there, elsewhere = (
        snapshot(nodes=[running("a", pod("a", cpu="2", memory="1Gi"), **labels)], pools=[nodepool()], types=types)
        for labels in (on, {})
    )
    assert lower_bound(there) == pytest.approx(0.5 * 0.4)
    assert lower_bound(elsewhere) == pytest.approx(4 * 0.4 / 8)


def test_what_a_pool_no_longer_buys_counts_only_for_those_who_have_it():
    """Spot is cheaper than what the pool was changed to: a cluster that still has some is not below its floor."""
    on = {INSTANCE_TYPE: "m.small", ZONE: "zone-a", CAPACITY_TYPE: "spot"}
    there, elsewhere = (
        snapshot(
            nodes=[running("a", pod("a", cpu="2", memory="1Gi"), **labels)],
            pools=[nodepool(template=ON_DEMAND)],
            types=(SMALL,),
        )
        for labels in (on, {})
    )
    spot, on_demand = (
        min(each.price for each in SMALL.offerings if each.capacity_type == kind) for kind in ("spot", "on-demand")
    )
    assert lower_bound(there) == pytest.approx(spot * lower_bound(elsewhere) / on_demand)
    assert lower_bound(there) < lower_bound(elsewhere)


def whole(counts, needs, sizes, prices, allowed):
    """Every pair of pod and offer in one program, written down as one reads it."""
    solver = highspy.Highs()
    solver.silent()
    bought = solver.addVariables(len(prices), obj=list(prices))
    placed = {tuple(pair): solver.addVariable() for pair in np.argwhere(allowed)}
    for kind, number in enumerate(counts):
        solver.addConstr(sum(value for (k, _), value in placed.items() if k == kind) == number)
    for offer, size in enumerate(sizes):
        on = [(kind, value) for (kind, o), value in placed.items() if o == offer]
        for resource, amount in enumerate(size):
            taken = sum(float(needs[kind][resource]) * value for kind, value in on)
            solver.addConstr(taken - float(amount) * bought[offer] <= 0)
    solver.minimize()
    return solver.getObjectiveValue()


number = st.integers(1, 12)


@settings(max_examples=60)
@given(st.data())
def test_adding_pairs_as_needed_gives_the_optimum_of_all_pairs(data):
    kinds, offers = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 9))
    allowed = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=offers, max_size=offers), min_size=kinds, max_size=kinds))
    )
    allowed[:, 0] = True
    given_ = {
        "needs": np.array(data.draw(st.lists(st.tuples(number, number, st.just(1)), min_size=kinds, max_size=kinds)))
        / 4,
        "sizes": np.array(
            data.draw(st.lists(st.tuples(number, number, number), min_size=offers, max_size=offers)), dtype=float
        ),
        "prices": np.array(data.draw(st.lists(number, min_size=offers, max_size=offers)), dtype=float) / 3,
    }
    program = LinearProgram(**given_, allowed=allowed)
    for counts in data.draw(st.lists(st.lists(number, min_size=kinds, max_size=kinds), min_size=1, max_size=4)):
        expected = whole(counts, **given_, allowed=allowed)
        assert program.least(np.array(counts, dtype=float)) == pytest.approx(expected, rel=1e-7)


SELECTORS = (
    {},
    {CAPACITY_TYPE: "spot"},
    {CAPACITY_TYPE: "on-demand"},
    {INSTANCE_TYPE: "m.large"},
    {"role": "dedicated"},
)
cpus = st.sampled_from(["250m", "1", "1500m", "3", "7"])
memories = st.sampled_from(["256Mi", "1Gi", "6Gi", "20Gi"])
asked = st.lists(st.tuples(cpus, memories, st.sampled_from(SELECTORS)), min_size=1, max_size=9)
priced = st.lists(st.tuples(st.sampled_from([2, 4, 8, 16]), st.sampled_from([1, 4, 8]), number), min_size=1, max_size=5)


def made(asked_for, sold):
    pods = [
        pod(f"p{at}", cpu, memory, spec={"nodeSelector": selector})
        for at, (cpu, memory, selector) in enumerate(asked_for)
    ]
    types = tuple(
        instance_type(f"m.{at}" if at else "m.large", str(cpu), f"{cpu * ratio}Gi", price / 5)
        for at, (cpu, ratio, price) in enumerate(sold)
    )
    pools = [nodepool(), nodepool("dedicated", template=ON_DEMAND, template_metadata={"labels": {"role": "dedicated"}})]
    return pods, types, pools


@settings(max_examples=60)
@given(asked, priced)
def test_leaving_out_offers_nobody_needs_changes_nothing(asked_for, sold):
    """All pods one by one on all offers of all pools, nothing grouped and nothing left out."""
    pods, types, pools = made(asked_for, sold)
    source = Floor({each.name: each for each in pools}, {each.name: types for each in pools})
    needs = np.array([source._kind(each)[0] for each in pods])
    sizes = source._sizes
    allowed = np.array([source._admitted[source._kind(each)[1]] for each in pods])
    allowed &= (sizes[None] >= needs[:, None]).all(axis=2)
    some = allowed.any(axis=1)
    expected = whole(np.ones(some.sum()), needs[some], sizes, source._price, allowed[some]) if some.any() else 0.0
    assert source.of(pods) == pytest.approx(expected, rel=1e-7)


@settings(max_examples=60)
@given(asked, priced)
def test_no_placement_is_cheaper_than_the_floor(asked_for, sold):
    pods, types, pools = made(asked_for, sold)
    found = snapshot(pods, pools=pools, types=types, daemon_sets=[daemon_set()])
    placement = solve(found, pods, usable_pools(found))
    placed = [each for draft in placement.drafts for each in draft.pods]
    cost = sum(cheapest(draft) for draft in placement.drafts)
    assert floor(*placed, pools=pools, types=types) <= cost + 1e-9


def test_a_solver_that_gives_up_is_told():
    program = LinearProgram(
        needs=np.ones((1, 3)),
        sizes=np.ones((1, 3)),
        prices=np.ones(1),
        allowed=np.ones((1, 1), dtype=bool),
    )
    with pytest.raises(BoundUnavailable):
        program.least(np.array([np.nan]))
