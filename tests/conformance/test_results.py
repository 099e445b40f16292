"""Results of earlier runs stay until a spec runs again, and order the next run."""

from conformance.report import Outcome, Result
from conformance.results import longest_first, merge, read_results, summary, table, write_results

SPECS = ["Drift a", "Drift b", "Termination c"]


def test_a_run_replaces_only_what_it_ran(tmp_path):
    first = merge({}, SPECS, "dovetail", [Result("Drift a", Outcome.FAILED, 9.0, "why")], "2026-01-01")
    second = merge(first, SPECS, "dovetail", [Result("Drift b", Outcome.PASSED, 1.0)], "2026-01-02")
    third = merge(second, SPECS, "karpenter", [Result("Drift a", Outcome.PASSED, 2.0)], "2026-01-03")
    write_results(third, {"karpenter": "v1"}, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == {
        "Drift a": {
            "dovetail": {"outcome": "failed", "seconds": 9.0, "message": "why", "date": "2026-01-01"},
            "karpenter": {"outcome": "passed", "seconds": 2.0, "date": "2026-01-03"},
        },
        "Drift b": {"dovetail": {"outcome": "passed", "seconds": 1.0, "date": "2026-01-02"}},
        "Termination c": {},
    }


def test_a_spec_that_the_suite_no_longer_has_is_dropped():
    old = merge({}, ["Drift old"], "dovetail", [Result("Drift old", Outcome.PASSED)], "2026-01-01")
    assert merge(old, SPECS, "dovetail", [], "2026-01-02") == {spec: {} for spec in SPECS}


def test_the_longest_spec_is_first_and_an_unknown_one_counts_as_two_minutes():
    recorded = merge({}, SPECS, "karpenter", [Result("Drift a", Outcome.PASSED, 10.0)], "d")
    recorded = merge(recorded, SPECS, "dovetail", [Result("Termination c", Outcome.PASSED, 900.0)], "d")
    assert longest_first(SPECS, recorded) == ["Termination c", "Drift b", "Drift a"]


def test_the_table_has_both_controllers_side_by_side():
    recorded = merge({}, SPECS, "dovetail", [Result("Drift a", Outcome.NOT_BUILT)], "d")
    recorded = merge(recorded, SPECS, "karpenter", [Result("Drift a", Outcome.PASSED, 1.0)], "d")
    assert "not built yet  passed         Drift a" in table(recorded, SPECS).splitlines()
    assert summary(recorded) == [
        "dovetail: 1 not built yet, 2 not run of 3",
        "karpenter: 1 passed, 2 not run of 3",
    ]
