"""The reference pages of commands and settings follow from the commands themselves."""

from pathlib import Path

import pytest

from dovetail.cli.generate_reference import cli_page, generated, settings_page
from dovetail.settings import setting_fields

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", generated())
def test_generated_pages_are_up_to_date(path):
    assert (ROOT / path).read_text(encoding="utf-8") == generated()[path], "run make generate"


def test_every_setting_has_a_row_with_flag_variable_and_default():
    page = settings_page()
    for setting in setting_fields():
        assert f"| `{setting.flag}` | `{setting.variable}` |" in page


def test_every_command_has_its_options_and_no_markup_of_the_terminal():
    page = cli_page()
    assert all(f"## dovetail {name}" in page for name in ("demo", "validate", "run", "crds"))
    assert "`--strict`" in page
    assert "[bold]" not in page
