"""`dovetail plan` with its flags: the totals, what is shown, and another time. Truths are worked out by hand.

The example has seven nodes: batch-1 (m.huge, $4) and batch-2 (m.large, $1) are empty, batch-3 ($1) is not; general-1 to
general-3 ($1 each) and general-4 (m.huge, $4) run pods. That is $13 an hour on Monday at noon. NodePool batch removes
one node at a time. NodePool general allows no consolidation from 9:10 to 17:10.
"""

import json
from datetime import timedelta

import pytest
import yaml
from typer.testing import CliRunner

from acceptance.fleet import cluster, drifted, free, pdb, running, worker
from builders import NOON, nodepool
from docs.pages import ROOT
from dovetail.cli.app import app
from dovetail.core.lifecycle.nodepool_hash import hash_annotations

EXAMPLE = ROOT / "examples" / "snapshots" / "office-hours.yaml"
WEEKDAY = EXAMPLE.with_name("weekday.yaml")


def plan(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def document(*arguments):
    result = plan(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_summary_says_cost_leaving_and_cost_after_in_the_first_three_lines():
    first = plan("--snapshot", EXAMPLE, "--summary").stdout.splitlines()[:3]
    assert first == [
        "7 nodes cost $13.00 an hour at 2026-01-05T12:00:00Z",
        "The next pass removes 1 node (1 Empty), none replaced, 0 pods moved.",
        "After it: 6 nodes for $9.00 an hour; saves $2,920.00 a month.",  # $4 for 730 hours
    ]


def test_the_summary_groups_what_blocks_the_rest():
    blocked = document("--snapshot", EXAMPLE, "--summary")["blocked"]
    found = {(each["by"], each["what"]): each["nodes"] for each in blocked}
    assert found[("PodDisruptionBudget", "shop/ledger")] == ["general-4"]
    assert found[("pod protection", "karpenter.sh/do-not-disrupt")] == ["general-3"]
    assert found[("disruption budget", "'0' of NodePool general allows 0 for Underutilized")] == ["general-1"]
    assert found[("delay", "consolidateAfter")] == ["general-2"]
    assert sum(map(len, found.values())) == 6
    ends = {each["what"]: (each["until"], each["permanent"]) for each in blocked}
    assert ends["shop/ledger"] == (None, True)
    assert ends["karpenter.sh/do-not-disrupt"] == ("2026-01-05T14:00:00Z", False)
    assert next(each["pods"] for each in blocked if each["by"] == "pod protection") == ["ci/build-7"]


def test_the_summary_names_every_pod_of_a_pdb(kept):
    path = kept(cluster(worker("a", running("web-1", "a"), running("web-2", "a")), pdbs=[pdb()]))
    (blocked,) = document("--snapshot", path, "--summary")["blocked"]
    assert (blocked["what"], blocked["pods"]) == ("default/web", ["default/web-1", "default/web-2"])


def test_the_summary_of_a_node_that_expires_first_blames_the_budget_for_its_own_reason(kept):
    """The budget does not apply to expiration: the node leaves before its window ends."""
    closed = {"nodes": "0", "schedule": "0 9 * * *", "duration": "5h", "reasons": ["Underutilized"]}
    expiring = worker("a", running("x", "a", cpu="1"), claim={"spec": {"expireAfter": "25h"}})  # it is a day old
    path = kept(cluster(expiring, worker("b", running("y", "b", cpu="1")), pools=[free(budgets=[closed])]))
    lines = plan("--snapshot", path, "--summary").stdout
    assert "'0' of NodePool default allows 0 for Underutilized, until 14:00 UTC, can leave from 13:00 UTC" in lines
    assert "for Expired" not in lines


def test_a_node_that_has_expired_by_then_is_leaving_and_nothing_keeps_it(kept):
    closed = {"nodes": "0", "schedule": "0 9 * * *", "duration": "5h"}
    expiring = worker("a", running("x", "a", cpu="1"), claim={"spec": {"expireAfter": "25h"}})
    path = kept(cluster(expiring, worker("b", running("y", "b", cpu="1")), pools=[free(budgets=[closed])]))
    summary = plan("--snapshot", path, "--at", "+90m", "--summary").stdout
    assert "   1  already leaving: expired after 25h (a)" in summary
    (left,) = [each for each in document("--snapshot", path, "--at", "+90m")["leftAlone"] if each["node"] == "a"]
    assert left["verdict"]["line"] == "Leaving: expired after 25h, at 13:00 UTC, regardless of budgets"


def test_many_nodes_behind_one_obstacle_are_one_line(kept):
    nodes = [worker(f"n{number}", age=timedelta(minutes=number)) for number in range(1, 6)]
    path = kept(cluster(*nodes, pools=[free(consolidateAfter="1h")]))
    (line,) = [each for each in plan("--snapshot", path, "--summary").stdout.splitlines() if "consolidateAfter" in each]
    # The oldest is five minutes old and waits for 55 more, the youngest for 59.
    assert line == "   5  delay consolidateAfter, until 12:55 UTC to 12:59 UTC (n1, n2, n3 and 2 more)"


def test_the_summary_of_one_nodepool_has_its_figures_only():
    found = document("--snapshot", EXAMPLE, "--summary", "--nodepool", "batch")
    assert (found["nodes"], found["costPerHour"], found["costPerHourAfter"]) == (3, 6.0, 2.0)
    assert "The pass decides about all nodes together." in found["notes"][0]


def stamped(pool, **claim):
    return {"metadata": {"annotations": hash_annotations(pool)}, **claim}


def test_the_summary_names_the_fields_that_drifted(kept):
    old = nodepool(template_metadata={"labels": {"team": "shop"}})
    new = nodepool(template_metadata={"labels": {"team": "web"}}, template={"expireAfter": "100h"})
    launched = {"labels": {"team": "shop"}, "claim": stamped(old, spec={"expireAfter": "720h"})}
    found = document(
        "--snapshot", kept(cluster(worker("a", **launched), worker("b", **launched), pools=[new])), "--summary"
    )
    (drift,) = found["drifted"]
    assert (drift["reason"], drift["nodes"]) == ("NodePoolDrifted", ["a", "b"])
    assert {(each["field"], each["old"], each["new"]) for each in drift["changes"]} == {
        ("spec.template.spec.expireAfter", "720h", "100h"),
        ("spec.template.metadata.labels[team]", "shop", "web"),
    }


def test_the_summary_names_the_requirement_that_a_node_no_longer_meets(kept):
    pool = free(
        template={"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}
    )
    (drift,) = document("--snapshot", kept(cluster(worker("a"), pools=[pool])), "--summary")["drifted"]
    assert drift["reason"] == "RequirementsDrifted"
    assert drift["message"] == "RequirementsDrifted: karpenter.sh/capacity-type: on-demand -> In [spot]"


def test_the_summary_shows_drift_that_only_the_provider_knows(kept):
    text = plan("--snapshot", kept(cluster(drifted("a", running("x", "a")))), "--summary").stdout
    assert "Drifted: 1 node\n" in text
    assert "   1  ImageDrift (a)\n" in text


def test_a_nodepool_restricts_what_is_shown_and_says_what_is_hidden():
    found = document("--snapshot", EXAMPLE, "--nodepool", "general")
    assert found["commands"] == []
    assert [each["node"] for each in found["leftAlone"]] == [f"general-{number}" for number in range(1, 5)]
    assert found["hidden"] == {"commands": 1, "nodesLeftAlone": 2}
    assert {each["nodepool"] for each in found["budgets"]} == {"general"}
    text = plan("--snapshot", EXAMPLE, "--nodepool", "general").stdout
    assert "Only NodePool general. Not shown: 1 command and 2 nodes left alone." in text
    assert "Nothing of this would be disrupted." in text


def test_nodepools_are_repeatable():
    found = document("--snapshot", EXAMPLE, "--nodepool", "general", "--nodepool", "batch")
    assert found["hidden"] == {"commands": 0, "nodesLeftAlone": 0}
    assert len(found["leftAlone"]) == 6


def test_a_reason_shows_why_its_methods_leave_nodes_alone():
    found = document("--snapshot", EXAMPLE, "--reason", "empty")
    assert [each["nodes"] for each in found["commands"]] == [["batch-1"]]
    because = {each["node"]: each["because"] for each in found["leftAlone"]}
    assert because["batch-2"].startswith("budget '1' of NodePool batch allows 1 node")
    assert "batch-3" not in because  # it runs a pod: emptiness does not apply
    assert all(set(each["why"]) == {"emptiness"} for each in found["leftAlone"])
    assert document("--snapshot", EXAMPLE, "--reason", "Underutilized")["commands"] == []


def test_a_reason_shows_what_blocks_only_the_nodes_it_shows():
    shown = document("--snapshot", WEEKDAY, "--reason", "Drifted")
    drifted_nodes = {each["node"] for each in shown["leftAlone"]}
    assert drifted_nodes == {"general-2", "general-3"}
    assert {name for each in shown["drifted"] for name in each["nodes"]} == drifted_nodes
    assert shown["blockers"] == []  # the PDBs and the protected pod are on other nodes


def test_a_reason_gives_the_same_answers_as_the_whole_plan():
    """Only consolidation applies to the nodes of NodePool general: none is empty, and none has drifted."""

    def answers(*arguments):
        left = document("--snapshot", EXAMPLE, *arguments)["leftAlone"]
        fields = ("because", "until", "permanent", "by")
        return {each["node"]: [each[one] for one in fields] for each in left if each["node"].startswith("general")}

    assert answers("--reason", "Underutilized") == answers()
    assert answers("--reason", "Drifted") == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodepool", "gneral"], "there is no nodepool 'gneral'; did you mean 'general'?"),
        (["--reason", "drift"], "there is no disruption reason 'drift'; did you mean 'Drifted'?"),
        (
            ["--reason", "Manual"],
            "there is no disruption reason 'Manual'; there are Drifted, Empty, Expired, Underutilized",
        ),
    ],
)
def test_unknown_names_are_an_error_with_a_suggestion(arguments, words):
    result = plan("--snapshot", EXAMPLE, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("at", ["+5h10m", "2026-01-05T17:10:00Z", "2026-01-05T18:10:00+01:00"])
def test_another_time_opens_and_closes_budget_windows(at):
    before = document("--snapshot", EXAMPLE, "--nodepool", "general", "--at", "2026-01-05T17:09:59Z")
    after = document("--snapshot", EXAMPLE, "--nodepool", "general", "--at", at)
    limit = {each["reason"]: each["limit"] for each in before["budgets"]}
    assert limit["Underutilized"] == 0
    limit = {each["reason"]: each["limit"] for each in after["budgets"]}
    assert limit["Underutilized"] == 2  # 50% of four nodes
    assert after["at"] == "2026-01-05T17:10:00Z"


def test_protections_and_delays_end_at_that_time():
    def because(at, node):
        found = document("--snapshot", EXAMPLE, "--at", at)
        return next(each["why"]["single-node"]["code"] for each in found["leftAlone"] if each["node"] == node)

    assert (because("+1h59m59s", "general-3"), because("+2h", "general-3")) == ("DoNotDisruptPod", "Budget")
    assert (because("+9m59s", "general-2"), because("+10m", "general-2")) == ("Waiting", "Budget")


def test_another_time_says_what_is_assumed():
    text = plan("--snapshot", EXAMPLE, "--at", "+1d").stdout
    note = "The cluster is that of 2026-01-05T12:00:00Z: pods and nodes are assumed unchanged until then."
    assert text.splitlines()[:2] == ["Plan for 7 nodes at 2026-01-06T12:00:00Z", note]


def test_nodes_that_will_have_expired_by_then_are_named(kept):
    path = kept(cluster(worker("a", running("x", "a"), claim={"spec": {"expireAfter": "25h"}}), worker("b")))
    assert (
        "1 node will have reached expireAfter and be deleted by then: a."
        in plan("--snapshot", path, "--at", "+1h").stdout
    )  # it is a day old
    assert "expireAfter" not in plan("--snapshot", path, "--at", "+59m").stdout


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-01-05T11:59:59Z", "is before the snapshot"),
        ("2026-01-05T13:00:00", "with its zone"),
        ("+2x", "is not a time"),
        ("tomorrow", "write 2026-01-05T17:10:00Z"),
    ],
)
def test_a_time_that_cannot_be_planned_ends_with_2(at, words):
    result = plan("--snapshot", EXAMPLE, "--at", at)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_the_time_of_the_snapshot_itself_is_accepted():
    assert document("--snapshot", EXAMPLE, "--at", f"{NOON:%Y-%m-%dT%H:%M:%SZ}")["at"] == "2026-01-05T12:00:00Z"


@pytest.mark.parametrize("other", [["--until-stable"], ["--reason", "Empty"]])
def test_the_summary_cannot_be_combined_with_other_views(other):
    result = plan("--snapshot", EXAMPLE, "--summary", *other)
    assert result.exit_code == 2


def test_yaml_has_the_same_as_json():
    written = plan("--snapshot", EXAMPLE, "--summary", "-o", "yaml").stdout
    assert yaml.safe_load(written) == document("--snapshot", EXAMPLE, "--summary")


def test_missing_prices_are_named_in_the_summary(kept):
    found = cluster(worker("a"), worker("b", type_="x.unknown"))
    summary = document("--snapshot", kept(found), "--summary")
    assert (summary["nodes"], summary["unpricedNodes"], summary["costPerHour"]) == (2, 1, 1.0)
