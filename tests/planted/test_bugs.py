"""Checks the entries of planted bugs without running them, so that a refactoring keeps them valid."""

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
    "node opening",
    "providers",
    "provisioning",
    "repair",
    "termination",
}
FEWEST = 40


def test_every_area_has_bugs():
    assert len(BUGS) >= FEWEST
    assert {bug.area for bug in BUGS} == AREAS


def test_ids_are_unique_and_fit_the_table():
    assert [each for each, number in Counter(bug.id for bug in BUGS).items() if number > 1] == []
    assert [bug.id for bug in BUGS if len(bug.id) > WIDTHS[0]] == []


def test_each_description_is_one_sentence():
    assert [bug.id for bug in BUGS if not bug.says.endswith(".") or "\n" in bug.says] == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_each_bug_can_be_planted_and_compiles(bug):
    text = (ROOT / bug.path).read_text()
    planted = bug.plant(text)  # raises unless its text occurs exactly once
    assert planted != text
    ast.parse(planted)


def test_planted_bugs_use_no_undefined_names(tmp_path):
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


def test_the_named_tests_exist():
    missing = []
    for target in sorted({target for bug in BUGS for target in bug.tests}):
        name, *parts = target.split("::")
        path = ROOT / name
        known = functions_of(path) if path.is_file() else set()
        if not path.is_file() or not {part.partition("[")[0] for part in parts} <= known:
            missing.append(target)
    assert missing == []


def test_each_bug_names_tests_or_seeds_or_a_reason_to_survive():
    assert [bug.id for bug in BUGS if not bug.tests and not bug.seeds and not bug.survives_because] == []
