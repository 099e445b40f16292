"""`dovetail history` as a command: filters, output formats and single decisions."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.observe.ledger import SqliteLedger
from dovetail.ports.ledger import (
    BudgetUse,
    Considered,
    DecisionOutcome,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerNode,
    PlannedPurchase,
    Refused,
    RefusedFor,
)

TUESDAY = datetime(2026, 1, 6, 10, 30, tzinfo=UTC)


class Clock:
    def now(self):
        return TUESDAY + timedelta(days=7)


def facts(node, pool="web", price=0.2):
    return LedgerNode(nodeclaim=f"{pool}-{node}", node=node, nodepool=pool, instance_type="m5.large", price=price)


def left(node, method, code, message, **lasting):
    return Refused(method=method, code=code, node=node, message=message, **lasting)


WEIGHED = Considered(
    purchases=(PlannedPurchase(nodepool="web", instance_types=("m5.large", "c5.large"), choices=4, price=0.1),),
    budgets=(BudgetUse(nodepool="web", used=1, limit=2),),
    counts=(
        RefusedFor(method="drift", code="NotDrifted", nodes=9),
        RefusedFor(method="single-node", code="PdbBlocked", nodes=1),
        RefusedFor(method="single-node", code="Waiting", nodes=30),
    ),
    refusals=(
        left("node-2", "drift", "NotDrifted", "not drifted: it matches its NodePool"),
        left("node-3", "single-node", "PdbBlocked", "pdb prevents pod evictions", permanent=True),
        left("node-4", "single-node", "Waiting", "inside its window", until=TUESDAY + timedelta(minutes=10)),
    ),
)


@pytest.fixture
def path(tmp_path):
    """A week in which one node was consolidated, one deleted by hand, and one launch failed."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path, Clock(), cluster="https://one")
    ledger.start()
    consolidated = LedgerEntry(
        id="c0ffee",
        at=TUESDAY,
        act=LedgerAction.DISRUPT,
        reason="Underutilized",
        why="replace: [node-1] -> [1 replacement] (savings: $0.10)",
        method="single-node",
        nodes=(replace(facts("node-1"), expires_at=TUESDAY + timedelta(days=20)),),
        replacements=1,
        pods=("shop/web-1", "shop/web-2"),
        cost_before=0.2,
        cost_after=0.1,
        considered=WEIGHED,
    )
    ledger.open(consolidated)
    ledger.close(
        "c0ffee",
        LedgerEnding(
            outcome=DecisionOutcome.DONE,
            at=TUESDAY + timedelta(minutes=3),
            made=(facts("node-9", price=0.1),),
            cost_after=0.1,
        ),
    )
    ledger.gone("c0ffee", "web-node-1", TUESDAY + timedelta(minutes=30))
    by_hand = LedgerEntry(
        id="bad",
        at=TUESDAY + timedelta(days=2),
        act=LedgerAction.REMOVE,
        reason="Manual",
        why="by hand",
        nodes=(facts("n2", "batch"),),
    )
    ledger.open(by_hand)
    ledger.stop(30)
    return path


def history(path, *arguments):
    return CliRunner().invoke(app, ["history", "--ledger", str(path), *arguments])


def test_who_took_my_node_last_tuesday(path):
    result = history(path, "--node", "node-1", "--since", "2026-01-06", "--until", "2026-01-07")
    assert result.exit_code == 0
    total, _, heading, line, *_ = result.stdout.splitlines()
    assert " ".join(heading.split()) == "WHEN (UTC) WHAT REASON NODES NODEPOOL PODS $/HOUR OUTCOME WHY"
    assert " ".join(line.split()) == (
        "2026-01-06 10:30:00 disrupted Underutilized node-1 web 2 0.200 -> 0.100 done"
        " replace: [node-1] -> [1 replacement] (savings: $0.10)"
    )
    # $0.10 for the replacement in the first half hour, then $0.20 - $0.10 for 13 hours
    assert total == "1 decision; 1 command saved $1.25 until 2026-01-07 00:00:00 UTC."


def test_a_saving_ends_when_the_node_would_have_expired(path):
    result = history(path, "c0ffee")
    saving = next(line for line in result.stdout.splitlines() if line.startswith("saving"))
    assert " ".join(saving.split()) == "saving saved $47.90 until 2026-01-26 10:30:00 UTC"


def test_the_saving_of_a_command_of_an_earlier_version_is_not_known(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "ALTER TABLE node DROP COLUMN gone_at; ALTER TABLE node DROP COLUMN expires_at;"
            "ALTER TABLE node DROP COLUMN used; ALTER TABLE node DROP COLUMN peers; PRAGMA user_version = 2;"
        )
    assert history(path).stdout.startswith("2 decisions; the saving of 1 command is not known.\n")
    document = json.loads(history(path, "c0ffee", "-o", "json").stdout)
    assert (document["saved"], document["savedUntil"], document["savingPerHour"]) == (None, None, None)
    total = json.loads(history(path, "--until", "2026-01-09", "-o", "json").stdout)["savings"]
    assert total == {"until": "2026-01-09T00:00:00Z", "saved": None, "commands": 0, "notCounted": 1}


