"""`dovetail plan` from outside: the table, the documents, and how it refuses."""

import io
import json
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from acceptance.fleet import cluster, free, running, shielded, worker
from builders import NOON
from dovetail.cli.app import app
from dovetail.cli.view.plan import draw_plan, plan_document
from dovetail.core.disruption.planner import plan_disruption
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.annotated_fields import LAST_APPLIED
from dovetail.model.unreadable_objects import UnreadableEntry


def plan(*arguments, stdin=None):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)], input=stdin)


@pytest.fixture
def kept(tmp_path):
    def to_file(found, form="json"):
        path = tmp_path / f"cluster.{form}"
        path.write_bytes(snapshot_bytes(found, form))
        return path

    return to_file


def one_goes(**fields):
    pool = free(budgets=[{"nodes": "1"}])
    return cluster(worker("a"), worker("b"), worker("c", shielded("x", "c")), pools=[pool], **fields)


def test_commands_come_first_then_every_node_left_alone_with_its_refusal(kept):
    result = plan("--snapshot", kept(one_goes()))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Plan for 3 nodes at 2026-01-05T12:00:00Z"
    assert " ".join(lines[2].split()) == "COMMAND REASON NODES PODS MOVED $/MONTH REPLACED BY BUDGET USED"
    assert " ".join(lines[3].split()) == "delete (emptiness) Empty a 0 730.00 nothing default: 1 of 1"
    assert "Saves $730.00 a month." in lines
    told = {
        line.split()[0]: line for line in lines[lines.index("LEFT ALONE  LASTS       LEAVES BY  BECAUSE") + 1 :][:2]
    }
    assert told["b"].endswith("emptiness  budget '1' of NodePool default allows 1 node, taken by 1 other first")
    assert told["c"].endswith("-          pod default/x is protected permanently")
    assert (told["b"].split()[1], told["c"].split()[1]) == ("may", "permanent")
    assert lines[-2:] == ["BLOCKED  BY", "c        pod default/x is protected permanently"]


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_scripts_get_the_same_as_a_document(form, read, kept):
    document = read(plan("--snapshot", kept(one_goes()), "-o", form).stdout)
    (command,) = document["commands"]
    assert command["nodes"] == ["a"]
    assert command["budgetUsed"] == [{"nodepool": "default", "used": 1, "limit": 1}]
    assert document["savingPerMonth"] == 730.0
    assert [each["node"] for each in document["leftAlone"]] == ["b", "c"]
    assert document["leftAlone"][1]["why"]["drift"]["code"] == "DoNotDisruptPod"


def test_replacements_are_named_with_their_pool(kept):
    result = plan("--snapshot", kept(cluster(worker("a", running("x", "a"), type_="m.huge"))), "-o", "json")
    (command,) = json.loads(result.stdout)["commands"]
    assert command["decision"] == "replace"
    assert command["podsMoved"] == 1
    assert command["replacements"][0]["nodepool"] == "default"
    assert "m.small" in command["replacements"][0]["instanceTypes"]


def test_a_steady_cluster_is_left_as_it_is(kept):
    busy = cluster(worker("a", running("x", "a")), pools=[free(consolidationPolicy="WhenEmpty")])
    result = plan("--snapshot", kept(busy))
    assert "Nothing would be disrupted." in result.stdout
    assert "consolidation policy WhenEmpty, but node is not empty" in result.stdout


def test_an_empty_node_shows_what_emptiness_waits_for(kept):
    waiting = cluster(worker("a", age=timedelta(minutes=1)), pools=[free(consolidateAfter="1h")])
    assert (
        "a           until 12:59 UTC  emptiness  empty, and left alone until 12:59 UTC"
        in plan("--snapshot", kept(waiting)).stdout
    )


def test_a_snapshot_is_read_from_standard_input_too():
    result = plan("--snapshot", "-", stdin=snapshot_bytes(one_goes()))
    assert result.exit_code == 0
    assert f"{NOON:%Y-%m-%d}" in result.stdout


