"""Several nodes at once: none or one replacement, cheaper than all of them, never like for like."""

import pytest

from acceptance.fleet import ON_DEMAND, SPOT, cluster, free, planned, running, said, worker
from builders import HUGE, LARGE, SMALL, instance_type
from dovetail.core import wording
from dovetail.core.disruption.command import Decision
from dovetail.core.disruption.planner import plan_disruption
from dovetail.settings import DecisionOptions

GATE = DecisionOptions(spot_to_spot=True)
FIXED = [free(template=ON_DEMAND)]
MEDIUM = instance_type("m.medium", "8", "32Gi", 1.9)
NANO = instance_type("m.nano", "1", "4Gi", 0.1)


def thirds(kinds, cpu="2"):
    """Nodes of three CPUs' worth, each sold as told."""
    return [
        worker(name, running(f"p{name}", name, cpu=cpu), sold=kind) for name, kind in zip("abc", kinds, strict=True)
    ]


@pytest.mark.parametrize(
    ("kinds", "template"),
    [(["on-demand"] * 3, ON_DEMAND), (["spot"] * 3, SPOT), (["on-demand", "spot", "spot"], {})],
    ids=["on-demand", "spot", "mixed"],
)
def test_three_become_one(kinds, template):
    """Three of 3.5 CPUs need one of sixteen, which costs less than the three together."""
    cheap = instance_type("m.bargain", "16", "64Gi", 0.9)
    pools = [free(template=template)] if template else [free()]
    plan = plan_disruption(cluster(*thirds(kinds, "3500m"), pools=pools, types=(LARGE, cheap)), GATE)
    (command,) = plan.commands
    assert command.method == "multi-node"
    assert len(command.candidates) == 3
    assert len(command.replacements) == 1
    assert "m.bargain" in command.replacements[0].type_names
    assert command.saving > 0


def test_many_spot_nodes_need_no_fifteen_types_but_the_gate():
    cheap = instance_type("m.bargain", "16", "64Gi", 0.9)
    found = cluster(*thirds(["spot"] * 3, "3500m"), pools=[free(template=SPOT)], types=(LARGE, cheap))
    assert planned(found) == []
    assert planned(found, GATE) == [("multi-node", ["a", "b", "c"])]


def test_two_never_become_one_of_the_same_type():
    """Deleting one of them is the better move."""
    nodes = [worker(name, running(f"p{name}", name, cpu="1500m")) for name in "ab"]
    plan = plan_disruption(cluster(*nodes, pools=FIXED, types=(LARGE,)))
    (command,) = plan.commands
    assert (command.method, command.decision, len(command.candidates)) == ("single-node", Decision.DELETE, 1)


def test_what_is_both_taken_and_offered_caps_the_price():
    """Two larges and a small become nothing that costs as much as a small; with a nano on offer, only that."""
    nodes = [
        worker("a", running("x", "a", cpu="200m"), type_="m.large"),
        worker("b", running("y", "b", cpu="200m"), type_="m.large"),
        worker("c", running("z", "c", cpu="200m"), type_="m.small"),
    ]
    found = cluster(*nodes, pools=FIXED, types=(SMALL, LARGE, HUGE))
    for command in plan_disruption(found).commands:
        assert command.replacements == ()
    (command,) = plan_disruption(cluster(*nodes, pools=FIXED, types=(NANO, SMALL, LARGE))).commands
    assert len(command.candidates) == 3
    assert [choice.type.name for choice in command.replacements[0].choices] == ["m.nano"]


def test_three_empty_nodes_end_in_one_command_of_emptiness():
    assert planned(cluster(*map(worker, "abc"))) == [("emptiness", ["a", "b", "c"])]


def test_one_candidate_is_not_several():
    found = cluster(worker("a", running("x", "a")), pools=FIXED)
    assert planned(found) == [("single-node", ["a"])]


def test_the_longest_prefix_that_works_is_taken():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abcdefgh"]
    (command,) = plan_disruption(cluster(*nodes, pools=FIXED, types=(LARGE,))).commands
    assert command.method == "multi-node"
    assert len(command.candidates) == 6, "eight pods of one CPU fit on two nodes of four"


def test_candidates_of_several_pools_may_go_together():
    pools = [free("red", template=ON_DEMAND), free("blue", template=ON_DEMAND)]
    nodes = [
        worker(name, running(f"p{name}", name), pool=pool)
        for name, pool in zip("abcd", ["red", "blue"] * 2, strict=True)
    ]
    (command,) = plan_disruption(cluster(*nodes, pools=pools, types=(LARGE,))).commands
    assert {each.pool.name for each in command.candidates} == {"red", "blue"}


def test_never_more_than_one_replacement():
    """Six full nodes would need two mediums, however cheap."""
    cheap = instance_type("m.cheap", "7500m", "64Gi", 0.3)
    nodes = [worker(name, running(f"p{name}", name, cpu="3500m")) for name in "abcdef"]
    (command,) = plan_disruption(cluster(*nodes, pools=FIXED, types=(LARGE, cheap))).commands
    assert len(command.replacements) == 1
    assert MEDIUM.name not in command.replacements[0].type_names


def crowd(number):
    """So many small nodes, whose pods all fit on one large node that may not be disrupted."""
    large = worker("z", size=("100", "400Gi"), metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    names = [f"n{index:03}" for index in range(number)]
    return cluster(large, *(worker(name, running(f"p-{name}", name, cpu="100m"), type_="m.small") for name in names))


@pytest.mark.parametrize("number", [99, 100, 101])
def test_a_command_takes_at_most_a_hundred_nodes(number):
    (command,) = plan_disruption(crowd(number)).commands
    assert (command.method, len(command.candidates)) == ("multi-node", min(number, 100))


def test_the_nodes_beyond_a_hundred_wait_for_the_next_pass():
    refusal = said(crowd(101), "multi-node", "n100")
    assert (refusal.code, wording.message(refusal)) == (
        "NextPass",
        "multi-node consolidation considers 100 nodes a pass, and others come first",
    )


@pytest.mark.parametrize(("price", "replaced"), [(0.31, False), (0.3, False), (0.29, True)])
def test_several_nodes_are_not_replaced_by_one_that_costs_the_same(price, replaced):
    """0.1 + 0.2 is 0.30000000000000004 as a float, yet a node for 0.3 saves nothing."""
    types = (*(instance_type(f"m.{cents}", "2", "8Gi", cents / 100) for cents in (10, 20)),)
    one = instance_type("m.one", "8", "32Gi", price)
    nodes = [
        worker(name, running(f"p{name}", name, cpu="1700m"), type_=type_, size=("2", "8Gi"))
        for name, type_ in (("a", "m.10"), ("b", "m.20"))
    ]
    found = cluster(*nodes, pools=FIXED, types=(*types, one))
    assert bool(plan_disruption(found).commands_by_method["multi-node"]) is replaced
