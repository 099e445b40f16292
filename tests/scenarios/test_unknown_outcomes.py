"""A write that nobody can tell took effect is looked for before it is repeated, however late the watches are."""

import asyncio

from dovetail.model.kinds import NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import OutcomeUnknown
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, deployment, live, node_class, pool, seeded

LATE = seeded(1, watch_delay=20.0)  # longer than any controller waits before it looks again


class NoAnswer:
    """The first creation of a claim takes effect and does not say so."""

    def __init__(self):
        self.left = 1

    async def before(self, call):
        pass

    async def after(self, call):
        if (call.operation, call.kind) == ("create", "NodeClaim") and self.left:
            self.left -= 1
            raise OutcomeUnknown("no answer in time")


def created(life):
    log = [entry for entry in life.world.log if entry.resource == resource_of(NODE_CLAIM)]
    return sum(entry.verb == "ADDED" for entry in log)


def test_a_claim_that_was_made_without_an_answer_is_not_made_twice():
    async def story(life):
        life.world.interference = NoAnswer()
        life.world.apply(deployment(replicas=1))
        await asyncio.sleep(180)
        await life.until(lambda: life.running(1) and life.settled())
        return created(life)

    assert live(story, node_class(), pool(), options=LATE) == 1


def test_a_replacement_that_was_made_without_an_answer_is_not_made_twice():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before = created(life)
        life.world.interference = NoAnswer()
        drifting = Patch({"spec": {"template": {"metadata": {"labels": {"turn": "two"}}}}})
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), drifting)
        await asyncio.sleep(900)
        await life.until(lambda: life.running(1) and life.settled())
        return created(life) - before

    assert live(story, node_class(), pool(), deployment(replicas=1), options=LATE, settings=ACTING) == 1
