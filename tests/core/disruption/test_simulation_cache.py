"""Simulations that are kept from one pass to the next end with what they were made from."""

from dataclasses import replace

import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import LARGE, NOON, SMALL, pod
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import Planner
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.reason import Reason
from dovetail.settings import DecisionOptions

RECORD = write_record(CommandRecord(id="c1", reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=1))
LIMITED = free(template=ON_DEMAND, limits={"cpu": "8"})


def annotated(**annotations):
    """Two nodes of a pool at its limit; `a` could be replaced by a smaller one, `b` is full."""
    marks = {RECORD_ANNOTATION: annotations.get("record"), REPLACES_ANNOTATION: annotations.get("replaces")}
    written = {name: value for name, value in marks.items() if value is not None}
    first = worker("a", running("web", "a", cpu="1"), claim={"metadata": {"annotations": written}})
    return cluster(first, worker("b", running("db", "b", cpu="3500m")), pools=[LIMITED], types=(SMALL, LARGE))


def commands(planner, snapshot):
    return [str(each) for each in planner.plan(snapshot).commands]


@pytest.mark.parametrize("marks", [{"record": RECORD}, {"record": RECORD, "replaces": "c0"}], ids=str)
def test_a_command_that_is_taken_back_frees_the_limits_for_its_node(marks):
    planner, free_again = Planner(), annotated()
    assert commands(planner, annotated(**marks)) == []
    assert commands(planner, free_again) == commands(Planner(), free_again) != []


def replacing(*, under_way):
    """`new` was launched to replace `old`, which a daemon fills; `third` could be replaced by a smaller node."""
    record = {RECORD_ANNOTATION: RECORD} if under_way else {}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-agent"}
    daemon = pod("agent", "4", on="old", metadata={"ownerReferences": [owner]})
    old = worker("old", daemon, claim={"metadata": {"annotations": record}})
    replaces = {REPLACES_ANNOTATION: "c1"}
    new = worker("new", running("db", "new", cpu="3500m"), claim={"metadata": {"annotations": replaces}})
    pool = free(template=ON_DEMAND, limits={"cpu": "9"})
    third = worker("third", running("web", "third", cpu="1"))
    return cluster(old, new, third, pools=[pool], types=(SMALL, LARGE))


def test_a_node_and_its_replacement_both_count_once_the_command_is_taken_back():
    """Otherwise more is launched than the limit allows."""
    planner = Planner()
    before, after = (planner.plan(replacing(under_way=each), thorough=True) for each in (True, False))
    assert before.commands_by_method["single-node"]
    assert not after.commands_by_method["single-node"]


def test_a_simulation_that_respects_preferences_is_not_shared_with_a_pass_that_does_not():
    snapshot, kept = annotated(), SimulationCache()
    respectful = PassContext(snapshot, DecisionOptions(), simulations=kept).removal_simulation(consolidating=True)
    strict = PassContext(snapshot, replace(DecisionOptions(), respect_preferences=False), simulations=kept)
    assert strict.removal_simulation(consolidating=False) is not respectful
