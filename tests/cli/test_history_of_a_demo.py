"""The ledger of a demo: a simulated cluster ends with its last decision, so nothing is saved after that."""

from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.observe.ledger import SqliteLedger
from dovetail.observe.ledger_query import SIMULATED_CLUSTER
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode

STARTED = datetime(2026, 1, 6, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Clock:
    def now(self):
        return STARTED + HOUR


@pytest.fixture
def ledger(tmp_path):
    """A node of $0.50 an hour is removed at ten, and one of $0.20 at eleven."""
    path = tmp_path / "demo.db"
    written = SqliteLedger(path, Clock(), cluster=SIMULATED_CLUSTER)
    written.start()
    for number, (price, at) in enumerate(((0.5, STARTED), (0.2, STARTED + HOUR))):
        node = LedgerNode(
            nodeclaim=f"web-{number}",
            node=f"n{number}",
            nodepool="web",
            instance_type="m5.large",
            price=price,
            expires_at=STARTED + timedelta(days=20),
        )
        entry = LedgerEntry(
            id=f"id{number}",
            at=at,
            act=LedgerAction.DISRUPT,
            reason="Empty",
            why="empty",
            nodes=(node,),
            cost_before=price,
        )
        written.open(entry)
        written.close(entry.id, LedgerEnding(outcome=DecisionOutcome.DONE, at=at, cost_after=0.0))
        written.gone(entry.id, node.nodeclaim, at)
    written.stop(30)
    return path


def printed(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_savings_of_a_demo_end_with_its_last_decision(ledger):
    assert "saved $0.50 until 2026-01-06 11:00:00 UTC" in printed("history", "--ledger", str(ledger))
    assert "saved $0.50 until 2026-01-06 11:00:00 UTC" in printed("history", "id0", "--ledger", str(ledger))


def test_a_later_end_of_the_window_adds_no_savings(ledger):
    lines = printed("history", "--ledger", str(ledger), "--until", "2026-06-01")
    assert "saved $0.50 until 2026-01-06 11:00:00 UTC" in lines


def test_a_node_can_be_named_as_for_kubectl(ledger):
    assert printed("history", "node/n0", "--ledger", str(ledger)) == printed(
        "history", "--node", "n0", "--ledger", str(ledger)
    )


def test_a_ledger_alone_explains_a_node_that_is_gone(ledger, monkeypatch, tmp_path):
    """Without a kubeconfig there is no cluster to ask."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    first, *_ = printed("explain", "node", "n0", "--ledger", str(ledger)).splitlines()
    assert first.startswith("Node n0: Removed ")
    assert first.endswith(", decision id0.")
    result = CliRunner().invoke(app, ["explain", "node", "ghost", "--ledger", str(ledger)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: no kubeconfig: ")
    assert f"The ledger {ledger} has no decision that removed it." in result.stderr
