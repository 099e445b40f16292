"""Computations run in one thread, in order; the event loop goes on, and a cancelled caller waits for nothing."""

import asyncio
import gc
import threading
import weakref

import pytest

from dovetail.runtime.compute_thread import ComputeThread


def computing(story):
    async def main():
        compute = ComputeThread("test")
        try:
            return await asyncio.wait_for(story(compute), 30)
        finally:
            compute.close()

    return asyncio.run(main())


def test_the_event_loop_runs_while_work_computes():
    async def story(compute):
        done = threading.Event()
        working = asyncio.ensure_future(compute.run(lambda: done.wait(30)))
        await asyncio.sleep(0)
        done.set()  # by a task of the loop, which the work waits for
        return await working

    assert computing(story)


def test_work_runs_one_at_a_time_in_the_order_of_the_calls():
    async def story(compute):
        began, threads = [], set()

        def work(number):
            began.append(number)
            threads.add(threading.get_ident())
            return number

        results = await asyncio.gather(*(compute.run(lambda number=number: work(number)) for number in range(50)))
        assert began == results == list(range(50))
        assert len(threads) == 1
        assert threading.get_ident() not in threads

    computing(story)


@pytest.mark.parametrize("error", [ValueError("bad"), AssertionError("a defect")], ids=repr)
def test_what_the_work_raises_is_raised_in_the_caller_and_the_thread_goes_on(error):
    async def story(compute):
        def fail():
            raise error

        with pytest.raises(type(error), match=str(error)):
            await compute.run(fail)
        return await compute.run(lambda: "next")

    assert computing(story) == "next"


def test_a_cancelled_caller_returns_at_once_and_the_next_work_begins_only_after_the_abandoned_one():
    async def story(compute):
        began, may_end, order = threading.Event(), threading.Event(), []

        def abandoned():
            began.set()
            may_end.wait(30)
            order.append("abandoned")

        waiting = asyncio.ensure_future(compute.run(abandoned))
        assert await asyncio.to_thread(began.wait, 30)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert not order
        following = asyncio.ensure_future(compute.run(lambda: order.append("next")))
        await asyncio.sleep(0)
        may_end.set()
        await following
        return order

    assert computing(story) == ["abandoned", "next"]


def test_work_that_has_not_begun_when_its_caller_is_cancelled_never_begins():
    async def story(compute):
        may_end, ran = threading.Event(), []
        first = asyncio.ensure_future(compute.run(lambda: may_end.wait(30)))
        second = asyncio.ensure_future(compute.run(lambda: ran.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await first
        await compute.run(lambda: ran.append("third"))
        return ran

    assert computing(story) == ["third"]


def test_closing_does_not_wait_for_work():
    may_end = threading.Event()

    async def story(compute):
        working = asyncio.ensure_future(compute.run(lambda: may_end.wait(30)))
        await asyncio.sleep(0)
        compute.close()
        working.cancel()

    computing(story)  # returns while the work waits
    may_end.set()


def test_a_result_is_not_kept_for_longer_than_the_caller_keeps_it():
    class Result:
        pass

    async def story(compute):
        kept = weakref.ref(await compute.run(Result))
        await compute.run(gc.collect)
        return kept

    assert computing(story)() is None
