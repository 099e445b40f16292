"""Concurrent callers share calls, and no result is older than the request."""

import asyncio

import pytest

from dovetail.runtime.concurrency import SingleFlight


def test_a_hundred_who_ask_while_one_is_answered_are_served_by_one_more():
    async def story():
        flight, calls = SingleFlight(), 0

        async def call():
            nonlocal calls
            calls += 1
            await asyncio.sleep(0)

        await asyncio.gather(*(flight.run(call) for _ in range(100)))
        return calls

    assert asyncio.run(story()) == 2


def test_an_answer_that_was_begun_earlier_does_not_serve():
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


def test_when_the_one_who_asks_is_cancelled_or_fails_the_next_one_asks():
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