def test_a_list_has_what_its_commands_saved_together(path):
    total = json.loads(history(path, "--until", "2026-01-07", "-o", "json").stdout)["savings"]
    assert total == {"until": "2026-01-07T00:00:00Z", "saved": 1.25, "commands": 1, "notCounted": 0}


def test_a_dry_run_saves_nothing(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE decision SET outcome = 'dry run' WHERE id = 'c0ffee'")
    assert len(history(path, "--reason", "Underutilized").stdout.splitlines()) == 2  # heading and row, no total
    assert "nothing saved: this was a dry run" in history(path, "c0ffee").stdout


def test_a_replacement_is_found_by_name_and_wide_shows_the_decision(path):
    result = history(path, "--node", "node-9", "-o", "wide")
    assert result.stdout.splitlines()[-1].split()[-1] == "c0ffee"
    assert "node-9" in result.stdout


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ((), ["bad", "c0ffee"]),
        (("--nodepool", "batch"), ["bad"]),
        (("--reason", "underutilized"), ["c0ffee"]),
        (("--since", "2026-01-07T00:00:00Z"), ["bad"]),
        (("--since", "1d"), []),
        (("--until", "2026-01-07"), ["c0ffee"]),
    ],
)
def test_scripts_get_a_document(path, question, found):
    document = json.loads(history(path, *question, "-o", "json").stdout)
    assert [each["id"] for each in document["decisions"]] == found


def test_yaml_says_the_same_as_json(path):
    until = ("--until", "2026-02-01")  # else up to now, which differs from one call to the next
    as_yaml, as_json = (history(path, *until, "-o", form).stdout for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_an_unfinished_decision_is_in_progress(path):
    result = history(path, "--node", "n2")
    assert "under way" in result.stdout


def test_an_empty_result_is_reported(path):
    assert "The ledger has no decision about gone." in history(path, "--node", "gone").stdout


def test_a_ledger_that_is_not_there_is_named_with_the_remedy(tmp_path):
    result = history(tmp_path / "none.db")
    assert result.exit_code == 2
    assert "none.db" in result.output
    assert "--ledger" in result.output


def test_an_invalid_time_is_refused_with_examples(path):
    result = history(path, "--since", "yesterday")
    assert result.exit_code == 2
    assert "7d" in result.output


def test_the_ledger_of_a_demo_can_be_read_afterwards(tmp_path):
    path = tmp_path / "demo.db"
    ended = CliRunner().invoke(
        app, ["demo", "--plain", "--for", "3m", "--speed", "max", "-o", "json", "--ledger", str(path)]
    )
    assert ended.exit_code == 0
    document = json.loads(history(path, "-o", "json").stdout)
    assert {each["reason"] for each in document["decisions"]} == {"Provisioned"}
    assert all(each["pods"] for each in document["decisions"])


def test_one_decision_has_its_plan_its_refusals_and_its_outcome(path):
    result = history(path, "c0f")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for wanted in (
        "Decision c0ffee: disrupt, Underutilized",
        "outcome done",
        "cost $0.200 -> $0.100 an hour",
        "saving saved $47.90 until 2026-01-26 10:30:00 UTC",
        "a node of web: m5.large or 3 others, from $0.100 an hour",
        "budget of web: 1 of 2",
        "single-node: PdbBlocked 1, Waiting 30",
        "node-3 permanent pdb prevents pod evictions",
        "node-4 until 10:40 UTC inside its window",
        "38 more not listed; -o wide lists more",
    ):
        assert wanted in lines
    assert "node-2" not in result.stdout  # none of that method's business
    assert "node-2" in history(path, "c0f", "-o", "wide").stdout


def test_scripts_get_one_decision_as_a_document(path):
    document = json.loads(history(path, "c0ffee", "-o", "json").stdout)
    (listed,) = [each for each in json.loads(history(path, "-o", "json").stdout)["decisions"] if each["id"] == "c0ffee"]
    assert listed.items() <= document.items()
    assert document["plan"]["budgetUsed"] == [{"nodepool": "web", "used": 1, "limit": 2}]
    assert [each["nodes"] for each in document["refusals"]["counts"]] == [9, 1, 30]
    assert document["refusals"]["named"][2]["until"] == "2026-01-06T10:40:00Z"
    assert yaml.safe_load(history(path, "c0ffee", "-o", "yaml").stdout) == document


def test_a_removal_without_a_pass_has_no_plan(path):
    result = history(path, "bad")
    assert "not decided by a disruption pass" in result.stdout
    assert json.loads(history(path, "bad", "-o", "json").stdout)["plan"] is None


@pytest.mark.parametrize(
    ("arguments", "said"), [(("dead",), "no decision 'dead'"), (("c0", "--node", "n"), "combined")]
)
def test_an_unknown_decision_is_refused(path, arguments, said):
    result = history(path, *arguments)
    assert result.exit_code == 2
    assert said in result.output
