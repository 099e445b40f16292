"""A day with a little of everything, for tests that compare whole runs. Run as a script it prints the event log."""

import asyncio
import sys

from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import ListOptions, Patch
from dovetail.ports.errors import ApiError
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

WEEK = 7 * 24 * 3600


def deployment(name, replicas):
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "500m"}}}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(name), "spec": spec}


def meta(name):
    return {"name": name, "namespace": "default"}


def budget(name, app):
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(name), "spec": spec}


def node(name, cpu="4"):
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/hostname": name}}
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": room, "capacity": room}}


async def drain(world, name):
    """Close a node and evict everything from it, again and again, as several clients at once would."""
    await world.patch(NODE, Key("", name), Patch({"spec": {"unschedulable": True}}))
    while True:
        pods = await world.list(POD, ListOptions(field_selector=f"spec.nodeName={name}"))
        if not pods.items:
            return
        await asyncio.gather(*(evict(world, pod) for pod in pods.items))
        await asyncio.sleep(5)


async def evict(world, pod):
    try:
        await world.evict(pod)
    except ApiError:
        await asyncio.sleep(1)


async def count_changes(world, counts):
    listing = await world.list(POD)
    version = listing.resource_version
    while True:
        async for change in world.watch(POD, version):
            version = change.resource_version
            counts[change.type] = counts.get(change.type, 0) + 1


async def day(seed):
    async with World(WorldOptions(seed=seed)) as world:
        counts = {}
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(count_changes(world, counts))
            for name in ("web", "shop", "mail"):
                world.apply(deployment(name, 5))
                world.apply(budget(name, name))
            await asyncio.sleep(60)
            for number in range(4):
                world.apply(node(f"node-{number}"))
            await asyncio.sleep(3600)
            world.kill_instance("node-3")
            await asyncio.sleep(3600)
            await drain(world, "node-0")
            await world.delete(NODE, (await world.list(NODE)).items[0].key)
            world.apply(deployment("web", 2))
            await asyncio.sleep(12 * 3600)
            watcher.cancel()
        assert counts["ADDED"] > 15
        return world.log_bytes()


if __name__ == "__main__":
    sys.stdout.buffer.write(run(day(int(sys.argv[1])), limit=WEEK))
