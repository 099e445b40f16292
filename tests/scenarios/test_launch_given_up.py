"""A launch that keeps failing is given up after the launch timeout, whatever it fails with."""

import asyncio

import pytest

from dovetail.core.lifecycle.registration import LAUNCH_TIMEOUT
from dovetail.model.conditions import find
from dovetail.model.kinds import NODE_CLAIM
from dovetail.ports.errors import Conflict, Denied, InsufficientCapacity, Invalid, OutcomeUnknown, Unavailable
from stories import deployment, live, node_class, node_pool
from watches import SilentWatches

TIMEOUT = LAUNCH_TIMEOUT.total_seconds()
MARGIN = 2.0
"""Seconds. The retry interval, which grows to a minute, must not add to the timeout."""


class Refusing:
    """Every call of one operation on one kind fails."""

    def __init__(self, error, operation="launch", kind="Instance"):
        self.error, self.operation, self.kind = error, operation, kind

    async def before(self, call):
        if (call.operation, call.kind) == (self.operation, self.kind):
            raise self.error

    async def after(self, call):
        pass


async def _first_claim_ends(life, restart_every=None):
    """Messages of the Launched condition of the first claim, and after how many seconds it was deleted."""
    await life.until(lambda: life.claims)
    first = life.claims[0]
    messages = set()
    loop = asyncio.get_running_loop()
    began, step = loop.time(), 0
    while any(claim.metadata.uid == first.metadata.uid and not claim.deleting for claim in life.claims):
        assert loop.time() - began < 3600, "the claim is never given up"
        launched = find(life.claims[0].status.conditions, "Launched")
        messages.add(launched.message if launched is not None else "")
        await asyncio.sleep(1.0)
        step += 1
        if restart_every and step % restart_every == 0:
            await life.restart()
    return messages, loop.time() - began


@pytest.mark.parametrize(
    "error",
    [
        Invalid("not today: the launch template is malformed"),
        Denied("not authorized to perform this operation: not today"),
        Unavailable("not today"),
        OutcomeUnknown("not today"),
        Conflict("not today"),
        KeyError("not today"),
        RecursionError("not today"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_launch_that_is_refused_ends_its_claim_after_the_launch_timeout(error):
    async def story(life):
        return await _first_claim_ends(life)

    messages, seconds = live(story, node_class(), node_pool(), deployment(replicas=1), interference=Refusing(error))
    assert TIMEOUT - MARGIN <= seconds <= TIMEOUT + MARGIN
    assert any("not today" in message for message in messages)


def test_the_launch_timeout_goes_on_over_restarts():
    async def story(life):
        return await _first_claim_ends(life, restart_every=40)

    _, seconds = live(
        story, node_class(), node_pool(), deployment(replicas=1), interference=Refusing(Invalid("not today"))
    )
    assert TIMEOUT - MARGIN <= seconds <= TIMEOUT + MARGIN


def test_a_claim_whose_launch_cannot_be_written_down_is_given_up_too():
    """The instance is there, but every write of the status is refused: without a deadline this goes on for ever."""

    async def story(life):
        return await _first_claim_ends(life)

    _, seconds = live(
        story,
        node_class(),
        node_pool(),
        deployment(replicas=1),
        interference=Refusing(Invalid("no writes"), "patch", "NodeClaim"),
    )
    assert seconds <= TIMEOUT + MARGIN


def test_a_node_that_cannot_be_registered_ends_its_claim_after_the_registration_timeout():
    async def story(life):
        return await _first_claim_ends(life)

    _, seconds = live(
        story,
        node_class(),
        node_pool(),
        deployment(replicas=1),
        interference=Refusing(Invalid("no writes"), "patch", "Node"),
    )
    assert seconds == pytest.approx(900, abs=60)


class RefusedOnce:
    """The first launch finds no capacity. Keeps the NodeClaim it was for."""

    def __init__(self, world):
        self.world = world
        self.refused = None

    async def before(self, call):
        if (call.operation, call.kind) == ("launch", "Instance") and self.refused is None:
            (self.refused,) = self.world.values(NODE_CLAIM)
            raise InsufficientCapacity("no capacity")

    async def after(self, call):
        pass


def test_a_claim_that_was_given_up_is_not_launched_again_while_the_watch_is_late(monkeypatch):
    watches = SilentWatches(monkeypatch)

    async def story(life):
        watches.silence(NODE_CLAIM, 60)
        life.world.interference = cloud = RefusedOnce(life.world)
        await life.until(lambda: cloud.refused and any(claim.deleting for claim in life.claims))
        assert not life.parts.manager.state.claims.items[cloud.refused.key].deleting, "the watch has not told yet"
        life.parts.manager.lifecycle.reconciler.add(cloud.refused.key)  # as after any write to the claim
        await asyncio.sleep(5)
        assert cloud.refused.metadata.uid not in {each.claim_uid for each in life.world.cloud.instances.values()}
        await life.until(lambda: life.running(1) and life.settled())

    live(story, node_class(), node_pool(), deployment(replicas=1))
