"""Text is parsed where it enters and made where it leaves: decisions handle values."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "dovetail"
DECIDING = ("core", "controllers", "dashboard", "observe")
PARSING = re.compile(r"\b(parse_budget|(Schedule|Duration|Delay)\.parse)\b")
COMPARING = re.compile(r"""\.code (==|!=|in|not in) [("'{]""")


def found(pattern, *packages):
    return [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for package in packages
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if pattern.search(line)
    ]


def test_no_decision_parses_a_budget_a_schedule_or_a_duration():
    assert found(PARSING, *DECIDING) == []
    assert found(PARSING, "model"), "the pattern finds what it is for"


def test_no_code_of_a_refusal_is_compared_with_text():
    assert found(COMPARING, *DECIDING, "cli") == []
    assert COMPARING.search('if refusal.code == "Budget":')
