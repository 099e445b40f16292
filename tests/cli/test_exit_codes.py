"""The exit codes of docs/reference/exit-codes.md, for what can be tried without a cluster."""

from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from dovetail.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/exit-codes.md").read_text()
COMMANDS = sorted(typer.main.get_command(app).commands)
SNAPSHOT = ("--snapshot", str(ROOT / "examples/snapshots/office-hours.yaml"))
ABSENT = ("--snapshot", "absent.json")


def ended(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"DOVETAIL_LEDGER": "absent.db", "KUBECONFIG": "absent"})


def test_the_page_has_a_row_for_every_command():
    assert all(f"| `{name}` |" in PAGE for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_arguments_end_with_2(command):
    assert ended(command, "--no-such-option").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", *SNAPSHOT), 0),
        (("plan", *ABSENT), 2),
        (("explain", "node", "batch-1", *SNAPSHOT), 0),
        (("explain", "node", "absent", *SNAPSHOT), 2),
        (("budgets", "batch", *SNAPSHOT), 0),
        (("budgets", "absent", *SNAPSHOT), 2),
        (("history",), 2),
        (("top", "--once", *SNAPSHOT), 0),
        (("top", "--once", *ABSENT), 2),
        (("dashboard", *ABSENT), 2),
        (("snapshot", "-o", "absent/file.json", "--demo", "--at", "1m"), 2),
        (("adopt", *ABSENT), 2),
        (("validate", str(ROOT / "examples/nodepools/general.yaml")), 0),
        (("validate", str(ROOT / "docs/reference/exit-codes.md")), 1),
        (("validate", "absent.yaml"), 2),
        (("simulate", "absent.yaml"), 2),
        (("run",), 2),
        (("drain", "general-4", *SNAPSHOT), 1),
        (("drain", "batch-1", *SNAPSHOT), 0),
        (("drain", "absent", *SNAPSHOT), 2),
        (("crds",), 0),
    ],
)
def test_each_command_ends_as_the_page_says(arguments, code):
    result = ended(*arguments)
    assert result.exit_code == code, result.output
