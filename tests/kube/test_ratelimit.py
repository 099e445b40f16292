"""The token bucket, on a clock that advances only when a caller sleeps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.requests import create_call, get_call, patch_call
from dovetail.kube.transport import RateLimit
from dovetail.model.cluster_objects import Lease
from dovetail.model.kinds import LEASE, NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import Patch


class Time:
    """A test clock; sleeping is recorded, not done."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)


def taken(calls, time, qps=10, burst=2):
    async def main():
        limit = RateLimit(qps, burst, time.clock, time.sleep)
        for at in calls:
            time.now = at
            await limit.take()

    asyncio.run(main())
    return time.slept


def test_a_burst_passes_and_the_rest_queues_evenly():
    assert taken([0, 0, 0, 0], Time()) == pytest.approx([0.1, 0.2])


def test_the_bucket_fills_with_time_but_never_above_the_burst():
    assert taken([0, 0, 100, 100, 100], Time()) == pytest.approx([0.1])


def test_a_cancelled_call_gives_its_turn_back():
    async def main():
        time = Time()

        async def interrupted(seconds):
            raise asyncio.CancelledError

        limit = RateLimit(10, 1, time.clock, interrupted)
        await limit.take()
        with pytest.raises(asyncio.CancelledError):
            await limit.take()
        limit._sleep = time.sleep
        await limit.take()
        return time.slept

    assert asyncio.run(main()) == pytest.approx([0.1])


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_lets_nothing_through_is_refused(qps, burst):
    with pytest.raises(ValueError, match="rate limit"):
        RateLimit(qps, burst, lambda: 0.0)


@given(st.lists(st.floats(0, 5), max_size=40), st.integers(1, 20), st.integers(1, 5))
def test_law_no_window_sees_more_than_burst_and_rate_allow(gaps, qps, burst):
    async def main():
        now, passed = 0.0, []
        pending = 0.0

        async def sleep(seconds):
            nonlocal pending
            pending = seconds

        limit = RateLimit(qps, burst, lambda: now, sleep)
        for gap in gaps:
            now, pending = now + gap, 0.0
            await limit.take()
            passed.append(now + pending)
        return passed

    passed = asyncio.run(main())
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - begin) * qps + 1e-6


def test_no_call_about_the_lease_waits_for_its_turn():
    key = Key("default", "leader")
    lease = Lease(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
    calls = (get_call(LEASE, key), create_call(LEASE, lease), patch_call(LEASE, key, Patch({})))
    assert [each.urgent for each in calls] == [True, True, True]
    assert not patch_call(NODE, Key("", "a"), Patch({})).urgent
