"""The guide to draining by hand shows what the command prints."""

import shlex

import pytest
from typer.testing import CliRunner

from docs.pages import ROOT, blocks
from dovetail.cli.app import app

GUIDE = ROOT / "docs" / "guides" / "manual-disruption.md"
CALLS = [block.text.strip() for block in blocks(GUIDE, "sh") if "--snapshot" in block.text]
SHOWN = blocks(GUIDE, "text")


@pytest.mark.parametrize(("call", "shown"), list(zip(CALLS, SHOWN, strict=True)), ids=CALLS)
def test_the_guide_shows_what_is_printed(call, shown, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, shlex.split(call)[1:])
    assert result.stdout == shown.text
    assert result.exit_code == (1 if "stuck" in shown.text else 0)
