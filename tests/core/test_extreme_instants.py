"""Durations and instants at the edges of what the API takes: every clock answers, none raises."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from acceptance.fleet import cluster, drifted, free, running, shielded, worker
from builders import NOON
from dovetail.cli.view.budgets import calendar_document
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext, next_wakeup
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.explain.budget_calendar import draw_calendar
from dovetail.core.explain.drain import explain_drain
from dovetail.core.explain.node import explain_node
from dovetail.core.lifecycle.drain import plan_drain
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.core.lifecycle.registration import judge_liveness
from dovetail.core.lifecycle.repair import find_unhealthy_conditions
from dovetail.core.lifecycle.termination import grace_period_patch, read_deadline
from dovetail.model.instants import FIRST_INSTANT, LAST_INSTANT, add, subtract, to_utc
from dovetail.model.kube_object import Condition
from dovetail.model.nodepool import Repair
from dovetail.model.repair import unready
from dovetail.model.snapshot import ClusterNode

LONGEST = "2562047h"
LAST = "9999-12-31T23:59:59Z"
FIRST = "0001-01-01T00:00:00Z"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
DELAYS = {
    "consolidateAfter": LONGEST,
    "consolidationGracePeriod": LONGEST,
    "expireAfter": LONGEST,
    "actionControls": {
        action: {"disruptAfter": LONGEST} for action in ("All", "Consolidation", "Drift", "Emptiness", "Expiration")
    },
}


def changed(value, part, **fields):
    """The same object with other fields in one of its parts."""
    return structs.replace(value, **{part: structs.replace(getattr(value, part), **fields)})


def asked_everything(found):
    """Every question a pass, a plan or an explanation asks."""
    plan = plan_disruption(found, thorough=True)
    next_wakeup(found, {})
    for node in found.nodes:
        explain_node(node, PassContext(found))
        explain_drain(node, found.pdbs, found.at)
    return plan


@pytest.mark.parametrize("at", [NOON, FIRST_INSTANT, LAST_INSTANT])
@pytest.mark.parametrize("since", ["2026-01-05T12:00:00Z", FIRST, LAST])
def test_the_longest_delays_from_any_instant_to_any_other_raise_nothing(at, since):
    node = worker("a", shielded("x", "a", LONGEST, metadata={"creationTimestamp": since}), running("y", "a"))
    claim = changed(node.claim, "metadata", creation_timestamp=datetime.fromisoformat(since))
    found = cluster(
        ClusterNode(node.node, claim, node.pods),
        drifted("b", status={"lastPodEventTime": since}, claim={"spec": {"terminationGracePeriod": LONGEST}}),
        pools=[free(**DELAYS)],
        at=at,
    )
    assert set(asked_everything(found).refusals_by_method) == {each.name for each in METHODS}


@pytest.mark.parametrize("written", [FIRST, LAST, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"])
@pytest.mark.parametrize("grace", [0, 30, 2**63 - 1])
def test_a_drain_is_planned_for_any_deadline_and_any_grace_of_its_pods(written, grace):
    pods = [
        running("x", "a", spec={"terminationGracePeriodSeconds": grace}),
        running("y", "a", metadata={"deletionTimestamp": LAST, "deletionGracePeriodSeconds": grace}),
        shielded("z", "a", LONGEST),
    ]
    node = worker("a", *pods, claim={"metadata": {"name": "a", "annotations": {TERMINATION_TIMESTAMP: written}}})
    deadline = read_deadline(node.claim)
    assert deadline == (None if "14:00" in written else datetime.fromisoformat(written)), "outside the calendar: none"
    assert len(plan_drain(node, NOON, deadline).waiting) == 3
    assert len(explain_drain(node, (), NOON).waiting) == 3


def test_a_pod_whose_grace_is_longer_than_time_is_deleted_at_once_when_there_is_a_deadline():
    node = worker("a", running("x", "a", spec={"terminationGracePeriodSeconds": 2**63 - 1}))
    assert [pod.name for pod in plan_drain(node, NOON, NOON + timedelta(days=9)).force] == ["x"]
    assert [pod.name for pod in plan_drain(node, NOON).evict] == ["x"]


def test_lifetimes_graces_and_tolerations_that_leave_the_calendar_end_with_it():
    node = worker(
        "a",
        claim={
            "metadata": {"name": "a", "creationTimestamp": LAST, "deletionTimestamp": LAST},
            "spec": {"expireAfter": LONGEST, "terminationGracePeriod": LONGEST},
        },
    )
    assert expires_at(node.claim) == LAST_INSTANT
    assert grace_period_patch(node.claim)["metadata"]["annotations"] == {TERMINATION_TIMESTAMP: LAST}
    sick = worker("b").node
    ready = Condition(type="Ready", status="False", last_transition_time=LAST_INSTANT)
    ailing = find_unhealthy_conditions(changed(sick, "status", conditions=(ready,)), Repair(), unready(timedelta.max))
    assert [each.due_at for each in ailing] == [LAST_INSTANT]


def test_a_claim_created_at_the_end_of_time_is_not_overdue():
    young = changed(worker("a").claim, "status", conditions=())
    assert judge_liveness(changed(young, "metadata", creation_timestamp=LAST_INSTANT), NOON).reason == ""


@pytest.mark.parametrize("start", [FIRST_INSTANT, LAST_INSTANT.replace(hour=0, minute=0, second=0, microsecond=0)])
def test_a_week_of_budgets_can_be_asked_for_at_the_edges_of_the_calendar(start):
    calendar = draw_calendar(free(), 5, start, 7 * 24)
    assert calendar_document("default", calendar)["fault"] is None


INSTANTS = st.datetimes(timezones=st.just(UTC))


@given(INSTANTS, st.timedeltas())
def test_law_sums_stay_within_the_calendar_and_are_exact_inside_it(instant, span):
    exact = (instant - FIRST_INSTANT).total_seconds() + span.total_seconds()
    assert FIRST_INSTANT <= add(instant, span) <= LAST_INSTANT
    if 1 < exact < (LAST_INSTANT - FIRST_INSTANT).total_seconds() - 1:
        assert subtract(add(instant, span), span) == instant
        assert add(instant, span) == instant + span
    assert to_utc(instant) == instant


def test_protection_for_290_years_is_protection():
    found = cluster(worker("a", shielded("x", "a", "2540400h")))
    assert asked_everything(found).commands == ()
    assert explain_node(found.nodes[0], PassContext(found)).methods[2].obstacles[0].until.year == 2315
