"""`dovetail explain` from outside: nodes, NodePools and pods, in text and as documents, and unknown names."""

import json

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from acceptance.fleet import cluster, free, pdb, running, shielded, worker
from builders import NOON, nodepool, pod, stamped
from dovetail.cli.app import app
from dovetail.cli.view.explain import pool_document, print_pool
from dovetail.core.disruption.planner import Planner
from dovetail.core.explain.nodepool import explain_pool
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.annotated_fields import LAST_APPLIED

HELD = {
    "creationTimestamp": stamped(NOON),
    "namespace": "ci",
    "annotations": {"karpenter.sh/do-not-disrupt": "2h"},
}
BUDGETS = [{"nodes": "50%"}, {"nodes": "0", "schedule": "10 9 * * *", "duration": "24h", "reasons": ["Underutilized"]}]


@pytest.fixture
def explain(tmp_path):
    path = tmp_path / "cluster.json"

    def ask(*arguments, pools=None):
        held = shielded("build-7", "general-a", metadata=HELD)
        found = cluster(
            worker("general-a", held, pool="general"),
            worker("general-b", running("web-1", "general-b"), pool="general"),
            pools=pools or [free("general", limits={"cpu": "64"}, budgets=BUDGETS)],
            pods=[pod("vast", cpu="640")],
            pdbs=[pdb(spec={"maxUnavailable": 0})],
        )
        path.write_bytes(snapshot_bytes(found))
        return CliRunner().invoke(app, ["explain", *arguments, "--snapshot", str(path)])

    return ask


def test_a_node_lists_the_obstacles_of_every_method_and_their_ends(explain):
    result = explain("node", "general-a", "--full")
    assert result.exit_code == 0
    assert "Node general-a of NodePool general at 2026-01-05T12:00:00Z" in result.stdout
    single = result.stdout.partition("single-node (Underutilized)")[2].splitlines()
    assert single[1] == "  1. protected by pod ci/build-7 until 14:00 UTC"
    assert single[2].startswith("  2. budget 2 of 2 ('0') in force allows 0 of 2 nodes")
    methods = [line.split()[0] for line in result.stdout.splitlines()[3:] if line and not line.startswith(" ")]
    assert methods == ["expiration", "drift", "emptiness", "multi-node", "single-node"]


def test_permanent_obstacles_are_called_so(explain):
    line = next(line for line in explain("node", "general-b", "--full").stdout.splitlines() if "pdb prevents" in line)
    assert line.endswith("for pod default/web-1 (permanent: needs a manual change)")


def test_scripts_get_instants_and_codes(explain):
    document = json.loads(explain("node", "general-a", "-o", "json").stdout)
    first = document["methods"][-1]["obstacles"][0]
    assert first == {
        "code": "DoNotDisruptPod",
        "message": "protected by pod ci/build-7",
        "until": "2026-01-05T14:00:00Z",
        "permanent": False,
    }


def test_a_nodepool_has_what_is_allowed_now_its_budgets_limits_and_conditions(explain):
    drift = {"nodes": "0", "schedule": "10 9 * * *", "duration": "4h", "reasons": ["Drifted"]}
    pool = nodepool("general", limits={"cpu": "64"}, disruption={"budgets": [{"nodes": "50%"}, drift]})
    result = explain("nodepool", "general", pools=[pool])
    assert result.exit_code == 0
    rows = [line.split("  ") for line in result.stdout.splitlines()]
    text = {cells[0].strip(): [cell.strip() for cell in cells[1:] if cell.strip()] for cells in rows}
    assert text["Drift (Drifted)"] == ["0", "0", "13:10 UTC"]
    assert text["Emptiness (Empty)"] == ["1", "1", "never"]
    assert text["Expiration (Expired)"] == ["-", "-", "after 720h, regardless of budgets"]
    assert text["2 of 2"] == ["0", "0", "Drifted", "in force until 13:10 UTC", "10 9 * * * for 4h"]
    assert text["cpu"] == ["8", "64"]
    assert text["Ready"] == ["True"]


def test_a_nodepool_says_what_a_move_must_save(explain):
    pool = nodepool("general", disruption={"minSavings": "60%"})
    required = json.loads(explain("nodepool", "general", "-o", "json", pools=[pool]).stdout)["minSavings"]
    assert required["percentage"] == "60%"
    assert required["turnover"] == 1.0  # all pods were just bound
    told = f"minSavings 60%: consolidation must save ${required['dollarsPerHourAndEviction']:.4f}/h for each pod"
    assert told in explain("nodepool", "general", pools=[pool]).stdout


def test_documents_note_that_no_budget_applies_to_expiration(explain):
    hard, soft = nodepool("general"), nodepool("general", disruption={"expireAfter": "9h"})
    rows = [
        next(each for each in json.loads(text)["allowed"] if each["reason"] == "Expired")
        for text in (explain("nodepool", "general", "-o", "json", pools=[pool]).stdout for pool in (hard, soft))
    ]
    note = "after 720h, regardless of budgets"
    assert rows[0] == {"reason": "Expired", "limit": None, "left": None, "changesAt": None, "note": note}
    assert rows[1] == {"reason": "Expired", "limit": 1, "left": 1, "changesAt": None, "note": None}


def test_fields_that_the_installed_crd_dropped_are_named_with_their_annotation(capsys):
    pool = nodepool("general")
    annotations = {LAST_APPLIED: json.dumps({"spec": {"repair": {}}})}
    pool = msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, annotations=annotations))
    explained = explain_pool(pool, Planner().context(cluster(pools=[pool])))
    print_pool(explained, "text")
    assert "Not in effect: spec.repair: is in the manifest applied last" in " ".join(capsys.readouterr().out.split())
    assert ["dovetail.sh/repair: '{}'" in each for each in pool_document(explained)["dropped"]] == [True]


def test_a_nodepool_with_an_invalid_budget_is_blocked(explain):
    bad = nodepool("general", disruption={"budgets": [{"nodes": "1", "schedule": "0 9 * * *"}]})
    result = explain("nodepool", "general", pools=[bad])
    assert result.exit_code == 0
    assert "Blocked: a budget is invalid" in result.stdout


def test_a_pod_shows_its_node_its_protection_and_whether_it_can_be_evicted(explain):
    held = explain("pod", "ci/build-7").stdout
    assert "Running on node general-a" in held
    assert "Protected from disruption until 14:00 UTC." in held
    assert "Eviction would be allowed now." in held
    web = explain("pod", "default/web-1").stdout
    assert "PodDisruptionBudget default/web allows 0 evictions now, and never will unless it is changed" in web
    assert "Eviction would be refused" in web


def test_a_pending_pod_shows_why(explain):
    document = yaml.safe_load(explain("pod", "vast", "-o", "yaml").stdout)
    assert document["node"] is None
    assert document["waits"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("node", "genral-a"), "there is no node 'genral-a'; did you mean 'general-a'"),
        (("nodepool", "generl"), "there is no nodepool 'generl'; did you mean 'general'?"),
        (("pod", "ci/build"), "did you mean 'ci/build-7'"),
        (("nodepool", "zzz"), "there are general"),
    ],
)
def test_unknown_names_end_with_2_and_suggestions(explain, asked, words):
    result = explain(*asked)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_what_is_neither_node_nodepool_nor_pod_is_refused(explain):
    assert explain("gateway", "x").exit_code == 2