def test_gates_are_settings(kept):
    document = json.loads(plan("--snapshot", kept(one_goes()), "--feature-gates", "Drift=false", "-o", "json").stdout)
    assert document["leftAlone"][0]["why"]["drift"]["code"] == "GateClosed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--snapshot", "absent.json"], "absent.json: cannot be read"),
        (["--snapshot", "-"], "is empty"),
        (["--snapshot", "-", "--context", "other"], "cannot be combined with"),
        (["--kubeconfig", "absent.config"], "absent.config"),
    ],
)
def test_an_unavailable_snapshot_ends_with_2_and_the_reason(arguments, words):
    result = plan(*arguments, stdin="")
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_an_invalid_feature_gate_ends_with_2(kept):
    result = plan("--snapshot", kept(one_goes()), "--feature-gates", "Drift")
    assert result.exit_code == 2
    assert "Name=true or Name=false" in result.stderr


def test_in_a_narrow_terminal_commands_stand_one_below_the_other():
    found = one_goes()
    screen = io.StringIO()
    document = plan_document(plan_disruption(found, thorough=True), found)
    draw_plan(Console(file=screen, width=60), document)
    text = screen.getvalue()
    assert "delete 1 node: Empty (emptiness)\n  saves $730.00 a month, 0 pods moved\n  nodes: a\n" in text
    assert max(map(len, text.splitlines())) <= 60


def test_fields_that_the_installed_crd_dropped_are_named_below_the_plan():
    found = one_goes()
    pool = found.nodepools["default"]
    annotations = {LAST_APPLIED: json.dumps({"spec": {"repair": {}}})}
    pool = msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, annotations=annotations))
    found = replace(found, nodepools={"default": pool})
    document = plan_document(plan_disruption(found, thorough=True), found)
    assert [each["nodepool"] for each in document["dropped"]] == ["default"]
    screen = io.StringIO()
    draw_plan(Console(file=screen, width=200), document)
    assert "NodePool default: spec.repair: is in the manifest applied last" in screen.getvalue()


def test_a_snapshot_with_unreadable_pods_is_planned_like_the_cluster(kept):
    bad = UnreadableEntry(kind="Pod", namespace="shop", name="web-1", problem="spec: expected object", everywhere=True)
    path = kept(replace(one_goes(), unreadable=(bad,)))
    text = plan("--snapshot", path).stdout
    assert "COMMAND" not in text
    assert "shop/web-1" in text
    for asked in (("node", "a"), ("nodepool", "default"), ("pod", "default/x")):
        told = CliRunner().invoke(app, ["explain", *asked, "--snapshot", str(path)])
        assert "shop/web-1" in " ".join(told.stdout.split())
        document = CliRunner().invoke(app, ["explain", *asked, "--snapshot", str(path), "-o", "json"])
        assert "shop/web-1" in document.stdout
    told = CliRunner().invoke(app, ["explain", "pod", "shop/web-1", "--snapshot", str(path)])
    assert told.exit_code != 0
    assert "no node is disrupted until it is corrected or deleted: spec: expected object" in " ".join(
        told.output.split()
    )


@pytest.mark.parametrize("command", ["plan", "explain", "drain", "budgets", "snapshot"])
def test_help_lists_only_the_settings_that_affect_the_command(command):
    text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).stdout
    assert "--provider" in text
    assert "--leader-election-name" not in text
    assert "dovetail run --help" in text
    assert len(text.splitlines()) < 105


def test_settings_that_help_does_not_list_are_still_taken(kept):
    assert plan("--snapshot", kept(one_goes()), "--kube-client-qps", "5").exit_code == 0
    refused = plan("--snapshot", kept(one_goes()), "--kube-client-qps", "many")
    assert refused.exit_code == 2
    assert "--kube-client-qps" in refused.stderr
