"""Which pods a ReplicaSet gives up first when it is asked for fewer."""

import asyncio

import pytest

from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import POD
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from sim.day import deployment, node

HOMES = "abab"
"""The node that each pod finds, in the order they are made."""


def given_up(*changes, homes=HOMES):
    """The place, in the order they were made, of the one pod that goes after the changes."""

    async def main():
        async with World(WorldOptions(seed=3)) as world:
            for count, home in enumerate(homes, start=1):
                world.apply(node(home))
                await asyncio.sleep(15)
                world.apply(deployment("web", count))
                await asyncio.sleep(10)
            pods = world.store.all(POD)
            assert "".join(pod.node for pod in pods) == homes
            for place, change in changes:
                world.api.patch(POD, pods[place].key, change)
            world.apply(deployment("web", len(homes) - 1))
            await asyncio.sleep(0.2)
            (gone,) = [place for place, pod in enumerate(pods) if world.api.get(POD, pod.key).deleting]
            return gone

    return run(main(), limit=3600)


def cost(amount):
    return Patch({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": amount}}})


UNREADY = Patch({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
IDLE = Patch({"status": {"phase": "Unknown"}}, subresource="status")


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        pytest.param([], 3, id="of equals the youngest"),
        pytest.param([(3, cost("5"))], 2, id="not one that is dear"),
        pytest.param([(1, cost("-5"))], 1, id="one that is cheap, before the youngest"),
        pytest.param([(0, UNREADY), (1, cost("-5"))], 0, id="an unready one, before one that is cheap"),
        pytest.param([(0, IDLE), (1, UNREADY)], 0, id="one that does not run, before an unready one"),
    ],
)
def test_scale_down_order_follows_the_deletion_rank(changes, gone):
    assert given_up(*changes) == gone


def test_a_pod_sharing_its_node_is_deleted_before_a_younger_one_that_does_not():
    assert given_up(homes="aab") == 1
