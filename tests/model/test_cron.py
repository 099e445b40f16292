import gzip
import json
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dovetail.model.cron import CronSchedule

ORACLE = Path(__file__).parents[1] / "data" / "cron.jsonl.gz"
NOON = datetime(2025, 6, 11, 12, tzinfo=UTC)  # a Wednesday
MINUTE = timedelta(minutes=1)
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - zone added


def field(low, high):
    value = st.integers(low, high)
    span = st.tuples(value, value).map(lambda ends: f"{min(ends)}-{max(ends)}")
    stepped = st.tuples(st.one_of(st.just("*"), value, span), st.integers(1, 9)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    listed = st.lists(st.one_of(value.map(str), span), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), st.just("?"), listed, stepped)


def schedules(minute=None, hour=None):
    fields = (minute or field(0, 59), hour or field(0, 23), field(1, 31), field(1, 12), field(0, 6))
    return st.tuples(*fields).map(" ".join)


def fires_at(text, instant):
    """The rule, read off the five fields with no cleverness at all."""
    bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    actual = (instant.minute, instant.hour, instant.day, instant.month, instant.isoweekday() % 7)
    holds = [admits(value, *ends, now) for value, ends, now in zip(text.split(), bounds, actual, strict=True)]
    day, weekday = text.split()[2], text.split()[4]
    either_open = any(value in ("*", "?", "*/1") for value in (day, weekday))
    return all((*holds[:2], holds[3])) and (all if either_open else any)((holds[2], holds[4]))


def admits(text, low, high, actual):
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.replace("*", f"{low}-{high}").replace("?", f"{low}-{high}").partition("-")
        end = int(last or (high if step else first))
        if int(first) <= actual <= end and (actual - int(first)) % int(step or 1) == 0:
            return True
    return False


def test_agrees_with_the_recorded_answers_of_the_original():
    """`@every` is the one thing the original accepts and budgets do not: it has no instants of its own."""
    with gzip.open(ORACLE, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if "error" in case or case["cron"].startswith("@every"):
                with pytest.raises(ValueError, match=r"^schedule "):
                    CronSchedule.parse(case["cron"])
                continue
            instant, schedule = datetime.fromtimestamp(case["after"], UTC), CronSchedule.parse(case["cron"])
            for expected in case["next"]:
                instant = schedule.next_after(instant)
                assert (instant and int(instant.timestamp())) == expected, case


@given(schedules(), INSTANTS)
def test_a_walk_minute_by_minute_finds_the_same_next_firing(text, instant):
    start = instant.replace(second=0, microsecond=0)
    walked = next((at for at in (start + MINUTE * n for n in range(1, 3000)) if fires_at(text, at)), None)
    found = CronSchedule.parse(text).next_after(instant)
    assert found == walked or (walked is None and (found is None or found >= start + MINUTE * 3000))


@given(schedules(), INSTANTS, st.integers(0, 3000))
def test_a_walk_minute_by_minute_finds_the_same_last_firing(text, instant, minutes):
    start, within = instant.replace(second=0, microsecond=0), timedelta(minutes=minutes)
    back = (start - MINUTE * n for n in range(minutes + 1))
    walked = next((at for at in back if at > instant - within and fires_at(text, at)), None)
    assert CronSchedule.parse(text).last_at_or_before(instant, within) == walked


@given(schedules(), INSTANTS)
def test_firings_are_strictly_increasing_and_on_the_minute(text, instant):
    schedule, instants = CronSchedule.parse(text), [instant]
    while len(instants) < 6 and (following := schedule.next_after(instants[-1])) is not None:
        instants.append(following)
    assert all(earlier < later for earlier, later in pairwise(instants))
    assert all((each.second, each.microsecond, each.tzinfo) == (0, 0, UTC) for each in instants[1:])


@given(schedules(), INSTANTS)
def test_the_last_firing_before_the_next_one_is_not_after_now(text, instant):
    schedule = CronSchedule.parse(text)
    following = schedule.next_after(instant)
    assume(following is not None)
    assert schedule.last_at_or_before(following, MINUTE) == following
    previous = schedule.last_at_or_before(following - timedelta(microseconds=1), timedelta(days=4000))
    assert previous is None or previous <= instant


@given(schedules(), INSTANTS)
def test_a_schedule_that_never_fires_has_no_next_firing_in_a_leap_cycle(text, instant):
    schedule = CronSchedule.parse(text)
    assert schedule.never_fires == (schedule.next_after(instant) is None)


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("0 0 30 2 *", True),
        ("0 0 31 4,6,9,11 *", True),
        ("0 0 29 2 *", False),
        ("0 0 30 2 1", False),  # or on a Monday
        ("0 0 30 2 */1", True),
        ("0 , * * *", True),
        ("@yearly", False),
    ],
)
def test_dates_that_do_not_exist_never_fire(text, never):
    schedule = CronSchedule.parse(text)
    assert schedule.never_fires is never
    assert (schedule.next_after(NOON) is None) is never
    assert (schedule.last_at_or_before(NOON, timedelta(days=3000)) is None) is never


