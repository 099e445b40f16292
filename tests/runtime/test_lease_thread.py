"""What goes on beside the main loop goes on while the main loop is busy."""

import asyncio
import threading

import pytest

from dovetail.runtime.leader_election import LeaseThread


def aside(story):
    async def main():
        beside = LeaseThread("test")
        try:
            return await story(beside)
        finally:
            await beside.aclose()

    return asyncio.run(main())


def test_it_goes_on_while_the_main_loop_is_blocked():
    async def story(beside):
        done = threading.Event()

        async def renew():
            await asyncio.sleep(0)
            done.set()

        renewing = asyncio.ensure_future(beside.call(renew()))
        await asyncio.sleep(0)
        assert done.wait(timeout=30), "the main loop waits here, and nothing else does"
        await renewing

    aside(story)


def test_what_fails_there_is_raised_here():
    async def story(beside):
        async def fail():
            raise ConnectionError("gone")

        with pytest.raises(ConnectionError, match="gone"):
            await beside.call(fail())

    aside(story)


def test_what_is_cancelled_here_is_cancelled_there():
    async def story(beside):
        ended = threading.Event()

        async def wait():
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(beside.call(wait()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert await asyncio.to_thread(ended.wait, 30)

    aside(story)
