"""Nothing that users or clusters name reaches a terminal as an escape sequence."""

import io
import json

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.cli.safe_output import json_text, make_console, yaml_text
from dovetail.model.printable import printable, printable_json

NASTY = "a\x1b]0;title\x07\x1b[2J\x9b31m\r\u202eb\u2066c\ud800\x00d\u200e"


def is_safe(text):
    return all(each.isprintable() or each in "\n\t" for each in text)


def test_printable_text_stays_and_the_rest_is_escaped():
    assert printable("Zoë\n\t日本") == "Zoë\n\t日本"
    assert printable("\x1b[2J\u202e") == "\\x1b[2J\\u202e"
    assert is_safe(printable(NASTY))


def test_json_reads_the_same():
    text = json_text({"a": NASTY, "b": "\U000e0001\u00fc"})
    assert is_safe(text)
    assert json.loads(text) == {"a": NASTY, "b": "\U000e0001\u00fc"}
    assert printable_json('"\u00fc"') == '"\u00fc"'


def test_yaml_reads_the_same():
    document = {"a": NASTY.replace("\ud800", ""), "b": "\u00fc"}
    assert is_safe(yaml_text(document))
    assert yaml.safe_load(yaml_text(document)) == document
    assert yaml_text({"b": "\u00fc"}) == "b: \u00fc\n"


def test_a_console_keeps_its_own_styles_and_no_others():
    paper = io.StringIO()
    make_console(file=paper, force_terminal=True, color_system="standard").print(NASTY, style="red")
    assert paper.getvalue().startswith("\x1b[31m")
    assert paper.getvalue().count("\x1b") == 2, "red, and back"
    assert "\x9b" not in paper.getvalue()
    assert "\u202e" not in paper.getvalue()


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_validate_shows_nothing_that_moves_the_cursor(tmp_path, output):
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "x\x1b[2J"},
        "spec": {"\x1b[31m": 1},
    }
    (tmp_path / "a\x1b[2J.json").write_text(json.dumps(pool))
    result = CliRunner().invoke(app, ["validate", str(tmp_path), "-o", output])
    assert result.exit_code == 1
    assert is_safe(result.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ["no\x1b[2Jcommand"],
        ["validate", "x", "--no\x1b[2Jsuch"],
        ["plan", "more\x1b[2J"],
        ["validate", "\x1b[2J"],
        ["budgets", "\x1b[2J", "-f", "\x1b[2J"],
        ["demo", "--speed", "\x1b[2J"],
        ["simulate", "\x1b[2J.yaml"],
        ["plan", "--snapshot", "\x1b[2J"],
        ["plan", "--feature-gates", "\x1b[2J"],
        ["history", "--ledger", "\x1b[2J"],
    ],
)
def test_arguments_are_shown_safely(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert is_safe(result.output)
