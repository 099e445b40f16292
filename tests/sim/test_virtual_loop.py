"""Virtual time: jumps, the order of callbacks, and the detection of deadlocks."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.sim.virtual_loop import OutOfTime, Stalled, VirtualClock, run

WEEK = 7 * 24 * 3600


def test_a_week_of_sleep_passes_at_once():
    async def scenario():
        await asyncio.sleep(WEEK)
        return VirtualClock(asyncio.get_running_loop()).now()

    assert run(scenario()) == datetime(2026, 1, 12, tzinfo=UTC)


def test_the_clock_starts_at_its_epoch():
    async def scenario():
        epoch = datetime(2030, 6, 1, tzinfo=UTC)
        clock = VirtualClock(asyncio.get_running_loop(), epoch)
        await asyncio.sleep(1.5)
        return clock.now() - epoch

    assert run(scenario()) == timedelta(seconds=1.5)


def test_timers_of_one_instant_fire_in_the_order_they_were_made():
    async def scenario():
        loop, fired = asyncio.get_running_loop(), []
        for number in range(50):
            loop.call_at(10.0, fired.append, number)
        loop.call_at(5.0, fired.append, "earlier")
        await asyncio.sleep(10)
        return fired

    assert run(scenario()) == ["earlier", *range(50)]


def test_ready_callbacks_run_first_in_first_out():
    async def scenario():
        order = []

        async def step(name):
            for turn in range(3):
                order.append((turn, name))
                await asyncio.sleep(0)

        await asyncio.gather(*(step(name) for name in "abc"))
        return order

    assert run(scenario()) == [(turn, name) for turn in range(3) for name in "abc"]


def test_a_cancelled_timer_never_fires_and_does_not_move_time():
    async def scenario():
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            loop.call_later(100, pytest.fail).cancel()
        await asyncio.sleep(1)
        return loop.time()

    assert run(scenario()) == 1.0


def test_timeouts_are_of_virtual_time():
    async def scenario():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 3600.0


def test_a_deadlock_is_an_error_that_names_the_blocked_task():
    async def waits_in_vain():
        await asyncio.sleep(1)
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="waits_in_vain"):
        run(waits_in_vain())


def test_more_virtual_time_than_allowed_is_an_error():
    async def never_ends():
        await asyncio.sleep(60)
        await never_ends()

    with pytest.raises(OutOfTime, match="never_ends"):
        run(never_ends(), limit=3600)


def test_pace_is_called_before_every_jump():
    jumps = []

    async def scenario():
        await asyncio.sleep(1)
        await asyncio.sleep(0)
        await asyncio.sleep(2)

    run(scenario(), pace=jumps.append)
    assert jumps == [1.0, 3.0]


def test_a_failed_callback_fails_the_run():
    async def scenario():
        asyncio.get_running_loop().call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(RuntimeError) as failure:
        run(scenario())
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_tasks_left_behind_are_cancelled_in_the_order_they_were_made():
    ended = []

    async def background(name):
        try:
            await asyncio.sleep(WEEK)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def scenario():
        kept = [asyncio.create_task(background(name)) for name in "abcdefgh"]
        await asyncio.sleep(1)
        return len(kept)

    run(scenario())
    assert ended == list("abcdefgh")


def test_abandoned_generators_are_closed():
    closed = []

    async def numbers():
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(1)
            closed.append(True)

    async def scenario():
        async for _ in numbers():
            break

    run(scenario())
    assert closed == [True]


def test_threads_are_refused():
    async def scenario():
        await asyncio.to_thread(print)

    with pytest.raises(NotImplementedError):
        run(scenario())
