"""Known failures are no surprise; everything else is."""

import json

from conformance.expected import FILE, Expectation, judge, read_expectations, split_unbuilt
from conformance.report import Outcome, Result

KNOWN = [
    Expectation("dovetail", "StaticCapacity", "later", run=False),
    Expectation("dovetail", "Drift should hash", "a hash of its own"),
]


def test_an_entry_covers_a_spec_or_all_specs_of_a_container():
    assert KNOWN[0].covers("StaticCapacity Drift should replace")
    assert not KNOWN[0].covers("StaticCapacityOther should replace")
    assert KNOWN[1].covers("Drift should hash")
    assert not KNOWN[1].covers("Drift should")


def test_specs_of_features_that_do_not_exist_are_listed_and_not_run():
    runnable, unbuilt = split_unbuilt(["Drift a", "StaticCapacity b", "Drift should hash"], KNOWN)
    assert runnable == ["Drift a", "Drift should hash"]
    assert unbuilt == [Result("StaticCapacity b", Outcome.NOT_BUILT, message="later")]


def test_only_failures_that_are_not_listed_are_unexpected():
    failed, known = Result("Drift a", Outcome.FAILED), Result("Drift should hash", Outcome.FAILED)
    slow, passed = Result("Drift b", Outcome.TIMED_OUT), Result("Drift c", Outcome.PASSED)
    verdict = judge([failed, known, slow, passed, Result("Drift d", Outcome.SKIPPED)], KNOWN)
    assert verdict.unexpected == (failed, slow)
    assert verdict.repaired == ()


def test_an_entry_that_is_no_longer_needed_is_reported():
    repaired = Result("Drift should hash", Outcome.PASSED)
    assert judge([repaired], KNOWN).repaired == (repaired,)


def test_the_committed_list_gives_a_reason_for_each_entry():
    entries = json.loads(FILE.read_text())
    assert all(entry["reason"] for entry in entries)
    assert {entry["controller"] for entry in entries} <= {"dovetail", "karpenter"}
    assert read_expectations("dovetail")
