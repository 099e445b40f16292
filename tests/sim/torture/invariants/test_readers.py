"""The readers of the invariants against hand-text tables, independent of the parsers of the product."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dovetail.sim.torture.invariants.disruption_settings import (
    allowed_disruptions,
    consolidation_window,
    disruption_delay,
    is_open,
    only_when_empty,
    parse_schedule,
)
from dovetail.sim.torture.invariants.readers import (
    command_of,
    duration,
    is_paused,
    quantity,
    scaled_value,
    selector_matches,
    tolerates,
)
from dovetail.sim.torture.invariants.repair_policies import max_unhealthy, toleration

MONDAY = datetime(2026, 1, 5, 9, 30, 20, tzinfo=UTC)


def pool(repair=None, **disruption):
    return {"metadata": {}, "spec": {"disruption": disruption, **({"repair": repair} if repair is not None else {})}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("0", 0),
        ("30s", 30),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("100ms", 0.1),
        ("-5m", -300),
        ("+5m", 300),
        ("Never", math.inf),
    ],
)
def test_durations(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5", "5 m", "m", "1h30", "never", "1d", "true"])
def test_unreadable_durations_are_rejected(text):
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2", 2), ("1500m", "1.5"), ("2Gi", 2 * 2**30), ("64Mi", 64 * 2**20), ("3k", 3000), ("1e3", 1000), (4, 4)],
)
def test_quantities(text, amount):
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "cpu", "1Xi", "1.2.3"])
def test_unreadable_quantities_are_rejected(text):
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("text", "total", "nodes"),
    [
        ("10%", 1, 1),
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("34%", 3, 2),
        ("0%", 9, 0),
        ("100%", 9, 9),
        ("3", 9, 3),
        (2, 9, 2),
    ],
)
def test_percentages_round_up(text, total, nodes):
    assert scaled_value(text, total) == nodes


@pytest.mark.parametrize("text", ["-1", "ten", "10 %", "1.5"])
def test_unreadable_counts_and_percentages_are_rejected(text):
    with pytest.raises(ValueError, match="neither"):
        scaled_value(text, 10)


@pytest.mark.parametrize(
    ("schedule", "minutes", "open_now"),
    [
        ("* * * * *", 1, True),
        ("30 9 * * *", 1, True),
        ("29 9 * * *", 1, False),  # from 9:29:00 to 9:30:00, which is excluded
        ("29 9 * * *", 2, True),
        ("31 9 * * *", 60, False),
        ("0 9 * * mon-fri", 31, True),
        ("0 9 * * sat,sun", 31, False),
        ("*/20 * * * *", 8, False),
        ("*/20 * * * *", 11, True),
        ("0 0 5 * *", 600, True),
        ("0 0 6 * *", 600, False),
        ("0 0 6 * 1", 600, True),  # restricted both: either day
        ("0 0 6 * */1", 600, True),
        ("@daily", 600, True),
        ("@hourly", 30, False),
        ("@hourly", 31, True),
        ("@weekly", 24 * 60 + 600, True),
        ("0 9 * jan *", 31, True),
        ("0 9 * feb *", 31, False),
    ],
)
def test_windows(schedule, minutes, open_now):
    assert is_open(schedule, minutes * 60, MONDAY) is open_now


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "* * * * * *", "60 * * * *", "* * * * 7", "@dailyx", "5-2 * * * *"]
)
def test_unreadable_schedules_are_rejected(schedule):
    with pytest.raises(ValueError):  # noqa: PT011 - the message differs
        parse_schedule(schedule)


WEEKDAYS = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}
NIGHTS = {"nodes": "0", "schedule": "0 20 * * *", "duration": "8h"}


@pytest.mark.parametrize(
    ("disruption", "by_reason"),
    [
        ({}, {"Empty": 1, "Underutilized": 1, "Drifted": 1, "Expired": 1}),
        ({"budgets": []}, {"Empty": None, "Drifted": None}),
        ({"budgets": [{"nodes": "50%"}]}, {"Empty": 5, "Expired": 5}),
        ({"budgets": [{"nodes": "5"}, {"nodes": "2", "reasons": ["Drifted"]}]}, {"Drifted": 2, "Empty": 5}),
        ({"budgets": [{"nodes": "5"}, {"nodes": "0", "action": "Consolidation"}]}, {"Empty": 0, "Underutilized": 0}),
        ({"budgets": [{"nodes": "5"}, {"nodes": "0", "action": "Emptiness"}]}, {"Empty": 0, "Underutilized": 5}),
        ({"budgets": [{"nodes": "1", "reasons": ["Underutilized"]}]}, {"Underutilized": 1, "Drifted": None}),
        ({"budgets": [{"nodes": "3"}, WEEKDAYS]}, {"Empty": 0, "Drifted": 0}),
        ({"budgets": [{"nodes": "3"}, NIGHTS]}, {"Empty": 3, "Drifted": 3}),
        ({"budgets": [{"nodes": "3", "schedule": "@daily"}]}, {"Empty": 0, "Drifted": 0}),
        ({"budgets": [{"nodes": "3"}, {"nodes": "x", "reasons": ["Drifted"]}]}, {"Empty": 0, "Drifted": 0}),
        ({"budgets": [{"nodes": "3", "action": "Rest"}]}, {"Empty": 0}),
        ({"actionControls": {"Drift": {"budgets": [{"nodes": "4"}]}}}, {"Drifted": 4, "Empty": 1}),
        ({"actionControls": {"All": {"budgets": [{"nodes": "4"}]}}}, {"Drifted": 4, "Empty": 4}),
        (
            {"actionControls": {"All": {"budgets": [{"nodes": "4"}]}, "Emptiness": {"budgets": []}}},
            {"Empty": None, "Underutilized": 4},
        ),
        (
            {"budgets": [{"nodes": "2"}], "actionControls": {"Drift": {"budgets": [{"nodes": "4"}]}}},
            {"Drifted": 2, "Empty": 2},
        ),
        ({"genericPerActionControls": {"Consolidation": {"budgets": [NIGHTS]}}}, {"Empty": None, "Drifted": 1}),
    ],
)
def test_budgets(disruption, by_reason):
    found = {reason: allowed_disruptions(pool(**disruption), reason, 10, MONDAY) for reason in by_reason}
    assert found == by_reason


@pytest.mark.parametrize(
    ("disruption", "reason", "seconds"),
    [
        ({}, "Empty", 0),
        ({"consolidateAfter": "5m"}, "Underutilized", 300),
        ({"consolidateAfter": "Never"}, "Empty", math.inf),
        ({"consolidateAfter": "1m", "consolidationGracePeriod": "5m"}, "Empty", 300),
        ({"consolidateAfter": "1m", "consolidationGracePeriod": "Never"}, "Empty", 60),
        ({"actionControls": {"Consolidation": {"disruptAfter": "5m"}}}, "Empty", 300),
        (
            {"actionControls": {"Consolidation": {"disruptAfter": "5m"}, "Emptiness": {"disruptAfter": "1m"}}},
            "Empty",
            60,
        ),
        ({"consolidateAfter": "10m", "actionControls": {"Emptiness": {"disruptAfter": "1m"}}}, "Empty", 600),
        ({"actionControls": {"All": {"disruptAfter": "2m"}}}, "Drifted", 120),
        ({}, "Drifted", 0),
        ({}, "Expired", math.inf),
        ({"expireAfter": "20m"}, "Expired", 1200),
        ({"actionControls": {"All": {"disruptAfter": "2m"}}}, "Expired", math.inf),
        ({"actionControls": {"Expiration": {"disruptAfter": "2m"}}}, "Expired", 120),
        ({"expireAfter": "20m", "actionControls": {"Expiration": {"disruptAfter": "1h"}}}, "Expired", 3600),
    ],
)
def test_disruption_delays(disruption, reason, seconds):
    assert disruption_delay(pool(**disruption), reason) == seconds


@pytest.mark.parametrize(
    ("disruption", "seconds"),
    [
        ({}, 0),
        ({"consolidateAfter": "Never"}, 0),
        ({"consolidateAfter": "1m", "consolidationGracePeriod": "5m"}, 300),
        ({"consolidateAfter": "6m", "consolidationGracePeriod": "Never"}, 360),
        ({"consolidateAfter": "Never", "consolidationGracePeriod": "5m"}, 300),
        ({"actionControls": {"Consolidation": {"disruptAfter": "5m"}, "Emptiness": {"disruptAfter": "9m"}}}, 300),
    ],
)
def test_quiet_periods_of_destinations(disruption, seconds):
    assert consolidation_window(pool(**disruption)) == seconds


def test_consolidation_policies():
    assert only_when_empty(pool(consolidationPolicy="WhenEmpty"))
    assert not only_when_empty(pool(consolidationPolicy="WhenEmptyOrUnderutilized"))
    assert not only_when_empty(pool())


@pytest.mark.parametrize(
    ("repair", "condition", "status", "seconds"),
    [
        (None, "Ready", "False", math.inf),
        ({}, "Ready", "False", 600),
        ({}, "Ready", "True", math.inf),
        ({}, "MemoryPressure", "True", 1800),
        ({}, "Odd", "True", math.inf),
        ({"defaultTolerationDuration": "5m"}, "MemoryPressure", "True", 300),
        (
            {"defaultTolerationDuration": "5m", "policies": [{"conditionType": "Ready", "toleration": "1h"}]},
            "Ready",
            "Unknown",
            3600,
        ),
    ],
)
def test_repair_tolerations(repair, condition, status, seconds):
    assert toleration(pool(repair), condition, status) == seconds


@pytest.mark.parametrize(("nodes", "limit"), [(0, 0), (1, 1), (5, 1), (6, 2), (10, 2), (11, 3)])
def test_the_share_of_unhealthy_nodes_rounds_up(nodes, limit):
    assert max_unhealthy(nodes) == limit


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {"a": "1"}, False),
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, None, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_selectors(selector, labels, matches):
    assert selector_matches(selector, labels) is matches


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "karpenter.sh/disrupted", "operator": "Exists"}, True),
        ({"key": "karpenter.sh/disrupted"}, True),
        ({"key": "karpenter.sh/disrupted", "value": "x"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": ""}, False),
    ],
)
def test_tolerations(toleration, tolerated):
    assert tolerates([toleration], "karpenter.sh/disrupted", "") is tolerated


@pytest.mark.parametrize(
    ("text", "paused"),
    [(None, False), ("false", False), ("true", True), ("2026-01-05T12:00:00Z", True), ("2026-01-05T09:00:00Z", False)],
)
def test_pauses(text, paused):
    found = {"metadata": {"annotations": {} if text is None else {"dovetail.sh/pause": text}}}
    assert is_paused(found, MONDAY) is paused


@pytest.mark.parametrize("text", ["", "null", "[]", "{not json"])
def test_an_unreadable_command_record_is_ignored(text):
    assert command_of({"metadata": {"annotations": {"dovetail.sh/command": text}}}) == {}
