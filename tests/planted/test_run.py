"""The runner on a tiny project with one bug of each kind."""

import pytest

from planted import run
from planted.bug import Bug, load_bugs
from planted.table import passes, percentage, render, to_plain
from planted.trial import Plan, PlantedRun

SUM = "def add(one, other):\n    return one + other\n"
CHECK = "from dovetail.sum import add\n\n\ndef test_add():\n    assert add(1, 1) == 2\n"
RED = "def test_fails_in_any_case():\n    assert False\n"
TRIALS = """\
import json, sys
from dovetail.sum import add
for seed in [each for each in sys.argv[1:] if each != "--all"]:
    said = "" if add(2, 2) == 4 else "two and two is not four"
    print(json.dumps({"seed": int(seed), "seconds": 0.1, "said": said, "errors": []}))
    if said and "--all" not in sys.argv:
        sys.exit(1)
"""


def bug(name, before, after, tests=("tests/test_sum.py",)):
    return Bug(id=name, says="A bug.", file="sum.py", before=before, after=after, tests=tests, area="sums")


CAUGHT = bug("caught", "one + other", "one - other")
BY_TORTURE = bug("by-torture", "one + other", "one + other - (one == 2)")
SURVIVES = bug("survives", "one + other", "other + one")
UNIMPORTABLE = bug("unimportable", "def add", "from dovetail import nothing\n\n\ndef add")
UNNAMED = bug("unnamed", "one + other", "one + others")
HANGS = bug("hangs", "    return", "    while True:\n        pass\n    return")
UNJUDGED = bug("unjudged", "one + other", "one - other", ("tests/test_red.py",))
MISSING = bug("missing", "one * other", "one / other")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "src/dovetail/__init__.py": "",
        "src/dovetail/sum.py": SUM,
        "tests/test_sum.py": CHECK,
        "tests/test_red.py": RED,
        "tests/planted/torture.py": TRIALS,
        "tests/planted/reporting.py": (run.ROOT / "tests/planted/reporting.py").read_text(),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def plant(root, place, *bugs, **options):
    planted_run = PlantedRun(
        Plan(root=root, bugs=bugs, jobs=1, **{"seeds": range(2), **options}), place, lambda _: None
    )
    try:
        baseline = planted_run.baseline()
        return planted_run.results(baseline), baseline
    finally:
        planted_run.close()


def test_bugs_are_caught_survive_or_are_broken(project, tmp_path):
    results, baseline = plant(project, tmp_path, CAUGHT, BY_TORTURE, SURVIVES, UNIMPORTABLE, UNNAMED, MISSING)
    caught, by_torture, survives, *broken = results
    assert caught.caught
    assert caught.tests.failed == "tests/test_sum.py::test_add"
    assert caught.torture is None  # a test caught it already
    assert by_torture.caught
    assert not by_torture.tests.caught
    assert by_torture.torture.said == "two and two is not four"
    assert not survives.caught
    assert not survives.broken
    assert all(each.broken and not each.caught for each in broken)
    assert "ImportError" in broken[0].broken
    assert "NameError" in broken[1].broken
    assert "occurs 0 times" in broken[2].broken
    assert percentage(results) == pytest.approx(100 * 2 / 6)
    assert not passes(results, baseline)
    assert (project / "src/dovetail/sum.py").read_text() == SUM  # bugs are planted in a copy
    shown = render(results)
    assert max(map(len, shown.splitlines())) <= 80
    assert "survives: survives: no reason given" in shown
    assert [each["caught"] for each in to_plain(results, baseline)["bugs"]] == [True, True, False, False, False, False]


def test_a_test_that_fails_without_the_bug_makes_the_bug_broken(project, tmp_path):
    (result,), baseline = plant(project, tmp_path, UNJUDGED)
    assert "fails without the bug" in result.broken
    assert not passes([result], baseline)


def test_a_run_that_hangs_counts_as_caught(project, tmp_path, monkeypatch):
    monkeypatch.setattr("planted.trial.SHORTEST_TIMEOUT", 5.0)
    (result,), baseline = plant(project, tmp_path, HANGS)
    assert result.caught
    assert result.tests.hangs
    assert " hangs " in render([result])
    assert passes([result], baseline)


def test_trials_run_after_a_test_caught_the_bug_on_request(project, tmp_path):
    (result,), _ = plant(project, tmp_path, CAUGHT, always_torture=True)
    assert result.tests.caught
    assert result.torture.caught


def test_bugs_are_chosen_by_id_and_by_area():
    bugs = load_bugs()
    chosen = run.choose(bugs, ["lease-counted-from-the-answer", "repair"])
    assert {each.area for each in chosen} == {"leadership", "repair"}
    assert len([each for each in chosen if each.area == "leadership"]) == 1
    with pytest.raises(ValueError, match="nonsense"):
        run.choose(bugs, ["nonsense"])
