"""Help and errors about arguments are written for users, not generated from Python types."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from dovetail.cli.app import app

COMMANDS = sorted(typer.main.get_command(app).commands)
GENERATED = re.compile(
    r"Input should|Value error|pydantic|unable to parse|errors\.pydantic|<(bool|str|int|path)", re.IGNORECASE
)


def said(*arguments):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_shows_placeholders_and_no_python_types(command):
    code, text = said(*command, "--help")
    assert code == 0
    assert not re.search(r"<\w+( range)?>", text)
    assert GENERATED.search(text) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("budgets", "a", "--days", "abc"), "Invalid value for '--days': 'abc' is not a whole number"),
        (("budgets", "a", "--days", "0"), "Invalid value for '--days': 0 is too small; the least is 1"),
        (("budgets", "a", "--days", "999"), "999 is too large; the most is 366"),
        (("budgets", "a", "--from", "soon"), "'soon' does not match a date such as 2026-01-31"),
        (("top", "--sort", "beauty"), "'beauty' is not one of 'pool', 'price', 'cpu'"),
        (("torture", "--seeds", "x"), "'x' is not a whole number"),
        (("plan", "--dry-run=maybe"), "Invalid value for --dry-run: 'maybe' is neither true nor false"),
    ],
)
def test_wrong_values_are_named_with_what_is_allowed(arguments, words):
    code, text = said(*arguments)
    assert code == 2
    assert words in text
    assert GENERATED.search(text) is None


def test_paragraphs_of_help_are_wrapped_by_the_terminal():
    """At 200 columns a paragraph is one line, whatever the width of its docstring."""
    lines = CliRunner().invoke(app, ["plan", "--help"], env={"COLUMNS": "200"}).output.splitlines()
    paragraph = next(line for line in lines if "computed by the controller" in line)
    assert len(paragraph.rstrip()) > 150


@pytest.mark.parametrize(
    ("name", "content", "arguments", "words"),
    [
        ("config", "contexts: 5", ("plan", "--kubeconfig"), "contexts must be a list, not a whole number"),
        (
            "pool.yaml",
            (
                "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a},"
                " spec: {disruption: {budgets: [nodes: [1]]}}}"
            ),
            ("budgets", "a", "--nodes", "3", "--file"),
            "spec.disruption.budgets[0].nodes: must be a whole number or text, not a list",
        ),
    ],
)
def test_wrong_types_in_files_are_worded_for_people(tmp_path, name, content, arguments, words):
    (tmp_path / name).write_text(content)
    code, text = said(*arguments, str(tmp_path / name))
    assert code == 2
    assert words in text
    assert "Expected `" not in text
