"""What keeps a replacement from being launched: nodes that were launched before and have not initialized."""

from datetime import timedelta

from acceptance.fleet import cluster, drifted, free, planned, running, said, worker
from builders import HUGE, LARGE, SMALL
from dovetail.core import wording
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.command import REPLACES_ANNOTATION

HOUR = timedelta(hours=1)
NOT_YET = {"labels": {"karpenter.sh/initialized": "false"}, "conditions": {"Initialized": "Unknown"}}


def never(**fields):
    return [free(consolidateAfter="Never", **fields)]


def starting(name, *pods, **fields):
    """A node that has not initialized."""
    return worker(name, *pods, **NOT_YET, age=HOUR, **fields)


def replacing(command):
    return {"metadata": {"annotations": {REPLACES_ANNOTATION: command}}}


def test_pods_that_would_go_to_a_node_that_is_not_initialized_are_an_error_and_nothing_is_bought_for_them():
    pods = [running(f"p-{number}", "a") for number in range(3)]
    found = cluster(drifted("a", *pods), starting("b"), pools=never(), types=(LARGE,))
    assert planned(found) == []
    refusal = said(found, "drift", "a")
    assert (refusal.code, "node b" in wording.message(refusal)) == ("DestinationNotInitialized", True)


def test_one_such_pod_among_others_is_enough():
    pods = [running("small", "a", cpu="500m"), running("large", "a", cpu="3")]
    full = running("p-b", "b", cpu="3")
    found = cluster(drifted("a", *pods), starting("b", full), pools=never(), types=(LARGE,))
    assert said(found, "drift", "a").code == "DestinationNotInitialized"


def test_pods_that_fit_on_initialized_nodes_go_there():
    found = cluster(drifted("a", running("p", "a")), starting("b"), worker("c"), pools=never(), types=(LARGE,))
    assert planned(found) == [("drift", ["a"])]
    assert not plan_disruption(found).commands[0].replacements


def test_a_node_that_is_not_initialized_and_has_no_room_is_no_reason_to_wait():
    full = running("p-b", "b", cpu="3500m")
    found = cluster(drifted("a", running("p", "a", cpu="3")), starting("b", full), pools=never(), types=(LARGE,))
    assert len(plan_disruption(found).commands[0].replacements) == 1


def test_a_replacement_left_by_a_command_that_has_ended_stops_others_in_its_pool_even_without_room():
    full = running("p-b", "b", cpu="3500m")
    left = starting("b", full, claim=replacing("ended"))
    found = cluster(drifted("a", running("p", "a", cpu="3")), left, pools=never(), types=(LARGE,))
    refusal = said(found, "drift", "a")
    assert (refusal.code, "node b" in wording.message(refusal)) == ("ReplacementNotInitialized", True)
    assert planned(found) == []


def test_consolidation_waits_as_well():
    types = (SMALL, LARGE, HUGE)
    large = worker("a", running("p", "a"), type_="m.huge")
    pools = [free(consolidateAfter="0s")]
    assert planned(cluster(large, pools=pools, types=types)) == [("single-node", ["a"])]
    found = cluster(large, starting("b"), pools=pools, types=types)
    assert planned(found) == []
    assert said(found, "single-node", "a").code == "DestinationNotInitialized"


def test_asking_leaves_no_trace():
    """The question opens nodes that are closed to every other one: afterwards they are closed again."""
    found = cluster(drifted("a", running("p", "a")), starting("b"), pools=never(), types=(LARGE,))
    removal_simulation = PassContext(found).removal_simulation(consolidating=False)
    rows = [removal_simulation.row("a")]
    before = len(removal_simulation.remove_together(rows, Bounds(max_drafts=1)).drafts)
    assert removal_simulation.uninitialized_destination(rows, Bounds()).name == "b"
    assert len(removal_simulation.remove_together(rows, Bounds()).drafts) == before == 1
