"""The examples and timelines of the design "do-not-disrupt grace period", at their exact instants."""

from datetime import UTC, datetime, timedelta

import pytest

from acceptance.fleet import (
    DO_NOT_DISRUPT,
    ON_DEMAND,
    cluster,
    drifted,
    free,
    pdb,
    planned,
    running,
    taken,
    why_not,
    worker,
)
from builders import LARGE, SMALL, stamped
from dovetail.core.disruption.candidates import pod_blocks
from dovetail.model.do_not_disrupt import protection

TEN = datetime(2024, 1, 1, 10, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def pod(value, name="x", created=TEN):
    metadata = {"creationTimestamp": stamped(created), **({"annotations": {DO_NOT_DISRUPT: value}} if value else {})}
    return running(name, "a", metadata=metadata)


def go(value, after, **fields):
    """Whether a node with that pod is disrupted (it is too large for it) at an instant after the pod was made."""
    pools = fields.pop("pools", [free(template=ON_DEMAND)])
    found = cluster(
        worker("a", pod(value), age=timedelta(days=900), **fields), pools=pools, at=TEN + after, types=(SMALL, LARGE)
    )
    return taken(found) == ["a"]


def test_time_calculation_created_at_ten_with_four_hours_is_protected_until_fourteen():
    assert protection(pod("4h"), TEN).until == datetime(2024, 1, 1, 14, tzinfo=UTC)
    assert protection(pod("4h"), TEN + 4 * HOUR - SECOND).active
    assert not protection(pod("4h"), TEN + 4 * HOUR).active


@pytest.mark.parametrize(
    ("example", "value", "hours"),
    [
        ("1: batch job", "2h", 2),
        ("2: ML training", "24h", 24),
        ("4: short-running task", "30m", 0.5),
        ("API design: long-running-job", "4h", 4),
        ("annotation values: compound", "1h30m", 1.5),
    ],
)
def test_example(example, value, hours):
    """Protected for as long as it says, then the node is eligible even if the pod still runs."""
    assert not go(value, timedelta()), example
    assert not go(value, hours * HOUR - SECOND), example
    assert go(value, hours * HOUR), example


def test_example_3_critical_service_is_protected_indefinitely():
    assert not go("true", timedelta(days=800))


def test_without_the_annotation_nothing_is_protected():
    assert go("", timedelta())


@pytest.mark.parametrize("value", ["forever", "4 hours", "0s", "-4h", "4"])
def test_invalid_values_are_indefinite_protection(value):
    assert not go(value, timedelta(days=800))


@pytest.mark.parametrize(
    ("use_case", "value", "typical"),
    [("CI/CD pipeline", "4h", 2), ("ML training", "24h", 20), ("batch processing", "4h", 2)],
)
def test_use_case_protects_normal_execution_and_a_stuck_pod_blocks_no_longer(use_case, value, typical):
    assert not go(value, typical * HOUR), use_case
    assert go(value, 24 * HOUR), use_case


@pytest.mark.parametrize(("hours", "eligible"), [(0, False), (3.99, False), (4, True), (71, True)])
def test_layering_timeline_as_far_as_decisions_go(hours, eligible):
    """Four hours of the pod's own, a drain bounded by 72 hours: until then neither consolidation nor drift."""
    bounded = {"claim": {"spec": {"terminationGracePeriod": "72h"}}, "age": timedelta(days=900)}
    at = TEN + hours * HOUR
    pools = [free(template=ON_DEMAND)]
    consolidated = cluster(worker("a", pod("4h"), **bounded), pools=pools, at=at, types=(SMALL, LARGE))
    assert (planned(consolidated) == [("single-node", ["a"])]) is eligible
    for bound in ({}, bounded["claim"]):
        node = drifted("a", pod("4h"), age=timedelta(days=900), claim=bound)
        assert (planned(cluster(node, pools=pools, at=at, types=(LARGE,))) == [("drift", ["a"])]) is eligible


def test_layering_timeline_after_the_protection_budgets_still_count():
    """4-72 hours: eligible, and budgets of pods are respected."""
    at = TEN + 5 * HOUR
    found = cluster(worker("a", pod("4h")), pdbs=[pdb()], at=at)
    assert why_not(found).code == "PodDisruptionBudget"


def test_when_empty_with_a_bounded_drain_never_consolidates_the_protected_pods_node():
    """The scenario's pool consolidates when empty only."""
    pools = [free(consolidationPolicy="WhenEmpty", template={**ON_DEMAND, "terminationGracePeriod": "72h"})]
    assert not go("4h", 100 * HOUR, pools=pools)


def test_interaction_with_budgets_protection_is_asked_first():
    before = cluster(worker("a", pod("4h")), pdbs=[pdb()], at=TEN + HOUR)
    after = cluster(worker("a", pod("4h")), pdbs=[pdb()], at=TEN + 4 * HOUR)
    assert (why_not(before).code, why_not(after).code) == ("DoNotDisruptPod", "PodDisruptionBudget")


def test_several_pods_with_different_grace_periods_on_one_node():
    found = cluster(worker("a", pod("1h"), pod("3h", "y"), pod("2h", "z")), at=TEN + 1.5 * HOUR)
    blocks = pod_blocks(found.nodes[0], found)
    assert [each.until for each in blocks] == [TEN + 3 * HOUR, TEN + 2 * HOUR]
    assert not any(each.permanent for each in blocks)


@pytest.mark.parametrize("bound", [{}, {"spec": {"terminationGracePeriod": "1h"}}], ids=["unbounded", "bounded"])
def test_comparison_table_the_annotation_is_the_pods_own(bound):
    """A second pod, protected for ever, keeps a node after the first one's time is over. A bound on the claim's drain
    begins to count when the drain does."""
    pools = [free(consolidateAfter="Never")]
    for second, expected in (("true", []), ("4h", ["a"])):
        node = drifted("a", pod("4h"), pod(second, "y"), claim=bound)
        assert taken(cluster(node, at=TEN + 5 * HOUR, pools=pools)) == expected
