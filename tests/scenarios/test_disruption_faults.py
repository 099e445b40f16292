"""Disruption under faults: whatever fails, in the end every pod runs and nothing of a command is left behind."""

import asyncio
import random

import pytest

from dovetail.model.command import read_record
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Conflict, OutcomeUnknown, Throttled, Unavailable
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, budget, clean, deployment, live, node_class, pool, seeded

WRITES = {"create", "patch", "delete", "evict"}


class Faults:
    """Every call may fail, some after they took effect."""

    def __init__(self, seed):
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.injected = 0
        self.quiet = False

    async def before(self, call):
        if not self.quiet and self.dice.random() < 0.1:
            self.injected += 1
            choices = [Unavailable("down"), Throttled("slow down", 1.0), Conflict("changed")]
            raise self.dice.choice(choices[: 3 if call.operation == "patch" else 2])

    async def after(self, call):
        if not self.quiet and call.operation in WRITES and self.dice.random() < 0.07:
            self.injected += 1
            raise OutcomeUnknown("no answer in time")


@pytest.mark.parametrize("seed", range(8))
def test_faults_and_crashes_cost_time_and_nothing_else(seed):
    async def story(life):
        await life.until(lambda: life.running(20) and life.settled())
        faults = life.world.interference = Faults(seed)
        dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        life.world.apply(deployment(replicas=6))
        for step in range(6):
            await asyncio.sleep(dice.uniform(5, 90))
            if step % 2:
                await life.restart()
            else:
                label = {"spec": {"template": {"metadata": {"labels": {"step": str(step)}}}}}
                life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(label))
        faults.quiet = True
        await life.until(lambda: life.running(6) and life.settled() and clean(life), within=7200)
        await asyncio.sleep(1800)
        await life.until(lambda: life.running(6) and life.settled() and clean(life), within=3600)
        return faults.injected

    manifests = (deployment(replicas=20), budget(maxUnavailable=3))
    assert live(story, node_class(), pool(), *manifests, settings=ACTING, options=seeded(seed)) > 5


class Hanging:
    """Replacements are asked for, and the process dies before there is an answer."""

    def __init__(self):
        self.over = False

    async def before(self, call):
        if not self.over and call.operation == "create" and call.kind == "NodeClaim":
            await asyncio.Event().wait()

    async def after(self, call):
        pass


def test_a_command_cut_off_by_a_crash_is_taken_back_and_not_held_against_its_pool():
    """A pool whose commands fail is left alone for a minute; this one did nothing wrong."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        old = {node.name for node in life.nodes}
        hanging = life.world.interference = Hanging()
        label = {"spec": {"template": {"metadata": {"labels": {"step": "new"}}}}}
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(label))
        await life.until(lambda: any(map(read_record, life.claims)))
        hanging.over = True
        await life.restart()
        await life.until(lambda: not old & {node.name for node in life.nodes} and clean(life), within=45)

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)
