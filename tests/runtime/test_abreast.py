"""Many at once: in the time of one, and nobody waits for the one that fails."""

import asyncio

import pytest

from dovetail.runtime.concurrency import for_each
from dovetail.sim.virtual_loop import run


def test_a_hundred_take_as_long_as_one_and_answers_keep_their_order():
    async def story():
        async def double(number):
            await asyncio.sleep(1 + (100 - number) / 1000)
            return 2 * number

        answers = await for_each(double, range(100))
        return answers, asyncio.get_running_loop().time()

    answers, took = run(story())
    assert answers == [2 * number for number in range(100)]
    assert took < 1.2


def test_one_that_fails_keeps_the_others_from_nothing_and_is_raised_in_the_end():
    async def story():
        done = []

        async def step(number):
            if number == 1:
                raise LookupError("the second")
            await asyncio.sleep(number)
            done.append(number)

        with pytest.raises(LookupError, match="the second"):
            await for_each(step, range(4))
        return done

    assert run(story()) == [0, 2, 3]


def test_whoever_is_cancelled_takes_all_of_them_along():
    async def story():
        ended = []

        async def step(number):
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(number)

        task = asyncio.get_running_loop().create_task(for_each(step, range(3)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return ended, task.cancelled()

    assert run(story()) == ([0, 1, 2], True)
