"""Summaries: quantiles over a sliding window of ten minutes, in bounded memory."""

import math
import random

import pytest

from dovetail.observe.summary import MAX_VALUES, STREAMS, SlidingSummary


class Timer:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def timer():
    return Timer()


def test_quantiles_are_those_of_the_values(timer):
    summary = SlidingSummary(timer)
    for value in random.Random(1).sample(range(1, 101), 100):  # noqa: S311 - reproducible, not secret
        summary.observe(value)
    assert summary.quantiles() == {0.0: 1, 0.5: 50, 0.9: 90, 0.99: 99, 1.0: 100}
    assert (summary.count, summary.sum) == (100, 5050)


def test_without_a_value_in_the_window_quantiles_are_not_numbers(timer):
    summary = SlidingSummary(timer)
    assert all(math.isnan(value) for value in summary.quantiles().values())
    summary.observe(1)
    timer.now += 601
    assert all(math.isnan(value) for value in summary.quantiles().values())
    assert summary.count == 1


@pytest.mark.parametrize("age", [0, 119, 240, 479])
def test_values_of_the_last_eight_minutes_always_count(timer, age):
    timer.now += 77
    summary = SlidingSummary(timer)
    timer.now += 200
    summary.observe(7)
    timer.now += age
    summary.observe(3)
    assert summary.quantiles()[1.0] == 7


@pytest.mark.parametrize("age", [601, 725, 86400])
def test_values_older_than_ten_minutes_do_not_count(timer, age):
    summary = SlidingSummary(timer)
    summary.observe(7)
    timer.now += age
    summary.observe(3)
    assert summary.quantiles()[1.0] == 3


@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_many_values_take_bounded_memory_and_keep_their_quantiles(timer, order):
    values = list(range(200_000))
    if order == "shuffled":
        random.Random(2).shuffle(values)  # noqa: S311 - reproducible, not secret
    summary = SlidingSummary(timer)
    for value in values[:20_000] if order == "shuffled" else values:
        summary.observe(value)
    seen = sorted(values[:20_000] if order == "shuffled" else values)
    found = summary.quantiles()
    assert (found[0.0], found[1.0]) == (seen[0], seen[-1])
    for rank in (0.5, 0.9, 0.99):
        assert found[rank] == pytest.approx(seen[int(rank * len(seen))], abs=0.05 * len(values))
    assert sum(len(stream.values) for stream in summary._streams) <= STREAMS * MAX_VALUES
