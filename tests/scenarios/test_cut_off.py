"""A command that is cut off, or cannot shut its node, before there is no way back costs no pod its place."""

import asyncio

import pytest

from dovetail.model.command import RECORD_ANNOTATION
from dovetail.ports.errors import Unavailable
from stories import ACTING, clean, deployment, live, node_class, pool

FIRST_WRITES = 3  # the record, taints and label, the reason; then it is committed, and deleted


class Dies:
    """After so many writes of a command nothing comes back, and nothing goes out any more."""

    def __init__(self, life, after):
        self.life = life
        self.left = after
        self.dead = asyncio.Event()

    async def before(self, call):
        if self.dead.is_set() and call.operation in {"create", "patch", "delete", "evict"}:
            await asyncio.Event().wait()

    async def after(self, call):
        ours = call.operation in {"patch", "delete"} and call.kind in {"NodeClaim", "Node"} and recorded(self.life)
        if ours and not self.dead.is_set():
            self.left -= 1
            if not self.left:
                self.dead.set()
                await asyncio.Event().wait()


class NodesCannotBeWritten:
    """As while a webhook is down."""

    async def before(self, call):
        if call.operation == "patch" and call.kind == "Node":
            raise Unavailable("webhook")

    async def after(self, call):
        pass


def recorded(life):
    return any(RECORD_ANNOTATION in claim.metadata.annotations for claim in life.claims)


def shut(node):
    return [taint.key for taint in node.spec.taints] or node.metadata.labels.get(
        "node.kubernetes.io/exclude-from-external-load-balancers"
    )


async def arrived(life):
    """The pods that came to the only node there is."""
    life.world.apply(deployment(replicas=3))
    await asyncio.sleep(60)
    (node,) = life.nodes
    return {pod.metadata.uid for pod in life.pods if pod.node_name == node.name and pod.status.phase == "Running"}


@pytest.mark.parametrize("writes", range(1, FIRST_WRITES + 1))
def test_an_empty_node_whose_command_died_with_its_process_is_looked_at_anew(writes):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        world = life.world
        world.interference = dies = Dies(life, writes)
        world.apply(deployment(replicas=0))
        await asyncio.wait_for(dies.dead.wait(), 3600)
        world.interference = None
        await life.stop()
        came = await arrived(life)
        assert bool(came) is (writes == 1)  # before anything keeps them away
        await life.restart()
        await life.until(lambda: life.running(3) and clean(life))
        assert came <= {pod.metadata.uid for pod in life.pods}
        assert not any(shut(node) for node in life.nodes)
        assert not life.parts.manager.disruption_queue._reported

    live(story, node_class(), pool(consolidateAfter="5m"), deployment(replicas=3), settings=ACTING)


def test_a_pause_stops_a_command_that_could_not_shut_its_node():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.interference = NodesCannotBeWritten()
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: recorded(life), within=3600)
        paused = pool(consolidateAfter="0s")
        life.world.apply({**paused, "metadata": {**paused["metadata"], "annotations": {"dovetail.sh/pause": "true"}}})
        came = await arrived(life)
        assert len(came) == 3
        life.world.interference = None
        await asyncio.sleep(600)
        assert came == {pod.metadata.uid for pod in life.pods}
        assert clean(life)
        assert not any(shut(node) for node in life.nodes)

    live(story, node_class(), pool(consolidateAfter="0s"), deployment(replicas=3), settings=ACTING)
