"""`dovetail plan --until-stable`: the moves in order, the end state and its cost. Truths are worked out by hand.

The example costs $13 an hour. batch-1 ($4) and batch-2 ($1) are empty, and NodePool batch removes one node at a time.
NodePool general (four nodes, half of them at once) allows no consolidation before 17:10; then the pods of general-1 to
general-3 fit on general-4 (16 cpu, 2 used), which a PodDisruptionBudget keeps. NodePool batch keeps batch-3, because it
is not empty. So batch-3 ($1) and general-4 ($4) stay.
"""

import json
from dataclasses import replace
from datetime import timedelta

from typer.testing import CliRunner

from acceptance.fleet import BLOCKING, cluster, free, owned, pdb, running, worker
from builders import NOON, nodepool, pod, stamped
from docs.pages import ROOT
from dovetail.cli.app import app
from dovetail.cli.simulation import until_stable
from dovetail.cli.simulation.runner import run_scenario
from dovetail.cli.simulation.snapshot_scenario import snapshot_scenario
from dovetail.cli.simulation.until_stable import look_ahead, play_until_stable
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model.unreadable_objects import UnreadableEntry
from dovetail.settings import DecisionOptions, Settings

EXAMPLE = ROOT / "examples" / "snapshots" / "office-hours.yaml"


def plan(*arguments):
    return CliRunner().invoke(app, ["plan", "--until-stable", *map(str, arguments)])


