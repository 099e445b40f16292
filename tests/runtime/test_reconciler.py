"""Work by key, on virtual time."""

import asyncio

import pytest

from dovetail.ports.errors import Conflict, Throttled, Unavailable
from dovetail.runtime.reconciler import Reconciler, RetryBackoff
from dovetail.sim.virtual_loop import run


def drive(reconcile, story, seconds=1000.0, **options):
    """Run a reconciler while a story adds keys; returns the instants at which each key was looked at."""

    async def main():
        loop = asyncio.get_running_loop()
        seen = []

        async def noted(key):
            seen.append((key, loop.time()))
            return await reconcile(key, len([each for each, _ in seen if each == key]))

        reconciler = Reconciler("test", noted, **options)
        working = loop.create_task(reconciler.run())
        await story(reconciler)
        await asyncio.sleep(seconds)
        working.cancel()
        await asyncio.wait([working])
        if not working.cancelled() and working.exception():
            raise working.exception()
        return seen

    return run(main())


async def nothing(_key, _attempt):
    return None


def test_a_key_added_twice_is_looked_at_once():
    async def story(reconciler):
        reconciler.add("a")
        reconciler.add("a")

    assert drive(nothing, story) == [("a", 0.0)]


def test_an_earlier_time_replaces_a_later_one_and_not_the_other_way_round():
    async def story(reconciler):
        reconciler.add("a", after=50)
        reconciler.add("a", after=10)
        reconciler.add("a", after=100)

    assert drive(nothing, story) == [("a", 10.0)]


@pytest.mark.parametrize(("known_after", "looks"), [(5, 2), (15, 1)])
def test_a_change_before_drop_requeue_does_not_requeue_the_key(known_after, looks):
    held = []

    async def working(key, attempt):
        if attempt == 1:
            await asyncio.sleep(known_after)
            held[0].drop_requeue(key)
            await asyncio.sleep(20)

    async def story(reconciler):
        held.append(reconciler)
        reconciler.add("a")
        await asyncio.sleep(10)
        reconciler.add("a")

    assert len(drive(working, story)) == looks


def test_a_key_is_never_worked_on_twice_at_once_and_news_during_work_are_not_lost():
    busy = set()

    async def slow(key, _attempt):
        assert key not in busy
        busy.add(key)
        await asyncio.sleep(5)
        busy.discard(key)

    async def story(reconciler):
        reconciler.add("a")
        await asyncio.sleep(1)
        reconciler.add("a")

    assert drive(slow, story) == [("a", 0.0), ("a", 5.0)]


def test_what_is_returned_is_the_wait_until_the_next_look():
    async def thrice(_key, attempt):
        return 7.0 if attempt < 3 else None

    async def story(reconciler):
        reconciler.add("a")

    assert drive(thrice, story) == [("a", 0.0), ("a", 7.0), ("a", 14.0)]


@pytest.mark.parametrize("error", [Conflict("c"), Unavailable("u"), RuntimeError("bug")])
def test_failures_are_retried_later_and_later_and_success_starts_over(error):
    async def fails_thrice(_key, attempt):
        if attempt <= 3:
            raise error

    async def story(reconciler):
        reconciler.add("a")
        reconciler.add("b")

    seen = drive(fails_thrice, story)
    assert [at for key, at in seen if key == "a"] == [0.0, 1.0, 3.0, 7.0]
    assert [at for key, at in seen if key == "b"] == [0.0, 1.0, 3.0, 7.0]


def test_an_assertion_is_not_caught():
    async def wrong(_key, _attempt):
        raise AssertionError("we are wrong")

    async def story(reconciler):
        reconciler.add("a")

    with pytest.raises(BaseExceptionGroup):
        drive(wrong, story)


def test_a_worker_that_breaks_ends_the_others_and_nothing_more_is_handed_out():
    """Keys are due in the very instant of the failure, and another worker is idle."""

    async def main():
        loop = asyncio.get_running_loop()
        seen = []

        async def reconcile(key):
            seen.append(key)
            if key == "bad":
                loop.call_soon(reconciler.add, "late")
                loop.call_soon(loop.call_soon, reconciler.add, "later")
                raise AssertionError("we are wrong")

        reconciler = Reconciler("test", reconcile, workers=3)
        reconciler.add("good")
        working = loop.create_task(reconciler.run())
        await asyncio.sleep(1)
        reconciler.add("bad")
        await asyncio.wait([working], timeout=60)
        with pytest.raises(ExceptionGroup):
            working.result()
        return seen

    assert run(main())[:2] == ["good", "bad"]


def test_what_is_added_between_two_runs_is_looked_at_in_the_second():
    async def main():
        loop = asyncio.get_running_loop()
        seen = []

        async def reconcile(key):
            seen.append((key, loop.time()))

        reconciler = Reconciler("test", reconcile)
        reconciler.add("later", 100.0)
        for _ in range(2):
            working = loop.create_task(reconciler.run())
            await asyncio.sleep(10)
            working.cancel()
            await asyncio.wait([working])
            reconciler.add("between")
        working = loop.create_task(reconciler.run())
        await asyncio.sleep(100)
        working.cancel()
        await asyncio.wait([working])
        return seen

    assert run(main()) == [("between", 10.0), ("between", 20.0), ("later", 100.0)]


def test_a_forgotten_key_is_not_looked_at():
    async def story(reconciler):
        reconciler.add("a", after=5)
        reconciler.forget("a")
        reconciler.add("b", after=6)

    assert drive(nothing, story) == [("b", 6.0)]


def test_no_more_keys_at_once_than_workers():
    running = 0
    most = 0

    async def slow(_key, _attempt):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    async def story(reconciler):
        for key in range(10):
            reconciler.add(key)

    seen = drive(slow, story, workers=3)
    assert len(seen) == 10
    assert most == 3


def test_a_server_that_names_a_wait_gets_it():
    async def throttled(_key, attempt):
        if attempt == 1:
            raise Throttled("slow down", 30.0)

    async def story(reconciler):
        reconciler.add("a")

    assert drive(throttled, story) == [("a", 0.0), ("a", 30.0)]


def test_times_that_were_superseded_do_not_pile_up():
    """A claim that expires in a month and changes every few seconds must not leave a month's worth of entries."""

    async def monthly(_key, _attempt):
        return 720 * 3600.0

    sizes = []

    async def story(reconciler):
        for _ in range(2000):
            reconciler.add("a")
            await asyncio.sleep(1)
            sizes.append(len(reconciler._due))
        for key in range(2000):
            reconciler.add(key, after=1e6)
            reconciler.forget(key)
            sizes.append(len(reconciler._due))

    drive(monthly, story)
    assert max(sizes) < 100


def test_backoff_doubles_to_its_limit():
    backoff = RetryBackoff(first=1, limit=10)
    assert [backoff.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next() == 1
