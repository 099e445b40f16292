"""`dovetail history` and `explain node` of a removed node, from a ledger file and from the leader in the cluster.

The API server is a stand-in over real HTTP; the dashboard of the leader and its ledger are real.
"""

import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from socket import gethostname

import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, worker
from builders import nodepool
from cli.leader_cluster import LeaderCluster, served
from dovetail.cli.app import app
from dovetail.cli.dashboard_api import make_page
from dovetail.core.savings import NEVER_EXPIRES
from dovetail.dashboard.published_state import PublishedState
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.observe.ledger import SqliteLedger
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode
from dovetail.settings import Settings
from dovetail.wiring.system_clock import SystemClock

TOKEN = "a-token-of-the-page-itself"


@pytest.fixture
def two_hours_ago():
    """Read when the test starts, not when the file is collected: the savings asked for below end now."""
    return datetime.now(UTC) - timedelta(hours=2, minutes=5)


@pytest.fixture
def ledger(tmp_path, two_hours_ago):
    """A ledger in which node-1 was found empty and removed, and node-2 was launched."""
    path = tmp_path / "ledger.db"
    written = SqliteLedger(path, SystemClock(), cluster="https://one")
    written.start()
    gone = LedgerNode(nodeclaim="web-1", node="node-1", nodepool="web", instance_type="m5.large", price=0.2)
    gone = replace(gone, expires_at=NEVER_EXPIRES)
    entry = partial(LedgerEntry, at=two_hours_ago, cost_before=0.2)
    written.open(
        entry(
            id="c0ffee",
            act=LedgerAction.DISRUPT,
            reason="Empty",
            why="delete: [node-1]",
            method="emptiness",
            nodes=(gone,),
        )
    )
    written.close("c0ffee", LedgerEnding(outcome=DecisionOutcome.DONE, at=two_hours_ago + timedelta(minutes=3)))
    written.gone("c0ffee", "web-1", two_hours_ago + timedelta(minutes=5))
    written.open(entry(id="bead", act=LedgerAction.LAUNCH, reason="Provisioned", why="1 pod"))
    made = LedgerNode(nodeclaim="web-2", node="node-2", nodepool="web")
    written.close("bead", LedgerEnding(outcome=DecisionOutcome.DONE, at=two_hours_ago, made=(made,)))
    written.stop(30)
    return path


@contextmanager
def leading(tmp_path, ledger, api=None, **settings):
    """A cluster whose leader serves this ledger; yields a function that asks from another machine."""
    page = make_page(PublishedState(), Settings(**settings), ledger, 0)
    with page.served() as address, served(api or LeaderCluster(), tmp_path) as kubeconfig:
        port = address.rstrip("/").rpartition(":")[2]
        away = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": "", "DOVETAIL_LEDGER": "", "COLUMNS": "200"}

        def ask(*arguments, port=port):
            options = ["--kubeconfig", str(kubeconfig), "--dashboard-port", port]
            return CliRunner().invoke(app, [*arguments, *options], env=away)

        yield ask


def test_history_from_any_machine_is_the_history_of_the_leader(tmp_path, ledger, two_hours_ago):
    until = ("--until", (two_hours_ago + timedelta(minutes=65)).isoformat())
    with leading(tmp_path, ledger) as ask:
        result = ask("history", "--node", "node/node-1", *until, "-o", "json")
        one = ask("history", "decision/c0f", "-o", "json")
        text = ask("history", "--since", "1d")
    local = CliRunner().invoke(app, ["history", "--ledger", str(ledger), "--node", "node-1", *until, "-o", "json"])
    assert result.exit_code == one.exit_code == text.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads(local.stdout)
    assert [each["id"] for each in json.loads(result.stdout)["decisions"]] == ["c0ffee"]
    assert json.loads(result.stdout)["savings"]["saved"] == 0.2  # $0.20 an hour, gone for an hour
    assert json.loads(one.stdout)["kind"] == "Decision"
    assert json.loads(one.stdout)["saved"] == pytest.approx(0.4, abs=0.05)
    assert "Empty" in text.stdout
    assert "Provisioned" in text.stdout
    assert "2 decisions; 1 command saved $0.4" in text.stdout


def test_filters_are_applied_by_the_leader(tmp_path, ledger):
    with leading(tmp_path, ledger) as ask:
        assert ask("history", "--since", "1h", "-o", "name").stdout == ""
        assert ask("history", "--reason", "Empty", "-o", "name").stdout == "decision/c0ffee\n"


