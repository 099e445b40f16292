"""The troubleshooting page quotes messages and names that the product really prints."""

import re

import pytest

from docs.pages import ROOT

PAGE = ROOT / "docs" / "guides" / "troubleshooting.md"
ROWS = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
ENTRIES = [row for row in ROWS if len(row) == 3 and row[0] != "| symptom"]
SOURCE = " ".join(
    path.read_text().replace('" f"', "").replace('"\n', "") for path in sorted((ROOT / "src").rglob("*.py"))
)
JOINED = re.sub(r"\s+", " ", SOURCE)
OF_KUBERNETES = {"Ready", "Forbidden", "Unschedulable", "OOMKilled"}


def quoted(row):
    """Messages and reasons in the symptom: quotes with a space, or names in camel case."""
    found = re.findall(r"`([^`]+)`", row[0])
    return [each for each in found if " " in each or re.fullmatch(r"(?:[A-Z][a-z]+){2,}", each)]


@pytest.mark.parametrize("quote", sorted({each for row in ENTRIES for each in quoted(row)} - OF_KUBERNETES), ids=str)
def test_a_quoted_message_is_one_that_the_product_prints(quote):
    assert quote in JOINED


def test_there_are_enough_entries_and_each_says_how_to_see_it_and_how_to_fix_it():
    assert len(ENTRIES) >= 25
    assert all(row[2].strip(" |") for row in ENTRIES)
