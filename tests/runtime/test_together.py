"""Concurrent callers share calls, and no result is older than the request."""

import asyncio

import pytest

from dovetail.runtime.concurrency import SingleFlight, in_turns, timed


def test_a_hundred_concurrent_callers_share_two_calls():
    async def story():
        flight, calls = SingleFlight(), 0

        async def call():
            nonlocal calls
            calls += 1
            await asyncio.sleep(0)

        await asyncio.gather(*(flight.run(call) for _ in range(100)))
        return calls

    assert asyncio.run(story()) == 2


def test_a_call_that_began_earlier_does_not_serve_later_callers():
    async def story():
        flight, begun, go_on = SingleFlight(), [], asyncio.Event()

        async def call():
            begun.append(len(begun))
            await go_on.wait()

        first = asyncio.create_task(flight.run(call))
        await asyncio.sleep(0)
        late = [asyncio.create_task(flight.run(call)) for _ in range(3)]
        await asyncio.sleep(0)
        assert begun == [0]
        go_on.set()
        await asyncio.gather(first, *late)
        return begun

    assert asyncio.run(story()) == [0, 1]


def test_after_a_cancelled_or_failed_call_the_next_caller_calls():
    async def story():
        flight, calls = SingleFlight(), []

        async def hangs():
            calls.append("hangs")
            await asyncio.Event().wait()

        async def fails():
            calls.append("fails")
            raise OSError("no answer")

        async def works():
            calls.append("works")

        first = asyncio.create_task(flight.run(hangs))
        others = [asyncio.create_task(flight.run(each)) for each in (fails, works, works)]
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(OSError, match="no answer"):
            await others[0]
        await asyncio.gather(*others[1:])
        return calls

    assert asyncio.run(story()) == ["hangs", "fails", "works"]


def test_timed_measures_by_the_given_clock():
    assert timed(lambda: "answer", iter([3.0, 5.5]).__next__) == ("answer", 2.5)


def test_other_tasks_run_between_the_turns_of_a_long_loop():
    async def story():
        ran = []

        async def other():
            for _ in range(3):
                ran.append("other")
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        async for number in in_turns(range(5), per_turn=2):
            ran += [number]
        await beside
        return ran

    assert asyncio.run(story())[:7] == [0, 1, "other", 2, 3, "other", 4]
