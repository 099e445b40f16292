"""`dovetail explain node` of an unhealthy node, from a snapshot file: what repair waits for and until when."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, worker
from builders import NOON, build, nodepool, stamped
from dovetail.cli.app import app
from dovetail.manifest.snapshot_document import SnapshotInvalid, dump_snapshot, load_snapshot
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.kinds import NODE
from dovetail.model.repair import GENERAL, unready

SINCE = NOON - timedelta(minutes=4)
BLOCK = {"policies": [{"conditionType": "NetworkUnavailable", "toleration": "10m"}]}


def unhealthy(name, condition="NetworkUnavailable", status="True"):
    found = worker(name)
    written = {
        "metadata": {"name": name, "labels": dict(found.node.metadata.labels)},
        "spec": {"providerID": name},
        "status": {"conditions": [{"type": condition, "status": status, "lastTransitionTime": stamped(SINCE)}]},
    }
    return replace(found, node=build(NODE, written))


def found(*nodes, repair=None):
    pool = nodepool(**({"repair": repair} if repair is not None else {}))
    return replace(cluster(*nodes, pools=[pool]), repair_statements=(*unready(timedelta(minutes=10)), *GENERAL))


@pytest.fixture
def explain(tmp_path):
    def ask(snapshot, *arguments):
        path = tmp_path / "cluster.json"
        path.write_bytes(snapshot_bytes(snapshot))
        result = CliRunner().invoke(app, ["explain", "node", "a", "--snapshot", str(path), *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    return ask


def test_text_shows_what_is_tolerated_and_until_when(explain):
    told = explain(found(unhealthy("a"), worker("b"), repair=BLOCK))
    assert "repair (Unhealthy)" in told
    assert "1. NetworkUnavailable is True since 11:56 UTC, tolerated for 10m" in told
    assert "(repair.policies), until 12:06 UTC" in told
    assert "Replaced by force at 12:06 UTC unless it recovers." in told


def test_text_shows_that_the_breaker_blocks_repair(explain):
    told = explain(found(unhealthy("a"), unhealthy("b"), repair=BLOCK))
    assert "Blocked: 2 of 2 nodes are unhealthy, 1 allowed" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Not repaired: nodepool default has no repair block."),
        (("--repair-without-block", "provider"), "Replaced by force at 12:06 UTC"),
        (("--feature-gates", "NodeRepair=false"), "Not repaired: the feature gate NodeRepair is off."),
    ],
)
def test_text_shows_why_the_node_is_not_repaired(explain, arguments, words):
    assert words in explain(found(unhealthy("a")), *arguments)


def test_scripts_get_the_instant(explain):
    document = json.loads(explain(found(unhealthy("a"), repair={}), "-o", "json"))
    assert document["repair"]["dueAt"] == "2026-01-05T12:06:00Z"
    assert document["repair"]["conditions"][0]["saidBy"] == "the provider"


def test_healthy_nodes_have_no_such_section(explain):
    assert "repair" not in explain(found(worker("a"), repair={}))


def test_statements_survive_the_snapshot():
    snapshot = found(worker("a"))
    assert load_snapshot(dump_snapshot(snapshot)).repair_statements == snapshot.repair_statements


@pytest.mark.parametrize("bad", ["Ready", [{"conditionType": "Ready"}], [3], [{"toleration": "soon"}]])
def test_statements_that_cannot_be_read_are_a_fault(bad):
    with pytest.raises(SnapshotInvalid, match="repairStatements"):
        load_snapshot({**dump_snapshot(found(worker("a"))), "repairStatements": bad})
