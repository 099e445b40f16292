"""Whatever fails on the way, in the end every pod runs and nothing is left over."""

import asyncio
import random

import pytest

from dovetail.model.kinds import NODE
from dovetail.ports.errors import Conflict, OutcomeUnknown, Throttled, Unavailable
from dovetail.sim.kubernetes.kinds import NODE as NODE_RESOURCE
from stories import deployment, live, node_class, node_pool, seeded

WRITES = {"create", "patch", "delete", "evict"}


class Crash:
    """Lets the process die at its nth call of the API, before or after the call took effect."""

    def __init__(self, at: int, *, after_effect: bool) -> None:
        self.at = at
        self.after_effect = after_effect
        self.calls = 0
        self.died = asyncio.Event()

    async def before(self, call):
        if call.operation in {"list", "watch"}:
            return
        self.calls += 1
        if self.calls == self.at and not self.after_effect:
            await self._die()

    async def after(self, _call):
        if self.calls == self.at and self.after_effect and not self.died.is_set():
            await self._die()

    async def _die(self):
        self.died.set()
        await asyncio.Event().wait()  # the call never answers; the process is killed meanwhile


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("at", range(1, 34, 2))
def test_a_crash_at_any_call_loses_no_pod_and_leaks_no_instance(at, after_effect):
    async def story(life):
        crash = life.world.interference = Crash(at, after_effect=after_effect)
        life.world.apply(deployment(replicas=4))
        deleted = False
        for _ in range(600):
            if crash.died.is_set():
                break
            if life.running(4) and life.settled() and not deleted:
                deleted = True
                life.world.api.delete(NODE_RESOURCE, life.nodes[0].key)
            await asyncio.sleep(0.25)
        await life.restart()
        await life.until(lambda: life.running(4) and life.settled(), within=2000)
        return crash.died.is_set()

    live(story, node_class(), node_pool(), options=seeded(at))


class Faults:
    """Every call may fail, and some fail after they took effect."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.injected = 0
        self.quiet = False

    async def before(self, call):
        if not self.quiet and self.dice.random() < 0.15:
            self.injected += 1
            raise self.dice.choice(
                [Unavailable("down"), Throttled("slow down", 1.0), Conflict("changed")][
                    : 3 if call.operation == "patch" else 2
                ]
            )

    async def after(self, call):
        if not self.quiet and call.operation in WRITES and self.dice.random() < 0.1:
            self.injected += 1
            raise OutcomeUnknown("no answer in time")


@pytest.mark.parametrize("seed", range(12))
def test_faults_cost_time_and_nothing_else(seed):
    async def story(life):
        faults = life.world.interference = Faults(seed)
        life.world.apply(deployment(replicas=6))
        await asyncio.sleep(120)
        for node in life.nodes[:1]:
            life.world.api.delete(NODE_RESOURCE, node.key)
        await asyncio.sleep(300)
        faults.quiet = True
        await life.until(lambda: life.running(6) and life.settled(), within=3000)
        return faults.injected

    assert live(story, node_class(), node_pool(), options=seeded(seed)) > 5


def test_a_killed_machine_leaves_a_node_that_is_not_ready():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        life.world.kill_instance(life.nodes[0].name)
        await life.until(lambda: not life.nodes[0].ready)
        assert life.nodes[0] in life.world.values(NODE)

    live(story, node_class(), node_pool(), deployment(replicas=2))
