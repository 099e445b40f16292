"""Windows of budgets against a reference that steps minute by minute, for any schedule, duration and instant.

The reference never asks the schedule: it is given the admitted values of the five fields and counts minutes as plain
integers, so that it cannot overflow. Durations reach from a second to the longest of Go, 292 years, and instants to
both ends of the calendar. Where the answer lies beyond what the reference steps over, only the bound is compared.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import nodepool
from dovetail.core.explain.budget_calendar import draw_calendar
from dovetail.model.budget import BudgetWindow
from dovetail.model.cron import CronSchedule
from dovetail.model.reason import Action

FIRST = datetime.min.replace(tzinfo=UTC)
LAST_MINUTE = (datetime.max.replace(tzinfo=UTC) - FIRST) // timedelta(minutes=1)
STEPS = 9 * 24 * 60
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@dataclass(frozen=True)
class Fields:
    """A schedule as the values each field admits; None is a star."""

    values: tuple[frozenset[int] | None, ...]

    @property
    def text(self):
        return " ".join("*" if each is None else ",".join(map(str, sorted(each))) for each in self.values)

    def fires(self, minute):
        """Whether it fires at this minute, counted from the first of the calendar."""
        at = FIRST + timedelta(minutes=minute)
        now = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
        admitted = [each is None or value in each for each, value in zip(self.values, now, strict=True)]
        day, weekday = self.values[2], self.values[4]
        on_day = admitted[2] and admitted[4] if day is None or weekday is None else admitted[2] or admitted[4]
        return admitted[0] and admitted[1] and admitted[3] and on_day


def of(*values):
    return Fields(tuple(None if each is None else frozenset(each) for each in values))


def some(low, high):
    """Few values, many, or all of them."""
    few = st.frozensets(st.integers(low, high), min_size=1, max_size=3)
    many = st.builds(
        lambda start, step: frozenset(range(start, high + 1, step)), st.integers(low, high), st.integers(1, 7)
    )
    return st.one_of(st.none(), few, many)


FIELDS = st.tuples(*(some(*bounds) for bounds in BOUNDS)).map(Fields)
SECONDS = st.one_of(
    st.integers(1, 300),
    st.integers(1, 70).map(lambda minutes: minutes * 60),
    st.integers(1, 3000).map(lambda minutes: minutes * 60),
    st.integers(1, 24 * 800).map(lambda hours: hours * 3600),
    st.sampled_from([8760, 8784, 35064, 100_000, 2_540_400, 2_562_047]).map(lambda hours: hours * 3600),
)
MINUTES = st.one_of(
    st.integers(0, STEPS),
    st.integers(LAST_MINUTE - STEPS, LAST_MINUTE),
    st.integers(1_051_897_440, 1_051_897_440 + 4 * 366 * 24 * 60),  # the years from 2000
)


def last_firing(fields, minute, back):
    return next((each for each in range(minute, max(-1, minute - back - 1), -1) if fields.fires(each)), None)


@dataclass(frozen=True)
class Reference:
    """What stepping shows of a window at an instant; `known` is False where it lies beyond the steps."""

    open: bool
    known: bool
    closes: timedelta | None = None  # since the first of the calendar
    seen_until: int = 0

    @staticmethod
    def of(fields, duration, minute, into):
        """`into` is how far into the minute the instant is."""
        now = timedelta(minutes=minute) + into
        fired = last_firing(fields, minute, STEPS)
        if fired is None or now >= timedelta(minutes=fired) + duration:
            return Reference(
                open=False, known=fired is not None or minute <= STEPS or duration <= timedelta(minutes=STEPS)
            )
        end = min(minute + STEPS, LAST_MINUTE)
        for each in range(minute + 1, end + 1):
            if timedelta(minutes=each) > timedelta(minutes=fired) + duration:
                return Reference(True, True, timedelta(minutes=fired) + duration)
            if fields.fires(each):
                fired = each
        return Reference(True, False, seen_until=end)


@settings(max_examples=100)
@given(FIELDS, SECONDS, MINUTES, st.integers(0, 59))
@example(of([0], [0], [1], [1], None), 8784 * 3600, 1_065_000_000, 0)
@example(of([0], [0], None, None, None), 100_000 * 3600, 1_065_000_000, 0)
@example(of([0], [0], None, None, None), 24 * 3600, 1_065_000_000, 0)
@example(of([0], [0], None, None, None), 24 * 3600 - 1, 1_065_000_000, 0)
@example(of(None, None, None, None, None), 60, LAST_MINUTE, 59)
@example(of([59], [23], [31], [12], None), 2_562_047 * 3600, LAST_MINUTE, 59)
@example(of([0], [0], None, None, None), 2_562_047 * 3600, 0, 0)
@example(of([5], [7], None, None, [1]), 168 * 3600, 3, 0)
@example(of(range(0, 60, 7), None, None, None, None), 5 * 60, 1_065_000_000, 0)
@example(of([0, 59], [0, 23], None, None, None), 60, 1_065_000_959, 0)  # 23:59, and again a minute later
@example(of([0], [0, 23], None, None, None), 7200, LAST_MINUTE - 30, 0)
@example(of([0], [0], [1], [3], None), 100 * 3600, LAST_MINUTE - 300 * 24 * 60, 0)
@example(of(None, None, None, None, [6]), 60, 5_258_954_880, 0)
def test_law_a_window_opens_and_closes_where_stepping_minute_by_minute_says(fields, seconds, minute, second):
    schedule = CronSchedule.parse(fields.text)
    if schedule.never_fires:
        return
    duration, into = timedelta(seconds=seconds), timedelta(seconds=second)
    window = BudgetWindow(schedule, duration)
    now = FIRST + timedelta(minutes=minute) + into
    reference = Reference.of(fields, duration, minute, into)
    opened, closing, opening = window.open_at(now), window.closes_at(now), window.opens_at(now)
    if reference.known or reference.open:
        assert opened is reference.open
    if reference.closes is not None:
        end = timedelta(minutes=LAST_MINUTE + 1)
        closes = FIRST + reference.closes if reference.closes < end else None
        in_last_month = reference.closes >= end - timedelta(days=31)  # no later month shows that a gap follows
        assert closing == closes or (in_last_month and closing is None)
    elif reference.open:
        assert closing is None or closing - FIRST > timedelta(minutes=reference.seen_until)
    if not opened:
        assert closing is None
        range_ = range(minute + 1, min(minute + STEPS, LAST_MINUTE) + 1)
        hit = next((each for each in range_ if fields.fires(each)), None)
        assert hit is None or opening == FIRST + timedelta(minutes=hit)
        assert hit is not None or opening is None or opening - FIRST > timedelta(minutes=range_.stop - 1)
    else:
        assert opening is None


@settings(max_examples=40)
@given(
    some(1, 31),
    some(1, 12),
    some(0, 6),
    st.integers(1, 3000),
    st.integers(1990 * 365, 2120 * 365),
)
@example(frozenset({29}), frozenset({2}), None, 4 * 366, 2096 * 365)
@example(frozenset({29}), frozenset({2}), None, 8 * 366, 2096 * 365)
@example(frozenset({1}), frozenset({1}), None, 365, 735_000)
@example(frozenset({1}), frozenset({1}), None, 366, 735_000)
@example(frozenset({31}), None, None, 61, 735_000)
@example(frozenset({31}), None, None, 62, 735_000)
def test_law_a_window_of_days_closes_where_stepping_day_by_day_through_the_years_says(
    days, months, weekdays, long, day
):
    """Firings at midnight and durations of whole days: the reference steps over ten years instead of weeks."""
    fields = Fields((frozenset({0}), frozenset({0}), days, months, weekdays))
    if CronSchedule.parse(fields.text).never_fires:
        return
    fired = next((each for each in range(day, day - long, -1) if fields.fires(each * 1440)), None)
    window, now = BudgetWindow(CronSchedule.parse(fields.text), timedelta(days=long)), FIRST + timedelta(days=day)
    assert window.open_at(now) is (fired is not None)
    if fired is None:
        return
    end, closing = day + 3660, window.closes_at(now)
    for each in range(day + 1, end):
        if each - fired > long:
            assert closing == FIRST + timedelta(days=fired + long)
            return
        if fields.fires(each * 1440):
            fired = each
    assert closing is None or closing >= FIRST + timedelta(days=end)


@settings(max_examples=40)
@given(FIELDS, SECONDS, MINUTES)
@example(of(None, None, None, None, None), 60, LAST_MINUTE)
@example(of([0], [0], None, None, None), 2_562_047 * 3600, 0)
def test_law_a_calendar_of_hours_can_be_drawn_for_any_window_anywhere(fields, seconds, minute):
    if CronSchedule.parse(fields.text).never_fires:
        return
    budget = {"nodes": "0", "schedule": fields.text, "duration": f"{seconds}s"}
    hour = minute // 60
    shown = draw_calendar(nodepool(disruption={"budgets": [budget]}), 5, FIRST + timedelta(hours=hour), 3)
    for number, allowed in enumerate(shown.hours_by_action[Action.DRIFT]):
        for each in (0, 30):
            at = (hour + number) * 60 + each
            fired = last_firing(fields, at, STEPS) if at <= LAST_MINUTE else None
            if fired is not None and at - fired < seconds / 60:
                assert allowed.least == 0, "a budget of zero is in force in a part of this hour"
            elif fired is not None:
                assert allowed.most is None, "no budget is in force in a part of this hour"
