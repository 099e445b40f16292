"""Simulations that are kept from one pass to the next end with what they were made from."""

from dataclasses import replace

import msgspec
import pytest

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import LARGE, NOON, SMALL, pod
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import Planner
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.reason import Reason
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode
from dovetail.model.unreadable_objects import UnreadableEntry
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


def replacing(*, under_way, replaces=True):
    """`new` was launched to replace `old`, which a daemon fills; `third` could be replaced by a smaller node."""
    record = {RECORD_ANNOTATION: RECORD} if under_way else {}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-agent"}
    daemon = pod("agent", "4", on="old", metadata={"ownerReferences": [owner]})
    old = worker("old", daemon, claim={"metadata": {"annotations": record}})
    marks = {REPLACES_ANNOTATION: "c1"} if replaces else {}
    new = worker("new", running("db", "new", cpu="3500m"), claim={"metadata": {"annotations": marks}})
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


def beside(capacity):
    """A pool at its limit of 8 cores; `a` could be replaced by a smaller node while `b` leaves room for that."""
    amounts = {"cpu": capacity, "memory": "16Gi", "pods": "110"}
    first = worker("a", running("web", "a", cpu="1"))
    second = worker("b", running("db", "b", cpu="3500m"))
    status = msgspec.structs.replace(
        second.node.status, capacity={name: Quantity.parse(amount) for name, amount in amounts.items()}
    )
    second = replace(second, node=msgspec.structs.replace(second.node, status=status))
    return cluster(first, second, pools=[LIMITED], types=(SMALL, LARGE))


def test_the_capacity_of_a_node_counts_against_the_limits():
    planner = Planner()
    assert commands(planner, beside("4"))
    assert not commands(planner, beside("8"))
    assert commands(planner, beside("4"))


def test_a_kept_simulation_that_respects_preferences_does_not_follow_to_a_pass_that_does_not():
    """The later snapshot is comparable in everything else."""
    kept = SimulationCache()
    first = PassContext(annotated(), DecisionOptions(), simulations=kept).removal_simulation(consolidating=True)
    assert PassContext(annotated(), DecisionOptions(), simulations=kept).removal_simulation(consolidating=True) is first
    strict = PassContext(annotated(), replace(DecisionOptions(), respect_preferences=False), simulations=kept)
    assert strict.removal_simulation(consolidating=True) is not first


def thoroughly(planner, snapshot):
    """Everything each method says."""
    plan = planner.plan(snapshot, thorough=True)
    said = {name: sorted(map(str, refusals)) for name, refusals in plan.refusals_by_method.items()}
    return said, {name: list(map(str, made)) for name, made in plan.commands_by_method.items()}


A, B = worker("a", running("web", "a", cpu="1")), worker("b", running("db", "b", cpu="1"))
PAIR = cluster(A, B, pools=[free(template=ON_DEMAND)])
PICKY = cluster(
    worker("a", running("web", "a", spec={"nodeSelector": {"example.com/disk": "ssd"}})),
    pools=[free(template=ON_DEMAND)],
)
UNREGISTERED = msgspec.structs.replace(
    B.node, metadata=msgspec.structs.replace(B.node.metadata, labels={"karpenter.sh/initialized": "true"})
)
HALF_READY = msgspec.structs.replace(UNREGISTERED, metadata=msgspec.structs.replace(B.node.metadata, labels={}))
DELETED = msgspec.structs.replace(
    B.node, metadata=msgspec.structs.replace(B.node.metadata, deletion_timestamp=NOON, finalizers=("example.com/wait",))
)
CHANGED = {
    "well-known labels": (PICKY, replace(PICKY, well_known=PICKY.well_known | {"example.com/disk"})),
    "unreadable objects": (
        PAIR,
        replace(PAIR, unreadable=(UnreadableEntry(kind="Pod", name="odd", problem="bad", node="b"),)),
    ),
    "the claim of a node": (replace(PAIR, nodes=(A, replace(B, claim=None))), PAIR),
    "initialization": (
        replace(PAIR, nodes=(A, replace(B, node=HALF_READY))),
        replace(PAIR, nodes=(A, replace(B, node=UNREGISTERED))),
    ),
    "a node that was deleted and registered again": (
        replace(PAIR, nodes=(A, ClusterNode(DELETED, None))),
        replace(PAIR, nodes=(A, ClusterNode(B.node, None))),
    ),
    "a node that is back": (replace(PAIR, nodes=(A, replace(B, node=None))), PAIR),
    "what a node replaces": (replacing(under_way=True), replacing(under_way=True, replaces=False)),
}


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_a_planner_that_remembers_says_what_a_new_one_says(before, after):
    answers = [thoroughly(Planner(), each) for each in (before, after)]
    assert answers[0] != answers[1]
    for first, second, wanted in ((before, after, answers[1]), (after, before, answers[0])):
        planner = Planner()
        planner.plan(first, thorough=True)
        assert thoroughly(planner, second) == wanted
