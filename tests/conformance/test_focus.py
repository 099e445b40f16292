"""Exactly one spec is selected, whatever its name contains."""

import re

from conformance.report import Outcome, Result
from conformance.shard import Queue, focus_on


def test_the_focus_matches_the_whole_name_only():
    spec = "Integration Validation should allow ([*].node-restriction.kubernetes.io/custom-label) 'true'"
    focus = focus_on(spec)
    assert re.search(focus, f"Regression {spec}")
    assert not re.search(focus, f"Regression {spec} and more")
    assert not re.search(focus, f"Regression Other {spec}")


def test_workers_take_each_spec_once_and_a_failure_is_told_with_its_message():
    lines, recorded = [], []
    queue = Queue(["a", "b"], lines.append, recorded.append)
    assert [queue.take(), queue.take(), queue.take()] == ["a", "b", None]
    queue.report(1, Result("a", Outcome.PASSED, 3.0))
    queue.report(2, Result("b", Outcome.FAILED, 4.0, "why"))
    assert lines[0].split() == ["[", "1/2]", "shard", "1", "passed", "3", "s", "a"]
    assert lines[-1].strip() == "why"
    assert queue.results == recorded


def test_no_spec_is_taken_after_a_worker_failed():
    queue = Queue(["a", "b"], print, print)
    queue.drop()
    assert queue.take() is None


def test_specs_that_listen_on_the_same_port_run_one_after_the_other():
    queue = Queue([], print, print)
    assert queue.turn("Chaos a") is queue.turn("Chaos b")
    assert queue.turn("Drift a") is not queue.turn("Drift b")
