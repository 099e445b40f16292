"""The table of this directory names tests that exist, and leaves no number out."""

import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = (HERE / "README.md").read_text()


def test_every_test_the_table_names_exists():
    written = "\n".join(path.read_text() for path in HERE.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert sorted(name for name in named if f"def {name}(" not in written) == []


def test_every_file_the_table_names_exists():
    files = set(re.findall(r"`([\w/]+\.py)`", TABLE))
    assert sorted(name for name in files if not (HERE / name).exists() and not (HERE.parent / name).exists()) == []


def test_every_number_has_a_row():
    numbers = set()
    for cell in re.findall(r"^\| ([-\d, ]+) \|", TABLE, re.MULTILINE):
        for part in cell.split(","):
            first, _, last = part.strip().partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    assert numbers == set(range(1, 176))
