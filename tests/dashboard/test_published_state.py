"""When snapshots are taken for the page: on changes, now and then, and not without viewers."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from acceptance.fleet import cluster, worker
from builders import NOON
from dashboard.pages import page_served
from dovetail.dashboard import published_state as module
from dovetail.dashboard import routes
from dovetail.dashboard.cost_history import SAMPLE_SECONDS
from dovetail.dashboard.published_state import STALE_PAUSES, PublishedState, keep_publishing
from dovetail.sim.virtual_loop import run


class Source:
    def __init__(self):
        self.revision = 1
        self.missing = ()
        self.out_of_date = ()

    def unsynced(self):
        return self.missing

    def stale(self):
        return self.out_of_date


async def living(published_state, source, scenario, **ways):
    """Publish while the scenario goes on; returns how often it was requested."""
    looked = []

    async def take():
        looked.append(source.revision)
        return cluster(worker("a"))

    task = asyncio.get_running_loop().create_task(keep_publishing(published_state, source, take, 1.0, **ways))
    await scenario()
    count = len(looked)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return count, len(looked)


@pytest.fixture
def published_state():
    return PublishedState()


def test_a_change_is_published_while_the_page_is_viewed(published_state):
    source = Source()

    async def scenario():
        published_state.ask()
        await asyncio.sleep(0.5)
        source.revision += 1
        await asyncio.sleep(3)

    assert run(living(published_state, source, scenario))[0] == 2


def test_without_a_change_a_snapshot_is_taken_now_and_then(published_state):
    async def scenario():
        published_state.ask()
        await asyncio.sleep(3 * (STALE_PAUSES + 1) + 0.5)

    assert run(living(published_state, Source(), scenario))[0] == 4


def test_without_viewers_snapshots_are_published_only_at_start_and_end(published_state, monkeypatch):
    source, published = Source(), []
    monkeypatch.setattr(module, "INTEREST_SECONDS", -1.0)
    monkeypatch.setattr(published_state, "publish", published.append)

    async def scenario():
        for _ in range(50):
            source.revision += 1
            await asyncio.sleep(1)

    run(living(published_state, source, scenario))
    assert len(published) == 1
    assert not published_state.still
    run(living(published_state, source, scenario, stays=True))
    assert len(published) == 3
    assert published_state.still


def test_without_viewers_the_cost_is_recorded(published_state, monkeypatch):
    monkeypatch.setattr(module, "INTEREST_SECONDS", -1.0)
    source, began = Source(), []

    async def take():
        loop = asyncio.get_running_loop()
        began.append(loop.time())
        return cluster(worker("a"), at=NOON + timedelta(seconds=loop.time()))

    async def life():
        task = asyncio.get_running_loop().create_task(keep_publishing(published_state, source, take, 1.0))
        await asyncio.sleep(600)
        source.out_of_date = ("pods",)
        await asyncio.sleep(300)
        source.out_of_date = ()
        await asyncio.sleep(300)
        task.cancel()

    run(life())
    assert began[1] - began[0] == SAMPLE_SECONDS
    found = published_state.cost_history.document(None, NOON + timedelta(seconds=1200))
    assert found["costPerHour"] == [1.0] * 10 + [None] * 5 + [1.0] * 5


def test_without_a_snapshot_the_missing_parts_are_published(published_state):
    source = Source()
    source.missing = ("pods are not listed yet",)

    async def scenario():
        await asyncio.sleep(2.5)

    assert run(living(published_state, source, scenario, stays=True)) == (0, 0)
    assert published_state.latest.missing == source.missing
    assert published_state.latest.snapshot is None


def test_a_failed_snapshot_does_not_stop_the_publishing(published_state, caplog):
    source, looks = Source(), []

    async def take():
        looks.append(source.revision)
        if len(looks) == 1:
            raise RuntimeError("no catalogue")
        return cluster(worker("a"))

    async def life():
        published_state.ask()
        task = asyncio.get_running_loop().create_task(keep_publishing(published_state, source, take, 1.0))
        await asyncio.sleep(0.5)
        source.revision += 1
        await asyncio.sleep(1)
        task.cancel()

    run(life())
    assert published_state.latest.snapshot is not None
    assert "no snapshot for the page" in caplog.text


def test_an_open_stream_counts_as_a_viewer(monkeypatch):
    """A page that shows the cluster sends no further requests, so its stream must keep the snapshots coming."""
    monkeypatch.setattr(routes, "HEARTBEAT_SECONDS", 0.05)
    with page_served(cluster(worker("a"))) as page, page.stream("/api/events?since=nothing") as events:
        next(events)
        page.published_state._asked_at = float("-inf")
        while next(events)["event"] != "heartbeat":
            pass
        next(events)
        assert page.published_state.wanted
