"""How pods of simulated nodes stop, and how their volumes come off."""

import asyncio

from dovetail.model.kinds import VOLUME_ATTACHMENT
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.sim.kubernetes.kinds import POD
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "spec": {},
}


def pod(name="web", sleep=0, grace=30, **spec):
    container = {"name": "main", "image": "app", "lifecycle": {"preStop": {"sleep": {"seconds": sleep}}}}
    fields = {"nodeName": "n", "terminationGracePeriodSeconds": grace, "containers": [container], **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": fields}


def stopped_after(manifest, *deletions):
    """Seconds from the first delete to the end; each deletion is (at, grace)."""

    async def main():
        async with World() as world:
            world.apply(NODE)
            world.apply(manifest)
            await asyncio.sleep(60)
            key, loop = Key("default", "web"), asyncio.get_running_loop()
            began = loop.time()
            ended = asyncio.Event()
            world.store.listen((POD,), lambda step: ended.set() if step.type == "DELETED" else None)
            for at, grace in deletions:
                await asyncio.sleep(began + at - loop.time())
                world.api.delete(POD, key, Deletion(grace_seconds=grace))
            await ended.wait()
            return loop.time() - began

    return run(main())


def test_a_pre_stop_sleep_delays_the_stop():
    assert 100 < stopped_after(pod(sleep=100, grace=200), (0, None)) < 104


def test_the_grace_period_limits_a_pre_stop_hook():
    assert 30 <= stopped_after(pod(sleep=100, grace=30), (0, None)) < 30.2


def test_a_second_delete_with_less_grace_ends_the_pod_sooner_and_one_with_more_changes_nothing():
    slow = pod(sleep=3000, grace=3600)
    assert 110 <= stopped_after(slow, (0, None), (100, 10)) < 110.2
    assert 3000 < stopped_after(slow, (0, None), (100, 3600)) < 3004


def test_a_volume_is_attached_while_in_use_and_its_detach_can_be_delayed():
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "annotations": {"volume-detach.stage.kwok.x-k8s.io/delay": "5m"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "csi": {"driver": "disk.example.com", "volumeHandle": "disk"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "volumeName": "disk",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

    async def main():
        async with World() as world:
            for manifest in (NODE, volume, claim, pod(volumes=mounted), pod("other", volumes=mounted)):
                world.apply(manifest)
            await asyncio.sleep(10)
            (attached,) = world.values(VOLUME_ATTACHMENT)
            assert (attached.spec.node_name, attached.spec.source.persistent_volume_name) == ("n", "disk")
            world.api.delete(POD, Key("default", "web"), Deletion(grace_seconds=0))
            await asyncio.sleep(600)
            assert len(world.values(VOLUME_ATTACHMENT)) == 1  # the other pod still uses it
            world.api.delete(POD, Key("default", "other"), Deletion(grace_seconds=0))
            await asyncio.sleep(299)
            assert len(world.values(VOLUME_ATTACHMENT)) == 1
            await asyncio.sleep(2)
            assert world.values(VOLUME_ATTACHMENT) == ()

    run(main())
