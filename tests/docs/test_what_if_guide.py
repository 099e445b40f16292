"""The guide to comparing settings shows what `dovetail what-if` prints, to the letter."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from docs.pages import ROOT
from dovetail.cli.app import app

GUIDE = ROOT / "docs" / "guides" / "what-if.md"
SHOWN = re.findall(
    r"^```sh\n(dovetail what-if [^\n]*)\n```\n\n```text\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("call", "printed"), SHOWN, ids=[call for call, _ in SHOWN])
def test_the_guide_shows_what_the_command_prints(call, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(call)[1:])
    assert result.exit_code == 0
    assert result.stdout == printed


def test_the_guide_shows_the_command():
    assert len(SHOWN) >= 3
