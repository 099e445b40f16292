"""The Balanced policy: a move must save its pool at least half as large a share as it disrupts."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, planned, running, said, taken, worker
from acceptance.hearing import told
from builders import HUGE, LARGE, SMALL, instance_type, nodepool
from dovetail.core.disruption.balanced_policy import approves, score
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption

BALANCED = [free(consolidationPolicy="Balanced", template=ON_DEMAND)]


def command_of(*candidates, saving):
    """A command as far as the score looks at it."""
    return SimpleNamespace(candidates=candidates, saving=saving)


def share(pool, price, cost):
    return SimpleNamespace(pool=pool, price=price, cost=cost)


def pool_of(cost, disruption):
    """A context in which a Balanced pool costs and is worth that much."""
    pool = free(consolidationPolicy="Balanced")
    pods = tuple(running(f"p{each}", "a", cpu="1m") for each in range(disruption - 1))
    return pool, PassContext(cluster(worker("a", *pods), pools=[pool], types=(instance_type("m.large", price=cost),)))


@pytest.mark.parametrize(
    ("saving", "disruption", "expected"),
    [(20, 5, 4.0), (10, 10, 1.0), (5, 50, 0.1), (0, 10, 0.0), (-5, 10, 0.0)],
)
def test_the_scoring_table(saving, disruption, expected):
    """Of a pool that costs 100 and is worth 100."""
    pool, context = pool_of(100.0, 100)
    command = command_of(share(pool, 100.0, disruption), saving=saving)
    assert score(command, pool, context) == pytest.approx(expected)
    assert approves(command, context) is (expected >= 0.5)


@pytest.mark.parametrize(
    ("saving", "disruption", "worth", "expected", "approved"),
    [(7.26, 3, 80, 3.33, True), (4.84, 4, 80, 1.67, True), (2.42, 8, 80, 0.42, False), (4.84, 31, 107, 0.29, False)],
)
def test_the_worked_numbers(saving, disruption, worth, expected, approved):
    pool, context = pool_of(58.08, worth)
    command = command_of(share(pool, 58.08, disruption), saving=saving)
    assert round(score(command, pool, context), 2) == expected
    assert approves(command, context) is approved


def test_half_the_price_in_a_uniform_pool_is_just_enough():
    nodes = [worker(name, running(f"p{name}", name, cpu="1900m")) for name in "abcd"]
    plan = plan_disruption(cluster(*nodes, pools=BALANCED, types=(SMALL, LARGE)))
    assert plan.commands != ()


def test_the_whole_pool_deleted_scores_exactly_one():
    found = cluster(worker("a", running("x", "a")), pools=BALANCED)
    candidates, _ = PassContext(found).candidates(eventual=False)
    command = command_of(*candidates, saving=1.0)
    assert score(command, BALANCED[0], PassContext(found)) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_prices_in_another_currency_change_nothing(scale):
    types = tuple(
        instance_type(f"m.{name}", cpu, "16Gi", price * scale)
        for name, cpu, price in (("small", "2", 0.5), ("large", "4", 1.0))
    )
    nodes = [worker(name, running(f"p{name}", name, cpu="1900m")) for name in "abcd"]
    assert planned(cluster(*nodes, pools=BALANCED, types=types)) == planned(
        cluster(*nodes, pools=BALANCED, types=(SMALL, LARGE))
    )


def test_totals_include_nodes_with_an_unknown_price():
    found = cluster(worker("a"), worker("b", type_="x.gone"), pools=BALANCED)
    assert PassContext(found).pool_cost("default") == 1.0
    assert not math.isnan(PassContext(found).pool_cost("default"))


def test_a_command_without_price_is_rejected_and_other_policies_approve_of_everything():
    pool, context = pool_of(100.0, 100)
    assert not approves(command_of(share(pool, 0.0, 5), saving=0.0), context)
    assert approves(command_of(share(nodepool(), 0.0, 5), saving=0.0), context)


def test_savings_are_split_by_source_price_and_any_pool_may_veto():
    pools = [free(name, consolidationPolicy="Balanced", template=ON_DEMAND) for name in ("red", "blue")]
    crowd = [running(f"q{each}", "b", cpu="10m") for each in range(40)]
    quiet = [worker(f"c{each}", running(f"r{each}", f"c{each}"), pool="blue") for each in range(3)]
    found = cluster(worker("a", running("x", "a"), pool="red"), worker("b", *crowd, pool="blue"), *quiet, pools=pools)
    context = PassContext(found)
    by_name = {each.name: each for each in context.candidates(eventual=False)[0]}
    both = command_of(by_name["a"], by_name["b"], saving=1.0)
    assert score(both, pools[0], context) == pytest.approx(0.5)
    assert score(both, pools[1], context) < 0.5
    assert not approves(both, context)
    assert approves(command_of(by_name["a"], saving=1.0), context)


def test_the_price_of_the_source_is_what_its_offering_says_even_if_it_cannot_be_had():
    sold_out = replace(LARGE, offerings=tuple(replace(each, available=False) for each in LARGE.offerings))
    assert PassContext(cluster(worker("a"), types=(sold_out,))).pool_cost("default") == 1.0


def test_spot_prices_do_not_leak_into_a_pool_that_may_not_buy_it():
    plan = plan_disruption(cluster(worker("a", running("x", "a")), pools=BALANCED, types=(SMALL, LARGE)))
    assert plan.saving == pytest.approx(0.5)


def test_an_oversized_node_is_replaced_and_a_well_packed_one_kept():
    big = worker("a", running("x", "a"), type_="m.huge")
    assert taken(cluster(big, pools=BALANCED, types=(SMALL, LARGE, HUGE))) == ["a"]
    packed = worker("a", *[running(f"x{each}", "a", cpu="900m") for each in range(4)])
    assert taken(cluster(packed, pools=BALANCED, types=(SMALL, LARGE))) == []


def test_underutilised_nodes_are_merged():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abcd"]
    assert planned(cluster(*nodes, pools=BALANCED, types=(LARGE,))) == [("multi-node", ["a", "b", "c"])]


def test_saving_too_little_for_the_disruption_is_refused_and_said():
    """Many pods to move, little to save: fine without the policy, not with it."""
    slightly = instance_type("m.slightly", "4", "16Gi", 0.9)
    crowd = [running(f"x{each}", "a", cpu="180m", memory="100Mi") for each in range(20)]
    lonely = [worker(f"b{each}", running(f"y{each}", f"b{each}", cpu="3800m")) for each in range(9)]
    plain = cluster(
        worker("a", *crowd),
        *lonely,
        pools=[free(template=ON_DEMAND, budgets=[{"nodes": "1"}])],
        types=(LARGE, slightly),
    )
    assert taken(plain) != []
    careful = free(template=ON_DEMAND, budgets=[{"nodes": "1"}], consolidationPolicy="Balanced")
    found = cluster(worker("a", *crowd), pools=[careful], types=(LARGE, slightly))
    assert taken(found) == []
    assert said(found, "single-node", "a").code == "NotBalanced"


def test_a_budget_of_nothing_blocks_it_all_the_same():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abcd"]
    pools = [free(consolidationPolicy="Balanced", budgets=[{"nodes": "0%"}])]
    assert taken(cluster(*nodes, pools=pools, types=(LARGE,))) == []


def test_with_a_budget_of_one_the_empty_node_goes_first():
    pools = [free(consolidationPolicy="Balanced", budgets=[{"nodes": "1"}])]
    found = cluster(worker("a", running("x", "a")), worker("b"), pools=pools, types=(LARGE,))
    assert planned(found) == [("emptiness", ["b"])]


def test_delete_when_pods_fit_and_replace_otherwise():
    fits = plan_disruption(
        cluster(worker("a", running("x", "a")), worker("b", running("y", "b", cpu="3")), pools=BALANCED, types=(LARGE,))
    )
    assert [command.replacements for command in fits.commands] == [()]
    alone = plan_disruption(cluster(worker("a", running("x", "a")), pools=BALANCED, types=(SMALL, LARGE)))
    assert [len(command.replacements) for command in alone.commands] == [1]


def test_policies_coexist():
    pools = [*BALANCED, free("plain", template=ON_DEMAND), free("empty", consolidationPolicy="WhenEmpty")]
    nodes = [worker(pool, running(f"p{pool}", pool), pool=pool) for pool in ("default", "plain", "empty")]
    assert set(taken(cluster(*nodes, pools=pools, types=(LARGE,)))) == {"default", "plain"}


def test_emptiness_and_drift_are_never_scored():
    assert planned(cluster(worker("a"), pools=BALANCED)) == [("emptiness", ["a"])]
    crowd = [running(f"x{each}", "a", cpu="180m", memory="100Mi") for each in range(20)]
    assert planned(cluster(drifted("a", *crowd), pools=BALANCED, types=(LARGE,))) == [("drift", ["a"])]


def test_pools_of_a_move_that_approved_of_it_say_so_and_others_do_not():
    """Several nodes: on each Balanced pool. Pools of another policy are not scored, and what is rejected is silent."""
    red = free("red", consolidationPolicy="Balanced", template=ON_DEMAND)
    blue = free("blue", template=ON_DEMAND)
    nodes = [
        worker(name, running(f"x{name}", name), pool=pool, type_="m.huge")
        for name, pool in (("a", "red"), ("b", "red"), ("c", "blue"))
    ]
    heard = told(cluster(*nodes, pools=[red, blue]))
    approved = [
        each for each in heard.notices if each.reason == "ConsolidationApproved" and each.kind.name == "NodePool"
    ]
    assert {each.about.name for each in approved} == {"red"}
    assert ">= threshold 0.50" in approved[0].message

    crowded = worker("a", *[running(f"x{each}", "a", cpu="10m") for each in range(40)], type_="m.large")
    quiet = worker("b", running("y", "b", cpu="3"), type_="m.large")
    assert not told(cluster(crowded, quiet, pools=BALANCED)).said("ConsolidationApproved")
