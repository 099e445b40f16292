"""Many questions at once, few answers, none of them older than the question."""

import asyncio

import pytest

from dovetail.runtime.concurrency import SingleFlight


def test_a_hundred_who_ask_while_one_is_answered_are_served_by_one_more():
    async def story():
        together, asked = SingleFlight(), 0

        async def question():
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)

        await asyncio.gather(*(together.ask(question) for _ in range(100)))
        return asked

    assert asyncio.run(story()) == 2


def test_an_answer_that_was_begun_earlier_does_not_serve():
    async def story():
        together, begun, go_on = SingleFlight(), [], asyncio.Event()

        async def question():
            begun.append(len(begun))
            await go_on.wait()

        first = asyncio.create_task(together.ask(question))
        await asyncio.sleep(0)
        late = [asyncio.create_task(together.ask(question)) for _ in range(3)]
        await asyncio.sleep(0)
        assert begun == [0]
        go_on.set()
        await asyncio.gather(first, *late)
        return begun

    assert asyncio.run(story()) == [0, 1]


def test_when_the_one_who_asks_is_cancelled_or_fails_the_next_one_asks():
    async def story():
        together, asked = SingleFlight(), []

        async def hangs():
            asked.append("hangs")
            await asyncio.Event().wait()

        async def fails():
            asked.append("fails")
            raise OSError("no answer")

        async def works():
            asked.append("works")

        first = asyncio.create_task(together.ask(hangs))
        others = [asyncio.create_task(together.ask(each)) for each in (fails, works, works)]
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(OSError, match="no answer"):
            await others[0]
        await asyncio.gather(*others[1:])
        return asked

    assert asyncio.run(story()) == ["hangs", "fails", "works"]
