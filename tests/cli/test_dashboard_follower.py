"""What the dashboard of a controller publishes: its own state as leader, a separate watch as standby."""

import asyncio
from contextlib import suppress

import pytest

from acceptance.fleet import cluster, worker
from dovetail.cli.dashboard_follower import CHECK_SECONDS, RETRY_SECONDS, STANDING_BY, publish_by_role
from dovetail.dashboard import published_state as boards
from dovetail.dashboard.published_state import PublishedState
from dovetail.sim.virtual_loop import run

SOON = 3 * CHECK_SECONDS


class Life:
    """A replica on virtual time, and what it published by."""

    def __init__(self):
        self.published_state, self.leads, self.running = PublishedState(), False, []
        self.started, self.fails = [], False

    def publishing(self, name, node):
        async def publish():
            self.started.append(name)
            self.running.append(name)
            try:
                if self.fails:
                    raise OSError("no API server")
                self.published_state.publish(cluster(worker(node)))
                await asyncio.Event().wait()
            finally:
                self.running.remove(name)

        return publish

    @property
    def shown(self):
        snapshot = self.published_state.latest.snapshot
        return None if snapshot is None else [node.name for node in snapshot.nodes]


def lived(story):
    async def main():
        life = Life()
        leading, beside = life.publishing("leading", "own"), life.publishing("beside", "looked-at")
        showing = asyncio.create_task(publish_by_role(life.published_state, lambda: not life.leads, leading, beside))
        try:
            await story(life)
        finally:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing
        assert life.running == []

    run(main(), limit=3600.0)


def test_a_replica_that_leads_shows_what_its_controllers_see():
    async def story(life):
        life.leads = True
        await asyncio.sleep(SOON)
        assert (life.shown, life.started) == (["own"], ["leading"])

    lived(story)


def test_a_standby_reads_nothing_until_a_user_connects(monkeypatch):
    async def story(life):
        await asyncio.sleep(SOON)
        assert (life.started, life.published_state.latest.missing) == ([], STANDING_BY)
        life.published_state.ask()
        await asyncio.sleep(SOON)
        assert (life.shown, life.running) == (["looked-at"], ["beside"])
        monkeypatch.setattr(boards, "INTEREST_SECONDS", -1.0)  # they have gone
        await asyncio.sleep(SOON)
        assert (life.shown, life.running) == (None, [])

    lived(story)


def test_a_standby_that_becomes_leader_stops_its_separate_watch():
    async def story(life):
        life.published_state.ask()
        await asyncio.sleep(SOON)
        life.leads = True
        await asyncio.sleep(SOON)
        assert (life.shown, life.running) == (["own"], ["leading"])

    lived(story)


@pytest.mark.parametrize("leads", [True, False])
def test_failed_publishing_is_retried(leads, caplog):
    async def story(life):
        life.leads, life.fails = leads, True
        life.published_state.ask()
        await asyncio.sleep(SOON)
        assert life.shown is None
        life.fails = False
        await asyncio.sleep(RETRY_SECONDS + SOON)
        assert life.shown is not None

    lived(story)
    assert "no API server" in caplog.text
