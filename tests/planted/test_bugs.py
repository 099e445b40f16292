"""The planted bugs are data: here they are checked without running any, so that a refactoring cannot lose them."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from planted.bug import load_bugs
from planted.table import WIDTHS

ROOT = Path(__file__).parents[2]
BUGS = load_bugs()
AREAS = {
    "aws provider",
    "budgets",
    "caches",
    "candidates",
    "eviction",
    "executor",
    "garbage",
    "informer",
    "interruption",
    "kube client",
    "leadership",
    "lifecycle",
    "methods",
    "provisioning",
    "repair",
    "termination",
}
FEWEST = 40


def test_there_are_enough_of_them_in_every_area():
    assert len(BUGS) >= FEWEST
    assert {bug.area for bug in BUGS} == AREAS


def test_ids_are_unique_and_fit_the_table():
    assert [each for each, number in Counter(bug.id for bug in BUGS).items() if number > 1] == []
    assert [bug.id for bug in BUGS if len(bug.id) > WIDTHS[0]] == []


def test_each_is_one_sentence():
    assert [bug.id for bug in BUGS if not bug.says.endswith(".") or "\n" in bug.says] == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_it_can_be_planted_and_compiles(bug):
    text = (ROOT / bug.path).read_text()
    planted = bug.plant(text)  # raises unless its text occurs exactly once
    assert planted != text
    ast.parse(planted)


def test_no_name_in_them_is_undefined(tmp_path):
    for bug in BUGS:
        (tmp_path / f"{bug.id}.py").write_text(bug.plant((ROOT / bug.path).read_text()))
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    checked = subprocess.run(
        [ruff, "check", "--isolated", "--select", "F821,F823,E9", "--target-version", "py311", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def functions_of(path):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, kinds)}


def test_the_tests_they_name_exist():
    missing = []
    for target in sorted({target for bug in BUGS for target in bug.tests}):
        name, *parts = target.split("::")
        path = ROOT / name
        known = functions_of(path) if path.is_file() else set()
        if not path.is_file() or not {part.partition("[")[0] for part in parts} <= known:
            missing.append(target)
    assert missing == []


def test_each_says_what_should_catch_it_or_why_nothing_does():
    assert [bug.id for bug in BUGS if not bug.tests and not bug.seeds and not bug.survives_because] == []
