"""Consolidation by replacement: cheaper for sure, or not at all."""

from dataclasses import replace

import pytest

from acceptance.fleet import ON_DEMAND, SPOT, cluster, free, planned, running, said, shielded, taken, worker
from builders import HUGE, LARGE, SMALL, ZONES, instance_type
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.catalog import Offering
from dovetail.model.labels import CAPACITY_TYPE, ZONE
from dovetail.model.requirements import Requirement, Requirements
from dovetail.settings import DecisionOptions

GATE = DecisionOptions(spot_to_spot=True)
FIXED = [free(template=ON_DEMAND)]
SPOTS = [free(template=SPOT)]


def sold(name, cpu, prices):
    """A type with its own price for each (zone, capacity type)."""
    base = instance_type(name, cpu, "64Gi")
    offerings = tuple(
        Offering(
            Requirements.of([Requirement.of(ZONE, "In", [zone]), Requirement.of(CAPACITY_TYPE, "In", [kind])]), price
        )
        for (zone, kind), price in prices.items()
    )
    kinds = Requirement.of(CAPACITY_TYPE, "In", sorted({kind for _, kind in prices}))
    wanted = [kinds if key == CAPACITY_TYPE else requirement for key, requirement in base.requirements.items()]
    return replace(base, requirements=Requirements.of(wanted), offerings=offerings)


def preference_levels(number, first=0.01):
    """That many types, each a little dearer than the one before, all cheaper than m.large as spot."""
    return tuple(instance_type(f"t{each:02}", "4", "16Gi", first + each * 0.01) for each in range(number))


def options(found, *arguments):
    (command,) = plan_disruption(found, *arguments).commands
    (draft,) = command.replacements
    return [choice.type.name for choice in draft.choices]


def test_an_oversized_on_demand_node_is_replaced():
    found = cluster(worker("a", running("x", "a")), pools=FIXED)
    assert planned(found) == [("single-node", ["a"])]
    assert options(found) == ["m.small"]


def test_an_oversized_spot_node_is_replaced_behind_the_gate_with_fifteen_cheaper_types():
    found = cluster(worker("a", running("x", "a"), sold="spot"), pools=SPOTS, types=(LARGE, *preference_levels(15)))
    assert planned(found, GATE) == [("single-node", ["a"])]


def test_spot_to_spot_with_fourteen_cheaper_types_stays_and_says_so():
    found = cluster(worker("a", running("x", "a"), sold="spot"), pools=SPOTS, types=(LARGE, *preference_levels(14)))
    assert taken(found, GATE) == []
    refusal = said(found, "single-node", "a", GATE)
    assert wording.message(refusal) == (
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, "
        "got 14"
    )


def test_spot_to_spot_without_the_gate_stays_and_says_so():
    found = cluster(worker("a", running("x", "a"), sold="spot"), pools=SPOTS, types=(LARGE, *preference_levels(20)))
    assert taken(found) == []
    refusal = said(found, "single-node", "a")
    assert refusal.code == "CantReplace"
    assert wording.message(refusal) == "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"


def test_a_node_that_already_is_among_the_fifteen_cheapest_stays():
    types = preference_levels(30)
    held = worker("a", running("x", "a"), sold="spot", type_="t10")
    assert taken(cluster(held, pools=SPOTS, types=types), GATE) == []


def test_the_launch_list_is_the_fifteen_cheapest_by_price():
    types = tuple(reversed(preference_levels(30)))
    found = cluster(worker("a", running("x", "a"), sold="spot"), pools=SPOTS, types=(LARGE, *types))
    assert options(found, GATE) == [f"t{each:02}" for each in range(15)]


def diverse(number, capacity):
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": number}
    return [free(template={"requirements": [*capacity["requirements"], requirement]})]


@pytest.mark.parametrize(("least", "length"), [(5, 15), (20, 20)])
def test_min_values_stretch_the_launch_list_only_as_far_as_they_must(least, length):
    found = cluster(
        worker("a", running("x", "a"), sold="spot"), pools=diverse(least, SPOT), types=(LARGE, *preference_levels(30))
    )
    assert len(options(found, GATE)) == length


@pytest.mark.parametrize(("capacity", "how"), [(ON_DEMAND, "on-demand"), (SPOT, "spot")], ids=["on-demand", "spot"])
def test_a_price_that_leaves_too_few_values_keeps_the_node(capacity, how):
    """Enough types without looking at the price, too few that are cheaper."""
    types = (LARGE, *preference_levels(16), *preference_levels(10, first=9.0))
    held = worker("a", running("x", "a"), sold=how)
    unique = tuple({each.name: each for each in reversed(types)}.values())
    assert taken(cluster(held, pools=diverse(20, capacity), types=unique), GATE) == []


def test_the_same_type_rule_and_min_values_together_do_not_crash():
    nodes = [worker(name, running(f"p{name}", name, cpu="3")) for name in "abc"]
    assert taken(cluster(*nodes, pools=diverse(3, ON_DEMAND), types=(SMALL, LARGE, HUGE))) == []


