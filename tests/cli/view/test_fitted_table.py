"""Tables at 80 columns with the long names of real clusters: no line is too long, and no word is split."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cli.safe_output import make_console
from dovetail.cli.view.fitted_table import break_offsets, fitted_widths
from dovetail.cli.view.printing import plain_table

NODE = "ip-10-0-123-45.eu-central-1.compute.internal"
POD = "default/checkout-service-6f7d9c5b4-x2x5z"
POOL = "general-purpose-amd64-spot"
TABLES = {
    "plan": (
        ("LEFT ALONE", "LASTS", "BECAUSE"),
        (NODE, "until Mon 05 Jan 17:10 UTC", f"pdb prevents pod evictions (PodDisruptionBudget=[{POD}]) for pod {POD}"),
    ),
    "unpriced": (
        ("NODE", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "PODS", "KNOWN OBSTACLES"),
        (NODE, POOL, "m5.2xlarge", "on-demand", "eu-central-1a", "12", f"protected by pod {POD}"),
    ),
    "commands": (
        ("COMMAND", "REASON", "NODES", "PODS MOVED", "$/MONTH", "REPLACED BY", "BUDGET USED"),
        ("replace (single-node)", "Underutilized", NODE, "3", "1,460.00", f"m5.large of {POOL}", f"{POOL}: 2 of 2"),
    ),
    "drain": (
        ("TIER", "POD", "STATE", "SINCE", "LASTS", "WHY"),
        ("1 pods", POD, "blocked", "12:00:00", "permanent", "pdb prevents pod evictions (PodDisruptionBudget=[a/web])"),
    ),
    "removed": (
        ("REMOVED", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "$/HOUR"),
        (NODE, POOL, "m5.2xlarge", "on-demand", "eu-central-1a", "0.460"),
    ),
    "history": (
        ("WHEN (UTC)", "WHAT", "REASON", "NODES", "NODEPOOL", "PODS", "$/HOUR", "OUTCOME", "WHY"),
        (
            "2026-11-18 13:46:42",
            "disrupted",
            "Underutilized",
            f"{NODE}, {NODE}",
            POOL,
            "12",
            "0.46 -> 0.20",
            "done",
            NODE,
        ),
    ),
    "simulation": (
        (
            "NODEPOOL",
            "COST",
            "LAUNCHED",
            "REMOVED",
            "MOST",
            "EVICTIONS",
            "PENDING",
            "LEAVING",
            "BUDGET USED",
            "DISRUPTED",
        ),
        (POOL, "$1,234.56", "120", "119", "40", "1,200", "12.5 h", "3", "12 (10%)", "Empty 100, Underutilized 19"),
    ),
}


def drawn(headings, *rows, width=80):
    buffer = io.StringIO()
    table = plain_table(*headings)
    for row in rows:
        table.add_row(*row)
    make_console(file=buffer, width=width, color_system=None).print(table)
    return buffer.getvalue()


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("name", TABLES)
def test_no_line_is_too_long_and_no_word_is_split(name, width):
    headings, row = TABLES[name]
    text = drawn(headings, row, width=width)
    assert max(map(len, text.splitlines())) <= width
    allowed = set(re.findall(r"[^\s/.\-=,:_]+", " ".join((*headings, *row))))
    assert set(re.findall(r"[^\s/.\-=,:_]+", text)) == allowed


@pytest.mark.parametrize("room", range(20, 120, 5))
def test_short_words_stay_whole_even_if_they_have_punctuation(room):
    columns = [["WHEN", "2026-11-18 13:46:42"], ["NODE", NODE], ["WHY", f"protected by pod {POD}"]]
    widths = fitted_widths(columns, room)
    assert widths is None or (widths[0] >= len("2026-11-18") and sum(widths) <= room)


def test_a_table_that_fits_is_not_wrapped():
    headings, row = TABLES["removed"]
    assert len(drawn(headings, row, width=132).splitlines()) == 2


def test_a_table_with_too_many_columns_is_drawn_as_records():
    headings, row = TABLES["simulation"]
    first, second, *_ = drawn(headings, row).splitlines()
    assert first == f"NODEPOOL {POOL}"
    assert second == "  COST $1,234.56  LAUNCHED 120  REMOVED 119  MOST 40  EVICTIONS 1,200"


@given(st.text("ab/-. ", max_size=60), st.integers(1, 30))
def test_broken_lines_fit_and_lose_nothing(text, width):
    offsets = break_offsets(text, width)
    parts = [text[start:end] for start, end in zip([0, *offsets], [*offsets, len(text)], strict=True)]
    assert "".join(parts) == text
    assert all(len(part.rstrip()) <= width for part in parts)
