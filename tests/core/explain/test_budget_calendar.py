"""Budgets whose windows never close, end beyond the calendar, or follow each other without a gap."""

from datetime import UTC, datetime, timedelta

import pytest

from acceptance.fleet import cluster, planned, said, worker
from builders import NOON, nodepool
from dovetail.core.disruption.pass_context import PassContext, next_wakeup
from dovetail.core.explain.budget_calendar import AllowedNow, draw_calendar
from dovetail.core.explain.node import explain_node
from dovetail.core.explain.nodepool import explain_pool
from dovetail.model.budget import BudgetWindow
from dovetail.model.cron import CronSchedule, _last_day_before_gap
from dovetail.model.duration import Duration
from dovetail.model.reason import Action

NEVER_CLOSING = [("@yearly", "8784h"), ("@daily", "100000h"), ("@daily", "24h"), ("0 0 29 2 *", "2562047h")]
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
FIRST_DAY = datetime(1, 1, 1, tzinfo=UTC)


def window(schedule, duration):
    return BudgetWindow(CronSchedule.parse(schedule), Duration.parse(duration).span)


def shut(schedule, duration):
    return nodepool(disruption={"budgets": [{"nodes": "0", "schedule": schedule, "duration": duration}]})


@pytest.mark.parametrize(("schedule", "duration"), NEVER_CLOSING)
def test_a_window_that_never_closes_blocks_for_good_in_plan_explain_and_the_clock_of_passes(schedule, duration):
    pool = shut(schedule, duration)
    found = cluster(worker("a"), pools=[pool])
    refusal = said(found, "emptiness", "a")
    assert (refusal.code, refusal.until, refusal.permanent) == ("Budget", None, True)
    obstacle = explain_node(found.nodes[0], PassContext(found)).methods[2].obstacles[-1]
    assert (obstacle.code, obstacle.until, obstacle.permanent) == ("Budget", None, True)
    told = explain_pool(pool, PassContext(found))
    assert [(each.in_force, each.closes_at, each.opens_at) for each in told.budgets] == [(True, None, None)]
    assert next_wakeup(found, {}) is None
    assert planned(found) == []


@pytest.mark.parametrize(
    ("schedule", "duration", "closes_at"),
    [
        ("@yearly", "8760h", datetime(2028, 12, 31, tzinfo=UTC)),  # 366 days from 1 January 2028 to the next
        ("0 0 31 * *", "1440h", datetime(2026, 5, 30, tzinfo=UTC)),
        ("0 0 * * 1-5", "48h", datetime(2026, 1, 11, tzinfo=UTC)),
        ("*/10 9-17 * * *", "10m", datetime(2026, 1, 5, 18, tzinfo=UTC)),
        ("0 0 29 2 *", "35064h", datetime(2100, 3, 1, tzinfo=UTC)),  # 2100 is no leap year
    ],
)
def test_a_window_closes_at_the_first_gap_however_far_away(schedule, duration, closes_at):
    assert window(schedule, duration).closes_at(NOON) == closes_at


def test_a_window_that_would_close_beyond_the_calendar_never_closes():
    assert window("0 0 31 12 *", "48h").closes_at(LAST_DAY) is None
    assert window("0 0,23 31 12 *", "2h").closes_at(LAST_DAY.replace(hour=23)) is None
    assert window("@daily", "2562047h").closes_at(FIRST_DAY) is None


@pytest.mark.parametrize("start", [FIRST_DAY, LAST_DAY])
@pytest.mark.parametrize("schedule", ["@daily", "@yearly", "* * * * *"])
def test_a_calendar_can_be_drawn_at_both_ends_of_time(start, schedule):
    assert len(draw_calendar(shut(schedule, "2562047h"), 5, start, 24).hours_by_action) == 3


@pytest.mark.parametrize(("schedule", "duration"), [("@daily", "24h"), ("0 */2 * * *", "2h"), ("0 0 * * 1", "168h")])
def test_windows_without_a_gap_are_worked_out_once_a_day(schedule, duration, monkeypatch):
    """One walk through the 4800 months of a cycle, not one for every pool and pass."""
    months, days_of = [], CronSchedule._days_of
    monkeypatch.setattr(CronSchedule, "_days_of", lambda *given: months.append(1) or days_of(*given))
    _last_day_before_gap.cache_clear()
    for minute in range(200):
        assert window(schedule, duration).closes_at(NOON + timedelta(minutes=minute)) is None
    assert len(months) < 2 * 4812


def test_what_is_allowed_now_has_the_next_change_of_the_number_and_not_of_a_window():
    """The window at 13:00 allows as much as the budget that is always in force: the number changes at 18:00."""
    same = {"nodes": "2", "schedule": "0 13 * * *", "duration": "1h"}
    closed = {"nodes": "0", "schedule": "0 18 * * *", "duration": "1h", "reasons": ["Drifted"]}
    pool = nodepool(disruption={"budgets": [{"nodes": "2"}, same, closed]})
    found = draw_calendar(pool, 10, NOON, 1, NOON).now
    assert found[Action.DRIFT] == AllowedNow(2, NOON.replace(hour=18), 0)
    assert found[Action.EMPTINESS] == AllowedNow(2)