def test_another_pool_with_nothing_to_sell_does_not_matter():
    found = cluster(worker("a", running("x", "a")), pools=[*FIXED, free("bare")])
    bare = replace(found, catalogs={**found.catalogs, "bare": ()})
    missing = replace(found, catalogs={"default": found.catalogs["default"]})
    assert taken(bare) == taken(missing) == ["a"]


@pytest.mark.parametrize("kind", ["on-demand", "spot"])
def test_a_replacement_whose_dearest_zone_costs_too_much_is_none(kind):
    small = sold("m.small", "2", {(ZONES[0], kind): 0.1, (ZONES[1], kind): 1.5})
    pools = FIXED if kind == "on-demand" else [free()]
    assert taken(cluster(worker("a", running("x", "a")), pools=pools, types=(LARGE_FIXED, small))) == []


LARGE_FIXED = sold("m.large", "4", {(ZONES[0], "on-demand"): 1.0})


def test_cheap_spot_that_the_pool_forbids_does_not_count():
    small = sold("m.small", "2", {(ZONES[0], "on-demand"): 1.2, (ZONES[0], "spot"): 0.1})
    assert taken(cluster(worker("a", running("x", "a")), pools=FIXED, types=(LARGE, small))) == []


def test_equal_price_is_not_cheaper():
    equivalent = instance_type("m.twin", "4", "16Gi", 1.0)
    assert taken(cluster(worker("a", running("x", "a")), pools=FIXED, types=(LARGE, equivalent))) == []


def test_where_both_are_allowed_the_replacement_is_spot_only():
    """A shortage of spot then fails the launch instead of buying dearer on-demand."""
    (command,) = plan_disruption(cluster(worker("a", running("x", "a")))).commands
    assert command.replacements[0].requirements.labels()[CAPACITY_TYPE] == "spot"


def test_a_node_with_an_unknown_price_may_be_deleted_but_is_not_replaced():
    """Zone z is sold nowhere; the other node is held, so that only this one is in question."""
    drift_off = DecisionOptions(drift=False)
    unknown = worker("a", running("x", "a"), zone="zone-z")
    assert taken(cluster(unknown, pools=FIXED, types=(LARGE, SMALL)), drift_off) == []
    held = worker("b", shielded("y", "b"))
    plan = plan_disruption(cluster(unknown, held, pools=FIXED, types=(LARGE, SMALL)), drift_off)
    assert [(command.method, command.replacements) for command in plan.commands] == [("single-node", ())]


def test_spot_that_costs_more_than_the_node_does_not_hide_cheaper_on_demand():
    prices = {(ZONES[0], "on-demand"): 0.5, (ZONES[0], "spot"): 1.2}
    found = cluster(worker("a", running("x", "a")), types=(LARGE_FIXED, sold("m.small", "2", prices)))
    (command,) = plan_disruption(found).commands
    assert command.replacements[0].requirements.labels()[CAPACITY_TYPE] == "on-demand"


@pytest.mark.parametrize("was", ["on-demand", "spot"])
def test_reserved_of_the_same_type_replaces_what_is_paid_by_the_hour(was):
    prices = {(ZONES[0], "on-demand"): 1.0, (ZONES[0], "spot"): 0.4, (ZONES[0], "reserved"): 0.001}
    large = sold("m.large", "4", prices)
    found = cluster(worker("a", running("x", "a", cpu="3"), sold=was), types=(large,))
    (command,) = plan_disruption(found, GATE).commands
    assert command.replacements[0].requirements.labels()[CAPACITY_TYPE] == "reserved"


def test_the_zone_of_a_spread_is_kept_by_the_replacement():
    spread = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    }
    label = {"labels": {"app": "web"}}
    full = {"cpu": "3500m", "spec": spread, "metadata": label}
    found = cluster(
        worker("a", running("x", "a", spec=spread, metadata=label), zone="zone-a"),
        worker(
            "b", running("y", "b", **full), running("z", "b", cpu="400m", spec=spread, metadata=label), zone="zone-b"
        ),
        pools=FIXED,
    )
    (command,) = plan_disruption(found).commands
    assert [each.name for each in command.candidates] == ["a"]
    assert command.replacements[0].possible(ZONE) == ("zone-a",)


@pytest.mark.parametrize(
    "gates",
    [DecisionOptions(), DecisionOptions(respect_preferences=False)],
    ids=["respected", "ignored"],
)
def test_preferences_count_unless_they_are_to_be_ignored(gates):
    soft = {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                        },
                    }
                ]
            }
        }
    }
    pods = [running(f"p{name}", name, spec=soft, metadata={"labels": {"app": "web"}}) for name in "ab"]
    nodes = [worker(name, each) for name, each in zip("ab", pods, strict=True)]
    found = cluster(*nodes, pools=FIXED, types=(LARGE,))
    assert bool(taken(found, gates)) is not gates.respect_preferences