@pytest.mark.parametrize(
    ("api", "arguments", "words"),
    [
        (LeaderCluster(holder=""), (), "has no holder: no controller leads at the moment"),
        (
            LeaderCluster(renewed_at=datetime(2026, 1, 1, tzinfo=UTC)),
            (),
            (
                "no controller leads: dovetail-7d9c-x2x5z_0a1b2c has not renewed the Lease"
                " dovetail/karpenter-leader-election since 2026-01-01 00:00:00 UTC"
            ),
        ),
        (LeaderCluster(), ("-n", "karpenter"), "there is no Lease karpenter/karpenter-leader-election"),
        (
            LeaderCluster(forbidden=("leases",)),
            (),
            "may not read the Lease dovetail/karpenter-leader-election; grant get",
        ),
        (
            LeaderCluster(forbidden=("pods/portforward",)),
            (),
            "may not forward ports of the pod dovetail/dovetail-7d9c-x2x5z; grant get and create on pods/portforward",
        ),
        (LeaderCluster(holder="elsewhere_1"), (), "the leader elsewhere is no pod in namespace dovetail"),
        (LeaderCluster(), ("--pod", "other"), "the leader other is no pod"),
        (LeaderCluster(), ("dead",), "no decision 'dead'"),
    ],
)
def test_what_prevents_an_answer_is_named_with_the_fix(tmp_path, ledger, api, arguments, words):
    with leading(tmp_path, ledger, api) as ask:
        result = ask("history", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_dashboard_that_is_off_and_a_ledger_that_is_off_are_told_apart(tmp_path, ledger):
    with leading(tmp_path, ledger) as ask:
        nobody = ask("history", port="1")
    with leading(tmp_path, None) as ask:
        off = ask("history")
    assert nobody.exit_code == off.exit_code == 2
    assert (
        "does not answer on port 1; is its dashboard on another port (--dashboard-port) or disabled?" in nobody.stderr
    )
    assert "keeps no ledger" in off.stderr


def test_a_guarded_dashboard_gets_the_token_of_the_user_only_from_a_file(tmp_path, ledger):
    """The credentials of the kubeconfig go to the API server and never to a pod."""
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    api = LeaderCluster()
    with leading(tmp_path, ledger, api, dashboard_token_file=str(secret)) as ask:
        refused = ask("history")
        allowed = ask("history", "--token-file", str(secret), "-o", "name")
    assert refused.exit_code == 2
    assert "a token is required" in refused.stderr
    assert "--token-file" in refused.stderr
    assert allowed.stdout.split() == ["decision/bead", "decision/c0ffee"]
    assert {credential for _, credential in api.seen} == {"Bearer credential-of-the-user"}


def test_a_leader_on_this_host_outside_a_pod_has_its_ledger_here(tmp_path, ledger):
    home = tmp_path / "home/.local/state/dovetail"
    home.mkdir(parents=True)
    ledger.rename(home / "ledger.db")
    with leading(tmp_path, None, LeaderCluster(holder=f"{gethostname()}_1")) as ask:
        assert ask("history", "-o", "name").stdout.split() == ["decision/bead", "decision/c0ffee"]


def test_without_a_cluster_the_error_names_both_places(tmp_path):
    away = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "DOVETAIL_LEDGER": ""}
    result = CliRunner().invoke(app, ["history"], env=away)
    assert result.exit_code == 2
    assert "no kubeconfig" in result.stderr
    assert "--ledger" in result.stderr


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(snapshot_bytes(cluster(worker("node-3", pool="web"), pools=[nodepool("web")])))
    return path


def explain(snapshot, *arguments):
    return CliRunner().invoke(app, ["explain", *arguments, "--snapshot", str(snapshot)])


@pytest.mark.parametrize("name", ["node/node-1", "nodeclaim/web-1"])
def test_a_removed_node_is_explained_from_history(snapshot, ledger, name):
    result = explain(snapshot, name, "--ledger", str(ledger))
    assert result.exit_code == 0, result.output
    first, second, third, *_ = result.stdout.splitlines()
    assert first.endswith(": Empty, by emptiness, decision c0ffee.")
    assert first.startswith(f"Node {name.partition('/')[2]}: Removed ")
    assert "; saved $0.4" in second
    assert second.endswith(", and $0.200 an hour now")
    assert third == "delete: [node-1]"
    document = json.loads(explain(snapshot, name, "--ledger", str(ledger), "-o", "json").stdout)
    assert (document["kind"], document["decision"]["id"]) == ("RemovedNode", "c0ffee")


def test_a_node_that_is_nowhere_is_said_to_be_looked_for_in_both_places(snapshot, ledger):
    launched_only = explain(snapshot, "node", "node-2", "--ledger", str(ledger))
    without = explain(snapshot, "node", "node-1")
    assert launched_only.exit_code == without.exit_code == 2
    assert "there is no node 'node-2'; did you mean 'node-3'?" in launched_only.stderr
    assert f"The ledger {ledger} has no decision that removed it." in launched_only.stderr
    assert "A snapshot has no history; name a ledger file with --ledger." in without.stderr
