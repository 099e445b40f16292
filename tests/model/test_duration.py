import gzip
import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.duration import NEVER, Delay, Duration, format_duration, parse_duration

ORACLE = Path(__file__).parents[1] / "data" / "duration.jsonl.gz"
INT64 = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)


def test_agrees_with_go_on_every_recorded_text():
    with gzip.open(ORACLE, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            if "error" in case:
                with pytest.raises(ValueError, match="is not a duration"):
                    parse_duration(case["text"])
            else:
                nanoseconds = parse_duration(case["text"])
                assert (nanoseconds, format_duration(nanoseconds)) == (case["nanoseconds"], case["string"]), case


@given(INT64)
def test_what_is_printed_reads_back_as_the_same_duration(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("-9223372036854775808ns", -(1 << 63)), ("9223372036854775807ns", (1 << 63) - 1), ("0" * 500 + "1s", 10**9)],
)
def test_the_whole_range_of_64_bits_is_read(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["9223372036854775808ns", "2562048h", "9" * 5000 + "s", "2562047h3000m"])
def test_longer_durations_are_refused(text):
    with pytest.raises(ValueError, match="longer than 292 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no number"),
        ("-", "has no number"),
        ("1", "'1' has no unit"),
        ("1d", r"'d' is not a unit \(a day is 24h\)"),
        ("1h-30m", "'h-' is not a unit"),
        (".s", "does not start with a number"),
        ("5..s", "has no unit"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_how_to_write_it(text, problem):
    with pytest.raises(ValueError, match=problem) as fault:
        parse_duration(text)
    assert '"1h30m"' in str(fault.value)


def test_a_duration_keeps_its_spelling_and_compares_by_length():
    minute = Duration.parse("60s")
    assert str(minute) == "60s"
    assert minute == Duration.parse("1m") == Duration.of(timedelta(minutes=1))
    assert len({minute, Duration.parse("1m0s")}) == 1
    assert minute != "60s"
    assert str(Duration.of(timedelta(hours=1, milliseconds=1500))) == "1h0m1.5s"


@pytest.mark.parametrize(("text", "microseconds"), [("1999ns", 1), ("-1999ns", -1), ("-1.5s", -1_500_000)])
def test_a_span_cuts_off_below_the_microsecond(text, microseconds):
    assert Duration.parse(text).span == timedelta(microseconds=microseconds)


def test_never_is_a_delay_without_end():
    never = Delay.parse("Never")
    assert never == NEVER
    assert (never.never, never.span, str(never)) == (True, None, "Never")
    assert Delay.parse("0s") != NEVER


def test_a_delay_keeps_its_spelling_and_compares_by_meaning():
    delay = Delay.parse("720h")
    assert (delay.never, delay.span, delay.text) == (False, timedelta(days=30), "720h")
    assert delay == Delay.parse("43200m") == Delay.of(timedelta(days=30))
    assert hash(delay) == hash(Delay.parse("43200m"))


@pytest.mark.parametrize("text", ["never", "FooNever", "1hr", ""])
def test_a_delay_that_is_neither_is_refused_with_both_remedies(text):
    with pytest.raises(ValueError, match='or "Never"'):
        Delay.parse(text)
