"""Answers about clusters that are not tidy: unknown prices, unreadable budgets, paused pools, static pods, volumes.

Each cluster is small enough to work out the truth by hand; it stands beside the expected text. An m.large costs $1 an
hour in the catalog of the builders.
"""

import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from acceptance.fleet import BLOCKING, ON_DEMAND, cluster, drifted, free, owned, pdb, running, worker
from builders import build, pod
from docs.pages import ROOT
from dovetail.cli.app import app
from dovetail.cli.view.explain import draw_node
from dovetail.cli.view.until_stable import span_text
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.explain.node import explain_node
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.pause import PAUSE
from dovetail.model.storage import Storage

OFFICE = ROOT / "examples" / "snapshots" / "office-hours.yaml"
WEEKDAY = ROOT / "examples" / "snapshots" / "weekday.yaml"


def asked(path, *command):
    result = CliRunner().invoke(app, [*command, "--snapshot", str(path)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture
def unpriced(kept):
    """A drifted node of a type that the catalog does not have, so its price is not known, and a full node."""
    return kept(cluster(worker("odd", type_="x.odd"), worker("b", running("web", "b", cpu="4"))))


def test_a_saving_is_not_known_without_the_price_of_the_node(unpriced):
    text = "saving not known, because the price of 1 node is not known"
    assert asked(unpriced, "explain", "node", "odd")[0].endswith(f"deleted, {text}.")
    lines = asked(unpriced, "plan")
    assert not [each for each in lines if "$0.00" in each or "  0.00 " in each]
    assert text.capitalize() + "." in lines
    assert asked(unpriced, "plan", "--summary")[3].endswith(f"; {text}.")
    assert text in asked(unpriced, "top", "--once")[2]


def test_the_cost_says_how_many_prices_it_lacks(unpriced):
    assert (
        "  at least $1.000/h $730.00 a month without 1 node of unknown price  " in asked(unpriced, "top", "--once")[1]
    )
    assert "the price of" not in asked(OFFICE, "top", "--once")[1]


def test_the_document_of_a_plan_counts_nodes_of_unknown_price(unpriced):
    document = json.loads("\n".join(asked(unpriced, "plan", "-o", "json")))
    assert (document["unpricedNodes"], [each["unpricedNodes"] for each in document["commands"]]) == (1, [1])


@pytest.fixture
def unreadable(kept):
    """The second budget has six cron fields, so nothing may be disrupted."""
    budgets = [{"nodes": "10%"}, {"nodes": "1", "schedule": "0 9 * * * *", "duration": "8h"}]
    return kept(cluster(worker("a"), worker("b"), pools=[free(budgets=budgets)]))


def test_an_unreadable_budget_holds_the_nodes_of_its_pool_back(unreadable):
    line = asked(unreadable, "explain", "nodepool", "default")[1]
    assert line.startswith("Held back by a budget: NodePool default has a budget that cannot be understood")
    assert line.endswith("(on 2 nodes)")


def test_the_summary_names_an_unreadable_budget_once(unreadable):
    (line,) = [each for each in asked(unreadable, "plan", "--summary") if "cannot be understood" in each]
    assert line.split(maxsplit=1)[1].startswith(
        "disruption budget of NodePool default, which cannot be understood: spec.disruption.budgets[1]: schedule "
    )


def test_a_budget_that_alone_keeps_a_drifted_node_is_blamed(kept):
    """Node a drifted and is full; with a budget of 1 for Drifted it would leave."""
    budgets = [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]
    nodes = [drifted("a", running("web", "a", cpu="4")), worker("b", running("api", "b", cpu="4"))]
    path = kept(cluster(*nodes, pools=[free(budgets=budgets, template=ON_DEMAND)]))
    line = asked(path, "explain", "nodepool", "default")[1]
    assert line == ("Held back by a budget: budget 2 of 2 ('0') of NodePool default allows 0 of 2 nodes (on node a)")


def test_a_paused_nodepool_is_the_first_line(kept):
    pool = free()
    pool.metadata.annotations[PAUSE] = "true"
    path = kept(cluster(worker("a"), pools=[pool]))
    assert (
        asked(path, "explain", "nodepool", "default")[0] == "1 node: 1 stays; disruption is paused by NodePool default."
    )


def test_the_summary_says_when_a_node_can_leave_if_another_obstacle_ends_later():
    """The delay of general-2 ends at 12:10, but consolidation is closed until 17:10."""
    (line,) = [each for each in asked(OFFICE, "plan", "--summary") if "consolidateAfter" in each]
    assert line.split(maxsplit=1)[1] == "delay consolidateAfter, until 12:10 UTC, can leave from 17:10 UTC (general-2)"


def test_the_summary_and_the_plan_agree_on_what_lasts_until_it_is_changed():
    """batch-3 leaves as soon as it is empty; its policy need not be changed for that."""
    (line,) = [each for each in asked(OFFICE, "plan", "--summary") if "WhenEmpty" in each]
    assert "until it is changed" not in line
    (row,) = [each for each in asked(OFFICE, "plan") if each.startswith("batch-3")]
    assert row.split(maxsplit=1)[1].startswith("may change")


def test_one_node_costs(kept):
    assert asked(kept(cluster(worker("a"))), "plan", "--summary")[0].startswith("1 node costs $1.00 an hour at ")


def test_nodes_that_are_not_ready_are_not_counted_as_ready(kept):
    lines = asked(kept(cluster(worker("a"), worker("b", ready=False))), "explain", "nodepool", "default")
    assert "WhenEmptyOrUnderutilized, 2 initialized nodes, 1 disrupting or NotReady" in lines


def test_a_static_pod_is_not_evicted(kept):
    path = kept(cluster(worker("a", owned("proxy", "a", "Node", "v1"))))
    lines = asked(path, "explain", "pod", "proxy")
    assert lines[0] == "Runs on node a: static pod, ends with the node and is not evicted."
    assert not [each for each in lines if "Eviction would be allowed" in each]


def test_a_pod_without_an_owner_would_not_be_recreated(kept):
    bare = running("debug", "a", metadata={"ownerReferences": []})
    line = asked(kept(cluster(worker("a", bare))), "explain", "pod", "debug")[0]
    assert line == "Runs on node a: it can be evicted now, and would not be recreated: it has no owner."


def test_a_pod_whose_volume_is_in_another_zone_says_which_zone(kept):
    """The node is in zone-a, and no instance type is sold in zone-z."""
    there = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-z"]}
    disk = build(
        PERSISTENT_VOLUME,
        {
            "metadata": {"name": "disk"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}},
        },
    )
    data = build(
        PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk"}}
    )
    db = pod("db", spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    found = cluster(worker("a"), pods=(db,))
    path = kept(replace(found, storage=Storage(claims={Key("default", "data"): data}, volumes={"disk": disk})))
    lines = asked(path, "explain", "pod", "db")
    assert lines[0].startswith(
        "Pending: 0/1 nodes are available: 1 node(s) had volume node affinity conflict; its volume requires "
        "topology.kubernetes.io/zone In [zone-z]; no new node can take it"
    )
    assert "topology.kubernetes.io/zone In [zone-z] of its volume  1 node has zone-a" in lines


def test_a_plan_of_as_many_nodes_names_those_that_differ():
    """general-4 is empty. Drift goes before emptiness, so with a budget for it general-2 leaves in its place."""
    first = asked(WEEKDAY, "what-if", "--set", "nodepool/general.spec.disruption.budgets[1].nodes=1")[0]
    # $11.40 less $0.40 for a spot m.large, less $1 for one on demand
    assert first == ("The next pass removes general-2 instead of general-4; $11.00 an hour after it instead of $10.40.")


def test_hard_expiration_is_at_a_time_and_not_until_it():
    lines = asked(WEEKDAY, "explain", "node", "general-5", "--full")
    assert "  1. not expired: expires after 336h, regardless of budgets, at Thu 15 Jan 12:00 UTC" in lines


def test_a_drain_without_dates_has_no_column_for_them():
    lines = asked_of_drain(WEEKDAY, "general-1")
    assert "SINCE" not in next(each for each in lines if each.startswith("TIER"))


def asked_of_drain(path, node):
    return CliRunner().invoke(app, ["drain", node, "--dry-run", "--snapshot", str(path)]).stdout.splitlines()


def test_a_budget_that_is_used_up_names_the_node_that_uses_it(kept):
    """b is not ready, which uses the budget of one node; a is empty and could leave."""
    path = kept(cluster(worker("a"), worker("b", ready=False), pools=[free(budgets=[{"nodes": "1"}])]))
    line = asked(path, "explain", "node", "a")[0]
    assert "budget '1' of NodePool default allows 1 of 2 nodes, in use by node b" in line


def test_the_calendar_of_an_unreadable_budget_begins_with_it(unreadable):
    lines = CliRunner().invoke(app, ["budgets", "default", "--snapshot", str(unreadable)]).stdout.splitlines()
    assert lines[0].startswith("Blocked: a budget is invalid, so nothing is disrupted: spec.disruption.budgets[1]")


def test_a_drain_says_first_whether_it_would_end(kept):
    blocked = cluster(worker("a", running("web", "a")), worker("b"), pdbs=[pdb(**BLOCKING)])
    assert " would not end: stuck, " in asked_of_drain(kept(blocked), "a")[0]
    later = cluster(worker("a", running("web", "a")), worker("b"), pdbs=[pdb()])
    assert " would end once its obstacles do: slow, " in asked_of_drain(kept(later), "a")[0]
    assert (
        " would end: moving, " in asked_of_drain(kept(cluster(worker("a", running("web", "a")), worker("b"))), "a")[0]
    )


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 seconds"), (646, "10 min 46 s"), (7260, "2 h 1 min")])
def test_the_time_until_nothing_changes_is_in_whole_units(seconds, text):
    assert span_text(seconds) == text


def test_a_long_obstacle_wraps_below_its_text(capsys):
    found = read_snapshot_file(OFFICE)
    node = next(each for each in found.nodes if each.name == "general-3")
    console = Console(width=40, force_terminal=False)
    draw_node(console, explain_node(node, PassContext(found)), full=True)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    wrapped = lines[lines.index("  1. protected by pod ci/build-7 until") + 1]
    assert wrapped == "     14:00 UTC"
