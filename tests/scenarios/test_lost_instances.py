"""Instances that are lost during the drain of their node: what is left to do ends the instant the node falls silent."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.controllers.termination_steps import RECHECK
from dovetail.model.kube_object import Key
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, PDB
from leaving import QUIET, Diary, nothing_left, seconds
from stories import budget, deployment, live, node_class, node_pool

A_MOMENT = 0.1  # the watch tells it, the provider is asked, two finalizers are taken off
POD_COLLECTION = 60.0  # pods of a node that does not exist are deleted by the cluster itself


def pool(**template):
    return node_pool(template=template, disruption=QUIET)


def hooked():
    """A pod whose `preStop` hook takes ten minutes of its fifteen."""
    manifest = deployment(replicas=1, terminationGracePeriodSeconds=900)
    hook = {"preStop": {"sleep": {"seconds": 600}}}
    manifest["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = hook
    return manifest


def guarded(**annotations):
    manifest = deployment(replicas=1)
    manifest["spec"]["template"]["metadata"]["annotations"] = annotations
    return manifest


def silent_at(diary, node):
    """When the node was first seen not to be ready."""
    return next(at for at, step in diary.steps if step.after.uid == node.metadata.uid and not step.after.ready)


async def settled(life, pods=1):
    await life.until(lambda: life.running(pods) and life.settled())
    assert len(life.nodes) == len(life.claims) == 1
    return life.nodes[0], life.claims[0], Diary(life.world)


DRAINS_THAT_LAST = {
    "held by a budget that never opens": (pool(), deployment(replicas=1), budget(maxUnavailable=0)),
    "waiting for a pod that stops slowly": (pool(), hooked()),
    "waiting for a protected pod": (
        pool(terminationGracePeriod="4h"),
        guarded(**{"karpenter.sh/do-not-disrupt": "true"}),
    ),
    "long before its deadline": (
        pool(terminationGracePeriod="4h"),
        guarded(**{"karpenter.sh/do-not-disrupt": "4h"}),
        budget(maxUnavailable=0),
    ),
}


@pytest.mark.parametrize("held", DRAINS_THAT_LAST.values(), ids=DRAINS_THAT_LAST.keys())
@pytest.mark.parametrize("first", [NODE, NODE_CLAIM])
def test_a_drain_ends_the_instant_its_lost_instance_falls_silent(held, first):
    """The node says Ready for 40 s more: until then it is drained as any other, and then everything goes at once."""

    async def story(life):
        node, claim, diary = await settled(life)
        pod = life.pods[0]
        life.world.api.delete(first, node.key if first == NODE else claim.key)
        await asyncio.sleep(30)
        lost_at = life.world.clock.now()
        life.world.instance_failures.lose(node.name)
        await asyncio.sleep(39)
        assert [each.name for each in life.nodes if each.deleting] == [node.name]
        await life.until(lambda: nothing_left(life, [node], [claim]), within=30)
        noticed_at = silent_at(diary, node)
        assert 40 <= seconds(noticed_at - lost_at) <= 50
        assert 0 < seconds(diary.gone_at(node.metadata.uid) - noticed_at) < A_MOMENT
        assert 0 < seconds(diary.gone_at(claim.metadata.uid) - noticed_at) < A_MOMENT
        assert diary.condition_at(claim.metadata.uid, "Drained", "True") is None  # skipped, and not claimed to be done
        await life.until(lambda: diary.gone_at(pod.metadata.uid), within=90)
        left = diary.gone_at(pod.metadata.uid) - diary.gone_at(node.metadata.uid)
        assert seconds(left) == pytest.approx(POD_COLLECTION, abs=A_MOMENT)
        assert life.events("Disrupted") == []
        await life.until(lambda: life.running(1) and life.settled(), within=600)

    live(story, node_class(), *held)


def test_a_silent_node_whose_instance_is_lost_later_goes_when_it_is():
    """Silent for two minutes, and the provider has the instance: the drain waits. Once it has not, it ends."""

    async def story(life):
        node, claim, diary = await settled(life)
        life.world.api.delete(NODE, node.key)
        life.world.instance_failures.kill(node.name)
        await asyncio.sleep(120)
        assert silent_at(diary, node)
        assert not nothing_left(life, [node], [claim])
        lost_at = life.world.clock.now()
        life.world.instance_failures.lose(node.name)
        await life.until(lambda: nothing_left(life, [node], [claim]), within=30)
        assert 0 < seconds(diary.gone_at(claim.metadata.uid) - lost_at) < RECHECK.total_seconds() + A_MOMENT

    live(story, node_class(), *DRAINS_THAT_LAST["held by a budget that never opens"])


def test_a_node_that_speaks_is_drained_whatever_its_provider_says():
    """The provider has lost it, the kubelet has not: the budget holds, and the volume-free end is the usual one."""

    async def story(life):
        node, claim, diary = await settled(life)
        pod = life.pods[0]
        life.world.api.delete(NODE, node.key)
        life.world.instance_failures.disown(node.name)
        await asyncio.sleep(3600)
        assert [each.metadata.uid for each in life.pods if not each.deleting] == [pod.metadata.uid]
        life.world.api.delete(PDB, Key("default", "web"))
        await life.until(lambda: nothing_left(life, [node], [claim]), within=30)
        assert diary.gone_at(pod.metadata.uid) < diary.gone_at(node.metadata.uid)
        assert diary.condition_at(claim.metadata.uid, "Drained", "True")

    live(story, node_class(), *DRAINS_THAT_LAST["held by a budget that never opens"])


def test_a_process_that_starts_after_the_loss_ends_the_drain_as_well():
    async def story(life):
        node, claim, diary = await settled(life)
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(30)
        await life.stop()
        life.world.instance_failures.lose(node.name)
        await asyncio.sleep(300)
        started_at = life.world.clock.now()
        life.parts = life._parts()
        life.start()
        await life.until(lambda: nothing_left(life, [node], [claim]), within=60)
        assert diary.gone_at(claim.metadata.uid) - started_at < timedelta(seconds=2)
        await life.until(lambda: life.running(1) and life.settled(), within=600)

    live(story, node_class(), *DRAINS_THAT_LAST["held by a budget that never opens"])
