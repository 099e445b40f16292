"""Every command that prints JSON or YAML says what the document is, with `apiVersion` and `kind`."""

import json
from datetime import UTC, datetime

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from docs.pages import ROOT
from dovetail.cli.app import app
from dovetail.observe.ledger_schema import connect, write_open
from dovetail.ports.ledger import LedgerAction, LedgerEntry, LedgerNode

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
EXAMPLE = ROOT / "examples" / "snapshots" / "office-hours.yaml"
SNAPSHOT = ("--snapshot", str(EXAMPLE))
SCENARIO = str(ROOT / "examples" / "scenarios" / "grace-period.yaml")
KIND_BY_ARGUMENTS = {
    ("plan", *SNAPSHOT): "Plan",
    ("plan", "--summary", *SNAPSHOT): "PlanSummary",
    ("plan", "--until-stable", *SNAPSHOT): "StableState",
    ("what-if", "--set", "nodepool/general.spec.weight=5", *SNAPSHOT): "WhatIf",
    ("explain", "node", "general-4", *SNAPSHOT): "NodeExplanation",
    ("explain", "nodepool", "general", *SNAPSHOT): "NodePoolExplanation",
    ("explain", "pod", "ml/train-1", *SNAPSHOT): "PodExplanation",
    ("explain", "node", "node-1", "--ledger", "LEDGER", *SNAPSHOT): "RemovedNode",
    ("budgets", "general", *SNAPSHOT): "BudgetCalendar",
    ("history", "--ledger", "LEDGER"): "History",
    ("history", "0123456789ab", "--ledger", "LEDGER"): "Decision",
    ("top", "--once", *SNAPSHOT): "ClusterNodes",
    ("drain", "batch-1", *SNAPSHOT): "DrainPreview",
    ("adopt", *SNAPSHOT): "AdoptionReport",
    ("validate", str(ROOT / "examples" / "nodepools")): "ValidationReport",
    ("simulate", SCENARIO, "--for", "30m"): "SimulationReport",
    ("simulate", SCENARIO, "--for", "30m", "--seeds", "1,2"): "SimulationComparison",
    ("demo", "--for", "2m", "--speed", "max"): "DemoSummary",
    ("snapshot", "--demo", "--at", "1m"): "Snapshot",
}


@pytest.fixture
def ledger(tmp_path):
    """A ledger with one decision, about a node that is gone."""
    path = tmp_path / "ledger.db"
    node = LedgerNode(nodeclaim="claim-1", node="node-1", nodepool="general")
    entry = LedgerEntry(
        id="0123456789ab", at=NOON, act=LedgerAction.DISRUPT, reason="Empty", why="empty", nodes=(node,)
    )
    connection = connect(path)
    with connection:
        write_open(connection, "", entry)
    connection.close()
    return path


def answer(arguments, form, ledger):
    output = [] if arguments[0] == "snapshot" else ["-o", form]  # writes its document in any case
    given = [str(ledger) if each == "LEDGER" else each for each in arguments]
    result = CliRunner().invoke(app, [*given, *output])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("arguments", KIND_BY_ARGUMENTS, ids=" ".join)
def test_a_document_says_what_it_is(arguments, ledger):
    load = yaml.safe_load if arguments[0] == "snapshot" else json.loads
    document = load(answer(arguments, "json", ledger))
    assert (document["apiVersion"], document["kind"]) == ("dovetail.sh/v1alpha1", KIND_BY_ARGUMENTS[arguments])
    assert list(document)[:2] == ["apiVersion", "kind"]


QUICK = [each for each in KIND_BY_ARGUMENTS if each[0] not in {"simulate", "demo", "snapshot"}]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_yaml_is_the_same_document(arguments, ledger):
    document = yaml.safe_load(answer(arguments, "yaml", ledger))
    assert (document["apiVersion"], document["kind"]) == ("dovetail.sh/v1alpha1", KIND_BY_ARGUMENTS[arguments])


def test_every_command_with_an_output_format_is_here():
    with_output = {
        name
        for name, command in get_command(app).commands.items()
        if any("--output" in parameter.opts for parameter in command.params)
    }
    assert with_output == {each[0] for each in KIND_BY_ARGUMENTS}