def test_the_search_ends_after_five_years():
    """2096 is followed by no leap year before 2104."""
    leap = CronSchedule.parse("0 0 29 2 *")
    assert leap.next_after(datetime(2096, 3, 1, tzinfo=UTC)) is None
    assert leap.next_after(datetime(2099, 1, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


def test_a_window_includes_its_start_and_excludes_its_end():
    nine = CronSchedule.parse("0 9 * * *")
    opened_at = NOON.replace(hour=9)
    assert nine.last_at_or_before(opened_at, timedelta(hours=3)) == opened_at
    assert nine.last_at_or_before(NOON - timedelta(microseconds=1), timedelta(hours=3)) == opened_at
    assert nine.last_at_or_before(NOON, timedelta(hours=3)) is None
    assert nine.last_at_or_before(NOON, timedelta(0)) is None


def test_instants_of_other_zones_are_read_in_utc():
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert CronSchedule.parse("0 9 * * *").next_after(tokyo) == datetime(2025, 6, 12, 9, tzinfo=UTC)
    with pytest.raises(TypeError, match="aware"):
        CronSchedule.parse("@daily").next_after(NOON.replace(tzinfo=None))


def test_a_schedule_keeps_its_spelling():
    schedule = CronSchedule.parse("0 9 * * MON-fri")
    assert str(schedule) == schedule.text == "0 9 * * MON-fri"
    assert schedule == CronSchedule.parse("0 9 * * MON-fri")
    assert schedule != CronSchedule.parse("0 9 * * 1-5")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("* * * * 7", ["day of week '7'", "Sunday is 0", "use 0-6 or sun-sat"]),
        ("60 * * * *", ["minute '60'", "out of range", "use 0-59"]),
        ("0 0 * * fri-mon", ["day of week 'fri-mon'", r"start (5) is after its end (1)", "comma"]),
        ("0 a * * *", ["hour 'a'", "'a' is not a number", "use 0-23"]),
        ("0 0 * foo *", ["month 'foo'", "not a number or a name", "jan-dec"]),
        ("*/0 * * * *", ["minute '*/0'", "step is zero"]),
        ("*/2/3 * * * *", ["minute '*/2/3'"]),
        ("1-2-3 * * * *", ["too many hyphens"]),
        ("0 0 0 * * *", ["has 6 fields", "needs five"]),
        ("", ["has 0 fields"]),
        ("@every 5m", ["not a known macro", "@hourly"]),
        ("@dailyxyz", ["not a known macro"]),
        ("TZ=Asia/Tokyo 0 9 * * *", ["UTC", "leave 'TZ=Asia/Tokyo' out"]),
    ],
)
def test_a_refusal_names_field_value_range_and_remedy(text, says):
    with pytest.raises(ValueError, match=r"^schedule ") as fault:
        CronSchedule.parse(text)
    assert all(part in str(fault.value) for part in (repr(text), *says))
