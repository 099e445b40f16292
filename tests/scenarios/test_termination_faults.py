"""A process that dies during a drain, and calls that fail: the next one ends it, and no budget is broken meanwhile."""

import asyncio

import pytest

from dovetail.model.kube_object import Key
from dovetail.ports.errors import Unavailable
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, PDB
from leaving import QUIET, Diary, nothing_left
from scenarios.test_faults import Crash, Faults
from stories import budget, deployment, live, node_class, node_pool, seeded


def disk():
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disk.example.com", "volumeHandle": "disk"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "volumeName": "disk",
            "storageClassName": "",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    return volume, claim


VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
BOUNDED = node_pool(template={"terminationGracePeriod": "10m"}, disruption=QUIET)
SCENE = (node_class(), BOUNDED, *disk(), deployment(replicas=3, volumes=VOLUMES), budget(maxUnavailable=1))


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("at", range(1, 16, 2))
def test_a_crash_at_any_call_of_a_drain_is_made_good_by_the_next_process(at, after_effect):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        nodes, claims, diary = life.nodes, life.claims, Diary(life.world)
        crash = life.world.interference = Crash(at, after_effect=after_effect)
        for node in nodes:
            life.world.api.delete(NODE, node.key)
        for _ in range(600):
            if crash.died.is_set():
                break
            await asyncio.sleep(0.25)
        await life.restart()
        await life.until(lambda: nothing_left(life, nodes, claims) and life.running(3) and life.settled(), within=900)
        assert diary.broken_budgets() == []
        return crash.died.is_set()

    assert live(story, *SCENE, options=seeded(at)) or after_effect  # a mere look has no effect to die after


@pytest.mark.parametrize("seed", range(4))
def test_failing_calls_make_a_drain_slower_and_nothing_else(seed):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        nodes, claims, diary = life.nodes, life.claims, Diary(life.world)
        faults = life.world.interference = Faults(seed)
        for claim in claims:
            life.world.api.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: nothing_left(life, nodes, claims), within=900)
        faults.quiet = True
        await life.until(lambda: life.running(3) and life.settled(), within=900)
        assert diary.broken_budgets() == []
        return faults.injected

    assert live(story, *SCENE, options=seeded(seed)) > 2


class HalfRegistered:
    """From the moment a Node is registered on, nobody gets to write that on its claim."""

    def __init__(self):
        self.joined = False

    async def before(self, call):
        if self.joined and (call.operation, call.kind) == ("patch", "NodeClaim"):
            raise Unavailable("down")

    async def after(self, call):
        self.joined = self.joined or (call.operation, call.kind) == ("patch", "Node")


def test_a_node_is_drained_although_its_claim_does_not_know_yet_that_it_registered():
    """The process died between the two writes, and pods run there: the instance does not end under them."""

    async def story(life):
        await life.until(lambda: life.running(1))
        (node,), (claim,), (pod,) = life.nodes, life.claims, life.pods
        assert not claim.has("Registered")
        life.world.api.delete(NODE_CLAIM, claim.key)
        life.world.interference = None
        await life.restart()
        await asyncio.sleep(300)
        assert [each.metadata.uid for each in life.claims if each.deleting] == [claim.metadata.uid]
        assert [each.metadata.uid for each in life.pods if each.node_name == node.name] == [pod.metadata.uid]
        life.world.api.delete(PDB, Key("default", "web"))
        await life.until(lambda: nothing_left(life, [node], [claim]) and life.running(1), within=120)

    scene = (node_class(), node_pool(disruption=QUIET), deployment(replicas=1), budget(maxUnavailable=0))
    live(story, *scene, interference=HalfRegistered())
