"""The simulated cloud: instances exist independently of Nodes, and listeners get every change of a record."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.model.kinds import NODE
from dovetail.ports.errors import InstanceNotFound
from dovetail.sim.cloud.service import CapacityShortage, CloudOptions, LaunchRequest, OfferingUnavailable
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions


def request(name="one", **fields):
    bought = {"instance_type": "m", "zone": "a", "capacity_type": "spot", "price": 1.0}
    return LaunchRequest(**{"token": name, "name": name, "claim": name, "nodepool": "default", **bought, **fields})


def lived(scenario, **cloud):
    async def main():
        async with World(replace(WorldOptions(), cloud=CloudOptions(**cloud))) as world:
            return await scenario(world)

    return run(main(), limit=24 * 3600.0)


def ready(world, name="one"):
    return any(node.name == name and node.ready for node in world.values(NODE))


def test_an_instance_boots_joins_shuts_down_and_leaves_its_node_behind():
    async def scenario(world):
        states = []
        world.cloud.listen(lambda _, after: states.append((after.state, after.node_name, after.ended_by)))
        id_ = world.cloud.launch(request()).provider_id
        await asyncio.sleep(9)
        assert world.values(NODE) == ()
        await asyncio.sleep(20)
        assert ready(world)
        world.cloud.terminate(id_)
        world.cloud.terminate(id_)
        await asyncio.sleep(31)
        with pytest.raises(InstanceNotFound):
            world.cloud.terminate(id_)
        await asyncio.sleep(60)
        assert [node.ready for node in world.values(NODE)] == [False]
        record = world.cloud.instances[id_]
        assert record.ended_at - record.terminate_called_at == pytest.approx(30)
        return states

    assert lived(scenario, boot=(10.0, 10.0), shutdown=(30.0, 30.0)) == [
        ("pending", None, ""),
        ("running", None, ""),
        ("running", "one", ""),
        ("shutting-down", "one", ""),
        ("terminated", "one", "terminate"),
    ]


def test_a_token_launches_once_also_after_the_instance_ended():
    async def scenario(world):
        first = world.cloud.launch(request())
        assert world.cloud.launch(request(zone="b")) is not None
        world.cloud.end(first.provider_id, "lost")
        assert world.cloud.launch(request()).ended_by == "lost"
        assert len(world.cloud.instances) == 1

    lived(scenario)


def test_a_node_deleted_by_force_leaves_its_instance_running():
    async def scenario(world):
        id_ = world.cloud.launch(request()).provider_id
        await asyncio.sleep(10)
        world.instance_failures.remove_node("one")
        await asyncio.sleep(600)
        assert world.values(NODE) == ()
        assert world.cloud.instances[id_].state == "running"

    lived(scenario)


def test_a_frozen_list_lacks_new_and_has_ended_instances():
    async def scenario(world):
        old = world.cloud.launch(request("old")).provider_id
        world.cloud.freeze_list(30)
        new = world.cloud.launch(request("new")).provider_id
        world.cloud.end(old, "reclaimed")
        assert [each.provider_id for each in world.cloud.list()] == [old]
        assert world.cloud.describe(new)
        await asyncio.sleep(31)
        assert [each.provider_id for each in world.cloud.list()] == [new]

    lived(scenario)


def test_a_shortage_refuses_the_offerings_it_covers_and_no_others():
    async def scenario(world):
        world.cloud.shortages.append(CapacityShortage(zone="a"))
        with pytest.raises(OfferingUnavailable, match="m in a as spot"):
            world.cloud.launch(request())
        assert world.cloud.launch(request(zone="b")).zone == "b"

    lived(scenario)


def test_kubelets_can_join_late_or_never():
    async def scenario(world):
        world.cloud.launches_without_node = 1
        world.cloud.launch(request("never"))
        world.cloud.registration_delays.append(100.0)
        world.cloud.launch(request("late"))
        await asyncio.sleep(90)
        assert world.values(NODE) == ()
        await asyncio.sleep(3600)
        assert [node.name for node in world.values(NODE)] == ["late"]

    lived(scenario)


@pytest.mark.parametrize("deletes_nodes", [True, False])
def test_a_cloud_controller_deletes_the_node_of_an_instance_that_is_gone(deletes_nodes):
    async def scenario(world):
        id_ = world.cloud.launch(request()).provider_id
        await asyncio.sleep(10)
        world.cloud.end(id_, "reclaimed")
        await asyncio.sleep(39)
        assert ready(world)
        await asyncio.sleep(20)
        assert bool(world.values(NODE)) is not deletes_nodes

    lived(scenario, deletes_nodes=deletes_nodes)


def test_records_of_ended_instances_are_kept_up_to_the_limit():
    async def scenario(world):
        for number in range(5):
            world.cloud.end(world.cloud.launch(request(f"n{number}")).provider_id, "lost")
        assert list(world.cloud.instances) == ["kwok://n3", "kwok://n4"]

    lived(scenario, ended_limit=2)
