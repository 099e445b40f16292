"""Reads always pass; writes pass while the gate is open, and are finished or cut when it closes."""

import asyncio

import pytest

from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import OutcomeUnknown
from dovetail.runtime.write_gate import GateClosed, GatedCloud, GatedCluster, WriteGate
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World


class Slow:
    """Writes take a minute."""

    async def before(self, call):
        if call.operation not in {"get", "list", "watch"}:
            await asyncio.sleep(60)

    async def after(self, call):
        pass


def through(story, interference=None):
    async def main():
        world, gate = World(interference=interference), WriteGate()
        return await story(GatedCluster(world, gate), gate, world)

    return run(main())


def node(name="a"):
    return Node(metadata=ObjectMeta(name=name))


def test_a_new_gate_lets_reads_pass_and_no_write():
    async def story(cluster, gate, world):
        assert (await cluster.list(NODE)).items == ()
        for write in (
            cluster.create(NODE, node()),
            cluster.patch(NODE, Key("", "a"), Patch({})),
            cluster.delete(NODE, Key("", "a")),
            cluster.evict(Pod(metadata=ObjectMeta(name="web", namespace="default"))),
        ):
            with pytest.raises(GateClosed):
                await write
        assert world.values(NODE) == ()
        assert gate.refused == 4

    through(story)


def test_the_condition_is_asked_in_the_instant_of_each_write():
    async def story(cluster, gate, world):
        allowed = True
        gate.open(lambda: allowed)
        await cluster.create(NODE, node("a"))
        allowed = False
        with pytest.raises(GateClosed):
            await cluster.create(NODE, node("b"))
        assert [each.name for each in world.values(NODE)] == ["a"]

    through(story)


def test_a_closed_gate_lets_writes_in_flight_finish():
    async def story(cluster, gate, world):
        gate.open()
        writing = asyncio.ensure_future(cluster.create(NODE, node()))
        await asyncio.sleep(1)
        gate.close("stopped")
        assert not await gate.wait_until_idle(within=10)
        assert await gate.wait_until_idle(within=100)
        assert (await writing).name == "a"

    through(story, Slow())


def test_abort_cancels_writes_in_flight_with_an_unknown_outcome():
    async def story(cluster, gate, world):
        gate.open()
        writing = asyncio.ensure_future(cluster.create(NODE, node()))
        await asyncio.sleep(1)
        gate.abort("leadership lost")
        with pytest.raises(OutcomeUnknown, match="leadership lost"):
            await writing
        await asyncio.sleep(100)
        assert world.values(NODE) == ()
        assert await gate.wait_until_idle(within=0.1)

    through(story, Slow())


READS = {
    "name",
    "well_known_labels",
    "node_class_labels",
    "can_drift",
    "supports",
    "node_class",
    "instance_types",
    "get",
    "list",
}
REMEMBERS = {"drift", "repair_statements", "avoid"}


def test_every_write_to_the_provider_passes_the_gate():
    """All else is handed on as it is, so a method nobody has thought about would pass unseen."""
    told = {name for name in vars(CloudProvider) if not name.startswith("_")}
    assert told - READS - REMEMBERS == {name for name in vars(GatedCloud) if not name.startswith("_")}
