"""What workloads and budgets report of a burst of changes: once for many gains, at once for every loss."""

import asyncio

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.api_server import with_condition
from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, PDB, POD, REPLICAS
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from sim.day import budget, deployment, node

WEB = Key("default", "web")
PODS = 30


async def started(world):
    """Thirty pods of one Deployment under one budget, just about to become ready one after another."""
    for number in range(8):
        world.apply(node(f"node-{number}"))
    await asyncio.sleep(15)
    world.apply(budget("web", "web"))
    world.apply(deployment("web", PODS))
    await asyncio.sleep(0.5)


def scenario(main):
    async def lived():
        async with World(WorldOptions(seed=3)) as world:
            await started(world)
            return await main(world)

    return run(lived(), limit=3600)


def writes(world, resource):
    return sum(entry.resource == resource for entry in world.log)


def status(world, resource):
    (record,) = world.store.all(resource)
    return record.plain["status"]


def pods(world):
    return world.store.all(POD)


async def until_ready(world, count):
    for _ in range(1000):
        if sum(pod.ready for pod in pods(world)) >= count:
            return
        await asyncio.sleep(0.01)


def lose(world, pod):
    lost = with_condition(pod.plain["status"], {"type": "Ready", "status": "False"}, world.api.timestamp())
    world.api.update(pod, {**pod.plain, "status": lost}, "status")


def test_a_burst_of_pods_that_become_ready_is_reported_a_few_times_and_in_full():
    async def main(world):
        before = [writes(world, resource) for resource in (REPLICAS, DEPLOYMENTS, PDB)]
        await asyncio.sleep(10)
        after = [writes(world, resource) for resource in (REPLICAS, DEPLOYMENTS, PDB)]
        ready = [status(world, resource)["readyReplicas"] for resource in (REPLICAS, DEPLOYMENTS)]
        return [b - a for a, b in zip(before, after, strict=True)], ready, status(world, PDB)["currentHealthy"]

    reported, ready, healthy = scenario(main)
    assert max(reported) <= 6
    assert (ready, healthy) == ([PODS, PODS], PODS)


def test_the_first_pod_that_becomes_ready_is_reported_at_once():
    async def main(world):
        await until_ready(world, 1)
        await asyncio.sleep(0.2)
        return status(world, REPLICAS)["readyReplicas"], status(world, PDB)["currentHealthy"]

    assert min(scenario(main)) > 0


def test_each_of_many_pods_lost_is_counted_at_once():
    async def main(world):
        await until_ready(world, PODS)
        counted = []
        for pod in pods(world)[:5]:
            lose(world, pod)
            await asyncio.sleep(0.12)
            counted.append(status(world, PDB)["currentHealthy"])
        return counted

    assert scenario(main) == [PODS - 1, PODS - 2, PODS - 3, PODS - 4, PODS - 5]


def test_a_pod_that_is_lost_amid_a_burst_is_replaced_at_once():
    async def main(world):
        await until_ready(world, PODS // 2)
        world.api.delete(POD, pods(world)[0].key, Deletion(grace_seconds=0))
        await asyncio.sleep(0.12)
        return len(pods(world))

    assert scenario(main) == PODS


def test_a_deleting_pod_leaves_disrupted_pods_at_once():
    async def main(world):
        spec = {"containers": [{"name": "main", "image": "app", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}]}
        metadata = {"name": "slow", "namespace": "default", "labels": {"app": "web"}}
        world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        await asyncio.sleep(10)
        lose(world, world.api.get(POD, Key("default", "slow")))
        await asyncio.sleep(1)
        spent = {**status(world, PDB), "disruptedPods": {"slow": world.api.timestamp()}}
        record = world.api.get(PDB, WEB)
        world.api.update(record, {**record.plain, "status": spent}, "status")
        world.api.delete(POD, Key("default", "slow"))
        await asyncio.sleep(0.2)
        return status(world, PDB).get("disruptedPods")

    assert not scenario(main)
