"""Between now and the next turn, a pass over an unchanged cluster finds what it found."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptance.fleet import DO_NOT_DISRUPT, cluster, drifted, free, running, shielded, worker
from builders import NOON, stamped
from dovetail.core.disruption.pass_context import PassContext, next_wakeup
from dovetail.core.disruption.planner import plan_methods
from dovetail.model.reason import Reason
from dovetail.settings import DecisionOptions

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def busy(name, minutes):
    """A node on which something happened this many minutes ago."""
    return worker(name, status={"lastPodEventTime": stamped(NOON - minutes * MINUTE)})


def guarded(name, on, span, age):
    """A pod of that age, protected for that long."""
    return shielded(
        name, on, span, metadata={"creationTimestamp": stamped(NOON - age), "annotations": {DO_NOT_DISRUPT: span}}
    )


@pytest.mark.parametrize(
    ("nodes", "disruption", "turn"),
    [
        ([busy("a", 4)], {"consolidateAfter": "10m"}, NOON + 6 * MINUTE),
        ([busy("a", 4), busy("b", 9)], {"consolidateAfter": "10m"}, NOON + MINUTE),
        ([busy("a", 4)], {"consolidateAfter": "0s", "consolidationGracePeriod": "7m"}, NOON + 3 * MINUTE),
        ([worker("a", age=2 * HOUR)], {"consolidateAfter": "Never", "expireAfter": "3h"}, NOON + HOUR),
        ([worker("a", guarded("p", "a", "25h", 24 * HOUR))], {"consolidateAfter": "Never"}, NOON + HOUR),
        (
            [drifted("a", since=2 * HOUR)],
            {"consolidateAfter": "Never", "actionControls": {"Drift": {"disruptAfter": "5h"}}},
            NOON + 3 * HOUR,
        ),
        (
            [worker("a")],
            {"consolidateAfter": "Never", "budgets": [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]},
            NOON + 5 * HOUR,
        ),
        (
            [worker("a")],
            {"consolidateAfter": "Never", "budgets": [{"nodes": "0", "schedule": "30 12 * * *", "duration": "1h"}]},
            NOON + 30 * MINUTE,
        ),
        ([worker("a")], {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}, None),
        ([worker("a", shielded("p", "a", "true"))], {"consolidateAfter": "Never"}, None),
    ],
    ids=[
        "quiet",
        "earliest",
        "grace",
        "expiry",
        "protection",
        "drift",
        "window closes",
        "window opens",
        "never",
        "ever",
    ],
)
def test_every_clock_has_its_turn(nodes, disruption, turn):
    assert next_wakeup(cluster(*nodes, pools=[free(**disruption)]), {}) == turn


def test_a_pool_that_backs_off_has_its_turn_too():
    found = cluster(worker("a"), pools=[free(consolidateAfter="Never")])
    assert next_wakeup(found, {("default", Reason.DRIFTED): NOON + MINUTE}) == NOON + MINUTE


waits = st.sampled_from(["0s", "1m", "5m", "12m", "Never"])
spans = st.integers(0, 20)


@st.composite
def clusters(draw):
    nodes = []
    age = timedelta(minutes=20 + draw(spans))  # of all: whose cost shrinks faster is not told
    for name in "abc"[: draw(st.integers(1, 3))]:
        pods = [running(f"{name}-1", name)] if draw(st.booleans()) else []
        if draw(st.booleans()):
            pods.append(guarded(f"{name}-2", name, f"{draw(spans)}m1s", draw(spans) * MINUTE))
        at = stamped(NOON - timedelta(minutes=draw(spans)))
        nodes.append(worker(name, *pods, age=age, status={"lastPodEventTime": at}))
    budgets = [{"nodes": "1"}]
    if draw(st.booleans()):
        budgets.append({"nodes": "0", "schedule": f"{draw(spans)} * * * *", "duration": f"{1 + draw(spans)}m"})
    fields = {"consolidateAfter": draw(waits), "budgets": budgets}
    if draw(st.booleans()):
        fields["consolidationGracePeriod"] = draw(st.sampled_from(["2m", "7m"]))
    if draw(st.booleans()):
        fields["expireAfter"] = f"{25 + draw(spans)}m"
    return cluster(*nodes, pools=[free(**fields)])


def proposed(found):
    """What the methods propose. Their validation is `VALIDATION_DELAY` later and may meet the turn."""
    plans = plan_methods(PassContext(found, DecisionOptions()))
    return [(plan.method.name, [[each.name for each in made.candidates] for made in plan.commands]) for plan in plans]


@settings(max_examples=150, deadline=None)
@given(clusters(), st.floats(0, 1, exclude_max=True))
def test_nothing_comes_out_differently_before_the_turn(found, share):
    turn = next_wakeup(found, {}) or NOON + 5 * HOUR
    before = min(NOON + share * (turn - NOON), turn - timedelta(microseconds=1))  # a product may be rounded up
    assert proposed(replace(found, at=before)) == proposed(found)
