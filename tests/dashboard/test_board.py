"""When the cluster is looked at for the page: on changes, now and then, and not while nobody looks."""

import asyncio
from contextlib import suppress

import pytest

from acceptance.fleet import cluster, worker
from dashboard.pages import page_served
from dovetail.dashboard import board as module
from dovetail.dashboard import site as sites
from dovetail.dashboard.board import STALE_PAUSES, Board, keep_publishing
from dovetail.sim.loop import run


class Source:
    def __init__(self):
        self.revision = 1
        self.missing = ()

    def unsynced(self):
        return self.missing


async def living(board, source, story, **ways):
    """Publish while the story goes on; answers how often it was looked at."""
    looked = []

    async def take():
        looked.append(source.revision)
        return cluster(worker("a"))

    task = asyncio.get_running_loop().create_task(keep_publishing(board, source, take, 1.0, **ways))
    await story()
    count = len(looked)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return count, len(looked)


@pytest.fixture
def board():
    return Board()


def test_a_change_is_shown_while_somebody_looks(board):
    source = Source()

    async def story():
        board.ask()
        await asyncio.sleep(0.5)
        source.revision += 1
        await asyncio.sleep(3)

    assert run(living(board, source, story))[0] == 2


def test_without_a_change_it_is_looked_at_now_and_then(board):
    async def story():
        board.ask()
        await asyncio.sleep(3 * (STALE_PAUSES + 1) + 0.5)

    assert run(living(board, Source(), story))[0] == 4


def test_while_nobody_looks_nothing_is_taken_but_once_and_at_the_end(board, monkeypatch):
    source = Source()
    monkeypatch.setattr(module, "INTEREST_SECONDS", -1.0)

    async def story():
        for _ in range(50):
            source.revision += 1
            await asyncio.sleep(1)

    assert run(living(board, source, story)) == (1, 1)
    assert not board.still
    assert run(living(board, source, story, stays=True)) == (1, 2)
    assert board.still


def test_what_is_missing_is_told_instead(board):
    source = Source()
    source.missing = ("pods are not listed yet",)

    async def story():
        await asyncio.sleep(2.5)

    assert run(living(board, source, story, stays=True)) == (0, 0)
    assert board.latest.missing == source.missing
    assert board.latest.snapshot is None


def test_a_look_that_fails_does_not_end_the_looking(board, caplog):
    source, looks = Source(), []

    async def take():
        looks.append(source.revision)
        if len(looks) == 1:
            raise RuntimeError("no catalogue")
        return cluster(worker("a"))

    async def life():
        board.ask()
        task = asyncio.get_running_loop().create_task(keep_publishing(board, source, take, 1.0))
        await asyncio.sleep(0.5)
        source.revision += 1
        await asyncio.sleep(1)
        task.cancel()

    run(life())
    assert board.latest.snapshot is not None
    assert "not looked at" in caplog.text


def test_whoever_follows_the_stream_looks_for_as_long_as_they_do(monkeypatch):
    """The page asks for nothing more while it shows the cluster: the stream alone must keep it up to date."""
    monkeypatch.setattr(sites, "BREATH_SECONDS", 0.05)
    with page_served(cluster(worker("a"))) as page, page.stream("/api/events?since=nothing") as events:
        next(events)
        page.board._asked_at = float("-inf")
        while next(events)["event"] != "breath":
            pass
        next(events)
        assert page.board.wanted