def document(*arguments):
    result = plan(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_moves_are_in_order_and_wait_for_budgets_and_windows():
    found = document("--snapshot", EXAMPLE)
    moved = [(each["reason"], each["nodes"]) for each in found["moves"]]
    assert moved[:2] == [("Empty", ["batch-1"]), ("Empty", ["batch-2"])]
    assert sorted(name for _, names in moved[2:] for name in names) == ["general-1", "general-2", "general-3"]
    assert all(len(names) <= 2 and reason == "Underutilized" for reason, names in moved[2:])
    assert all(each["at"] < "2026-01-05T12:05" for each in found["moves"][:2])
    assert all(each["at"] >= "2026-01-05T17:10" for each in found["moves"][2:])


def test_the_end_state_has_its_nodes_and_its_cost():
    found = document("--snapshot", EXAMPLE)
    assert found["stable"]
    assert (found["costPerHourBefore"], found["costPerHourAfter"]) == (13.0, 5.0)
    assert found["savingPerMonth"] == 8 * 730
    assert {each["node"]: each["costPerHour"] for each in found["nodes"]} == {"batch-3": 1.0, "general-4": 4.0}
    assert found["evictions"] == 5  # cart-1 and web-1 to web-3, and build-7
    assert sum(each["evictions"] for each in found["moves"]) == 5
    assert found["takesSeconds"] > timedelta(hours=5, minutes=10).total_seconds()
    assert found["pendingPods"] == 1  # ml/train-1 fits no instance type


def test_the_end_is_that_of_a_simulation_which_does_not_skip_idle_hours():
    snapshot = read_snapshot_file(EXAMPLE)
    scenario = snapshot_scenario(snapshot, EXAMPLE, "6h", Settings())
    report = run_scenario(scenario).report
    found = document("--snapshot", EXAMPLE)
    assert report["samples"][-1]["cost"] == found["costPerHourAfter"]
    assert report["evictions"] == found["evictions"]
    gone = [each["node"] for each in report["timeline"] if each["what"] == "disrupted"]
    assert sorted(gone) == sorted(name for each in found["moves"] for name in each["nodes"])


def test_the_answer_is_in_the_first_two_lines():
    first = plan("--snapshot", EXAMPLE).stdout.splitlines()
    assert first[0].startswith("Stable after 4 moves at 17:10:")
    assert first[0].endswith(" 5 h 10 min from 2026-01-05T12:00:00Z.")
    assert first[1] == "7 -> 2 nodes, $13.00 -> $5.00 an hour: saves $5,840.00 a month."


def test_a_nodepool_or_reason_restricts_the_moves_but_not_the_costs():
    found = document("--snapshot", EXAMPLE, "--nodepool", "batch")
    assert [each["nodes"] for each in found["moves"]] == [["batch-1"], ["batch-2"]]
    assert found["hiddenMoves"] == 2
    assert found["costPerHourAfter"] == 5.0
    found = document("--snapshot", EXAMPLE, "--reason", "Underutilized")
    assert found["hiddenMoves"] == 2


def test_it_starts_at_another_time():
    found = document("--snapshot", EXAMPLE, "--at", "+6h")
    assert found["takesSeconds"] < timedelta(minutes=30).total_seconds()
    assert {"general-1", "general-2", "general-3"} <= {name for each in found["moves"] for name in each["nodes"]}


def test_a_cluster_that_never_changes_is_stable_at_once(kept):
    path = kept(cluster(worker("a", running("x", "a")), pools=[free(consolidationPolicy="WhenEmpty")]))
    found = document("--snapshot", path)
    assert (found["stable"], found["moves"], found["costPerHourAfter"]) == (True, [], 1.0)
    assert "Stable: nothing changes within 7 days" in plan("--snapshot", path).stdout


def test_a_replacement_is_shown_with_its_instance_type(kept):
    found = document("--snapshot", kept(cluster(worker("a", owned("x", "a", "ReplicaSet"), type_="m.huge"))))
    (move,) = found["moves"]
    assert (move["nodes"], move["evictions"]) == (["a"], 1)
    # One cpu fits m.small, $0.20 as spot.
    assert [each["instanceType"] for each in move["launched"]] == ["m.small"]
    assert (found["costPerHourBefore"], found["costPerHourAfter"]) == (4.0, 0.2)


def test_a_node_that_a_pdb_keeps_stays(kept):
    path = kept(cluster(worker("a", owned("x", "a", "ReplicaSet"), type_="m.huge"), pdbs=[pdb(**BLOCKING)]))
    assert document("--snapshot", path)["moves"] == []


def test_a_drain_that_does_not_end_is_named(kept):
    old = worker("a", owned("x", "a", "ReplicaSet"), claim={"spec": {"expireAfter": "12h"}})  # it is a day old
    path = kept(cluster(old, worker("b", owned("y", "b", "ReplicaSet")), pdbs=[pdb(**BLOCKING)]))
    found = document("--snapshot", path)
    assert [(each["reason"], each["nodes"]) for each in found["moves"] if each["nodes"]] == [("Expired", ["a"])]
    assert found["unfinishedNodes"] == ["a"]
    assert "Still being launched or drained at the end: a." in found["notes"]


def test_nodes_that_are_being_removed_now_are_named(kept):
    going = worker(
        "a", running("x", "a"), claim={"metadata": {"deletionTimestamp": stamped(NOON), "finalizers": ["f"]}}
    )
    notes = document("--snapshot", kept(cluster(going, pools=[free(consolidationPolicy="WhenEmpty")])))["notes"]
    assert "Being removed now, and played as if they were not: a." in notes


def test_nodes_for_pending_pods_are_moves_too(kept):
    found = document("--snapshot", kept(cluster(pods=[pod("waits", cpu="3")])))
    (move,) = found["moves"]
    assert (move["reason"], move["nodes"], len(move["launched"])) == ("PendingPods", [], 1)
    assert (found["nodesBefore"], found["nodesAfter"], found["pendingPods"]) == (0, 1, 0)


def test_a_pause_of_everything_stops_all_moves(kept):
    assert document("--snapshot", kept(replace(cluster(worker("a")), pause="true")))["moves"] == []


def test_nodes_that_no_provider_manages_stay(kept):
    foreign = nodepool("foreign", template={"nodeClassRef": {"group": "other.io", "kind": "Other", "name": "x"}})
    found = cluster(worker("a"), worker("b", pool="foreign"), pools=[free(), foreign])
    found = replace(found, catalogs={"default": found.catalogs["default"]})
    assert [each["nodes"] for each in document("--snapshot", kept(found))["moves"]] == [["a"]]


def test_unreadable_objects_are_refused(kept):
    bad = UnreadableEntry(kind="Pod", namespace="shop", name="web-1", problem="spec: expected object", everywhere=True)
    result = plan("--snapshot", kept(replace(cluster(worker("a")), unreadable=(bad,))))
    assert result.exit_code == 2
    assert "Pod shop/web-1 cannot be read" in result.stderr


def test_it_says_when_it_stopped_early(monkeypatch):
    monkeypatch.setattr(until_stable, "MOST_MOVES", 1)
    result = plan("--snapshot", EXAMPLE)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "Not stable: stopped after 1 moves and 1 move."


def test_time_is_limited():
    found = play_until_stable(cluster(worker("a"), pools=[free(consolidateAfter="25h")]), Settings())
    assert (found.stable, len(found.moves)) == (True, 1)  # the node is a day old: it leaves after an hour
    found = play_until_stable(
        cluster(worker("a"), pools=[free(consolidateAfter="25h")]), Settings(), longest=timedelta(minutes=59)
    )
    assert found.moves == []


def test_looking_ahead_finds_the_instant_of_the_next_command():
    waiting = cluster(worker("a"), pools=[free(consolidateAfter="25h")])
    assert look_ahead(waiting, DecisionOptions(), NOON + timedelta(days=1)) == NOON + timedelta(hours=1)
    assert look_ahead(waiting, DecisionOptions(), NOON + timedelta(minutes=59)) is None


def test_expirations_in_the_future_are_no_reason_to_go_on():
    soft = nodepool(disruption={"expireAfter": "48h", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"})
    found = cluster(worker("a", running("x", "a")), pools=[soft])
    assert look_ahead(found, DecisionOptions(), NOON + timedelta(days=7)) is None
    due = replace(found, at=NOON + timedelta(days=1))
    assert look_ahead(due, DecisionOptions(), NOON + timedelta(days=7)) == due.at
