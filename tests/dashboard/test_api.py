"""The documents of the page equal the output of the command line."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, running, shielded, worker
from builders import NOON, nodepool
from dashboard.pages import page_served
from dovetail.cli.app import app
from dovetail.core.savings import NEVER_EXPIRES
from dovetail.manifest.snapshot_file import read_snapshot_file, snapshot_bytes
from dovetail.observe.ledger import SqliteLedger
from dovetail.ports.ledger import (
    BudgetUse,
    Considered,
    DecisionOutcome,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerNode,
    Refused,
    RefusedFor,
)

HOURS = {"budgets": [{"nodes": "1"}, {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]}


WEIGHED = Considered(
    budgets=(BudgetUse(nodepool="default", used=1, limit=None),),
    counts=(RefusedFor(method="drift", code="NotDrifted", nodes=3),),
    refusals=(Refused(method="drift", code="NotDrifted", node="b", message="not drifted"),),
)


class At:
    def now(self):
        return NOON


def some_cluster():
    nodes = [worker("a", running("x", "a")), worker("b"), worker("c", shielded("y", "c")), worker("d", pool="calm")]
    return cluster(*nodes, pools=[nodepool(disruption=HOURS, limits={"cpu": "64"}), nodepool("calm")])


def decided(number, reason, before, after, outcome=DecisionOutcome.DONE):
    at = NOON - timedelta(hours=number)
    facts = LedgerNode(
        nodeclaim=f"claim-{number}", node=f"node-{number}", nodepool="default", price=before, expires_at=NEVER_EXPIRES
    )
    entry = LedgerEntry(
        id=f"decision-{number}",
        at=at,
        act=LedgerAction.DISRUPT,
        reason=reason,
        why="because",
        nodes=(facts,),
        cost_before=before,
        cost_after=after,
        considered=WEIGHED if number == 2 else None,
    )
    made = (LedgerNode(nodeclaim=f"new-{number}", nodepool="default", price=after),) if after else ()
    return entry, LedgerEnding(outcome=outcome, at=at + timedelta(minutes=1), made=made)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    kept = SqliteLedger(path, At())
    kept.start()
    for entry, ending in (
        decided(1, "Empty", 1.0, 0.0),
        decided(2, "Underutilized", 1.0, 0.25),
        decided(3, "Empty", 0.5, 0.0),
        decided(4, "Underutilized", 4.0, 0.0, DecisionOutcome.ROLLED_BACK),
        decided(100, "Drifted", 1.0, 1.5),
    ):
        kept.open(entry)
        kept.close(entry.id, ending)
        if ending.outcome is DecisionOutcome.DONE:
            kept.gone(entry.id, entry.nodes[0].nodeclaim, entry.at)
    kept.stop()
    return path


@pytest.fixture(scope="module")
def served(ledger):
    with page_served(some_cluster(), ledger=ledger) as page:
        yield page


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "cluster.json"
    path.write_bytes(snapshot_bytes(some_cluster()))
    return path


def printed(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/api/plan", ["plan"]),
        ("/api/explain/node/a", ["explain", "node", "a"]),
        ("/api/explain/node/c", ["explain", "node", "c"]),
        ("/api/explain/nodepool/default", ["explain", "nodepool", "default"]),
        ("/api/explain/pod/default/y", ["explain", "pod", "default/y"]),
        ("/api/budgets/default", ["budgets", "default"]),
        ("/api/budgets/default?from=2026-03-01&days=2", ["budgets", "default", "--from", "2026-03-01", "--days", "2"]),
    ],
)
def test_a_document_of_the_page_is_that_of_the_command(path, command, served, kept):
    assert served.ask(path).json == printed(*command, "--snapshot", kept)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", []),
        ("?reason=empty", ["--reason", "empty"]),
        ("?node=node-2", ["--node", "node-2"]),
        ("?since=2026-01-05T09:30:00Z", ["--since", "2026-01-05T09:30:00Z"]),
    ],
)
def test_decisions_are_those_of_history(query, options, served, ledger):
    answer = served.ask(f"/api/history{query}").json
    assert answer == printed("history", "--ledger", ledger, "--until", NOON.isoformat(), *options)
    assert answer["decisions"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_decision_has_the_plan_and_refusals_of_the_history_command(number, served, ledger):
    answer = served.ask(f"/api/decision/decision-{number}").json
    command = printed("history", f"decision-{number}", "--ledger", ledger)
    later = {key: command[key] for key in ("saved", "savedUntil", "savingPerHour")}  # the command is asked months later
    assert answer | later == command
    assert (answer["plan"] is None, answer["refusals"] is None) == (number == 1, number == 1)


def test_a_duration_counts_back_from_the_time_of_the_snapshot(served):
    ids = [each["id"] for each in served.ask("/api/history?since=150m").json["decisions"]]
    assert ids == ["decision-1", "decision-2"]


def test_savings_are_dollars_of_successful_commands(served):
    answer = served.ask("/api/savings").json
    assert answer["byReason"] == [
        {"reason": "Empty", "commands": 2, "nodes": 2, "saved": 2.5},
        {"reason": "Underutilized", "commands": 2, "nodes": 2, "saved": 1.5},
        {"reason": "Drifted", "commands": 1, "nodes": 1, "saved": -50.0},
    ]
    assert (answer["saved"], answer["savingPerHour"], answer["notCounted"]) == (-46.0, 1.75, 0)
    assert (answer["since"], answer["until"]) == ("2026-01-01T08:00:00Z", "2026-01-05T12:00:00Z")
    assert (answer["steps"][0]["saved"], answer["steps"][-1]["saved"]) == (0.0, -46.0)
    assert answer["costPerHour"] == 4.0
    assert 0 < answer["lowerBoundPerHour"] <= answer["costPerHour"]
    assert answer["lowerBoundAt"] == answer["at"]


def test_a_window_has_what_older_commands_saved_in_it(served):
    answer = served.ask("/api/savings?since=24h").json
    assert (answer["saved"], answer["since"]) == (-8.0, "2026-01-04T12:00:00Z")
    assert answer["byReason"][-1] == {"reason": "Drifted", "commands": 1, "nodes": 1, "saved": -12.0}


def test_without_a_ledger_the_page_says_so_and_shows_the_rest():
    with page_served(some_cluster()) as page:
        assert page.ask("/api/history").json == {
            "decisions": [],
            "missing": "this process keeps no ledger, so there are no past decisions",
        }
        answer = page.ask("/api/savings").json
        assert (answer["costPerHour"], answer["saved"], answer["steps"]) == (4.0, None, [])
        assert answer["missing"] == "this process keeps no ledger, so past savings are not known"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/explain/node/nobody", 404, "there is no node 'nobody'"),
        ("/api/explain/nodepool/none", 404, "there is no nodepool 'none'"),
        ("/api/explain/pod/default/none", 404, "there is no pod default/none"),
        ("/api/decision/none", 404, "the ledger has no decision 'none'; dovetail history -o wide lists their ids"),
        ("/api/budgets/default?days=0", 400, "days must be a number from 1 to 366, got '0'"),
        ("/api/budgets/default?from=soon", 400, "from must be a date such as 2026-01-31, got 'soon'"),
        ("/api/history?since=soon", 400, "'soon' is not a time"),
        ("/api/history?most=many", 400, "most must be a number of at most nine digits, got 'many'"),
        ("/api/nothing", 404, "Not Found"),
    ],
)
def test_a_bad_request_gets_an_error_message(path, status, said, served):
    answer = served.ask(path)
    assert answer.status == status
    assert said in answer.json["error"]


def test_before_the_cluster_is_read_requests_get_the_missing_parts():
    with page_served() as page:
        page.published_state.publish(None, ("pods are not listed yet",))
        answer = page.ask("/api/plan")
        assert (answer.status, answer.json) == (503, {"error": "pods are not listed yet"})


def test_the_downloaded_snapshot_can_be_read_again(served, kept):
    assert served.ask("/api/snapshot").body == kept.read_bytes()
    assert read_snapshot_file(served.ask("/api/snapshot").body).at == NOON
