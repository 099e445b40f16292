"""The TTL cache, and shortages that expire."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.aws.account import Hands
from dovetail.cloud.aws.catalog.offerings import LIFETIME, OfferingKey, UnavailableOfferings
from dovetail.cloud.aws.clients import TtlCache


def counting():
    asked = []

    async def fetch():
        asked.append(len(asked))
        await asyncio.sleep(0)
        return asked[-1]

    return asked, fetch


def test_an_answer_is_good_until_its_time_is_over():
    async def story():
        clock, (asked, fetch) = Hands(), counting()
        kept = TtlCache(clock, timedelta(minutes=1))
        assert [await kept.get("a", fetch) for _ in range(3)] == [0, 0, 0]
        clock.pass_(seconds=59)
        assert await kept.get("a", fetch) == 0
        clock.pass_(seconds=1)
        assert await kept.get("a", fetch) == 1
        kept.forget("a")
        assert await kept.get("a", fetch) == 2
        assert len(asked) == 3

    asyncio.run(story())


def test_many_who_ask_at_once_cost_one_question():
    async def story():
        asked, fetch = counting()
        kept = TtlCache(Hands(), timedelta(minutes=1))
        assert await asyncio.gather(*(kept.get("a", fetch) for _ in range(10))) == [0] * 10
        assert len(asked) == 1

    asyncio.run(story())


def test_a_failure_is_not_kept():
    async def story():
        kept = TtlCache(Hands(), timedelta(minutes=1))

        async def fail():
            raise KeyError("no")

        with pytest.raises(KeyError):
            await kept.get("a", fail)
        assert await kept.get("a", counting()[1]) == 0

    asyncio.run(story())


marks = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400)), max_size=12)


@given(marks, st.integers(0, 1000))
def test_a_shortage_lasts_three_minutes_from_its_last_mark(marked, later):
    clock = Hands()
    begun, unavailable, last = clock.now(), UnavailableOfferings(clock), {}
    for zone, wait in marked:
        clock.pass_(seconds=wait)
        unavailable.mark(OfferingKey("spot", "m5.large", zone))
        last[zone] = clock.now()
    clock.pass_(seconds=later)
    for zone in "ab":
        short = clock.now() - last.get(zone, begun - LIFETIME) < LIFETIME
        assert unavailable.is_unavailable(OfferingKey("spot", "m5.large", zone)) == short
        assert not unavailable.is_unavailable(OfferingKey("on-demand", "m5.large", zone))


@pytest.mark.parametrize(("seconds", "short"), [(179, True), (180, False)])
def test_a_shortage_is_over_at_three_minutes_exactly(seconds, short):
    clock = Hands()
    unavailable = UnavailableOfferings(clock)
    unavailable.mark(OfferingKey("spot", "m5.large", "a"))
    clock.pass_(seconds=seconds)
    assert unavailable.is_unavailable(OfferingKey("spot", "m5.large", "a")) is short


def test_the_version_moves_when_a_shortage_begins_and_when_it_ends():
    clock = Hands()
    unavailable = UnavailableOfferings(clock)
    before = unavailable.version
    unavailable.mark_subnet("subnet-1")
    during = unavailable.version
    clock.pass_(minutes=3)
    assert len({before, during, unavailable.version}) == 3
    assert unavailable.version == unavailable.version
