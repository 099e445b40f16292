"""What every write of the controllers carries, and in which order writes come, seen from the API server."""

import asyncio

from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.sim.kubernetes.kinds import NODE as NODE_RESOURCE
from dovetail.sim.kubernetes.kinds import NODE_CLAIM as CLAIM_RESOURCE
from dovetail.sim.world import World
from stories import ACTING, deployment, live, node_class, node_pool, pool

QUIET = {"consolidateAfter": "Never"}
BY_HAND = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "by-hand", "labels": {"karpenter.sh/nodepool": "default"}},
    "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [],
        "resources": {"requests": {"cpu": "1"}},
    },
}
"""Claims of our own have the finalizer from the start."""


def scaled(life, replicas):
    life.world.apply({**deployment(), "spec": {"replicas": replicas}})


def test_nodes_and_claims_are_patched_at_the_version_that_was_read(monkeypatch):
    """All but the time of the last pod event, which replaces nothing that others write."""
    bare = []
    real = World.patch

    async def patch(world, kind, key, patch):
        if kind in (NODE, NODE_CLAIM) and not patch.resource_version and patch.body.keys() != {"status"}:
            bare.append((kind.name, patch.body))
        return await real(world, kind, key, patch)

    monkeypatch.setattr(World, "patch", patch)

    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        scaled(life, 0)
        await life.until(lambda: not life.nodes and not life.claims, within=1800)

    live(story, node_class(), pool(), deployment(), settings=ACTING)
    assert bare == []


def test_pods_are_forced_by_uid(monkeypatch):
    """A StatefulSet gives the next pod the same name."""
    deletions = []
    real = World.delete

    async def delete(world, kind, key, deletion=None):
        if kind is POD:
            deletions.append(deletion)
        return await real(world, kind, key, deletion)

    monkeypatch.setattr(World, "delete", delete)

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        life.world.api.delete(CLAIM_RESOURCE, life.claims[0].key)
        await life.until(lambda: bool(deletions), within=300)

    protected = deployment(replicas=1)
    protected["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    bounded = node_pool(disruption=QUIET, template={"terminationGracePeriod": "60s"})
    live(story, node_class(), bounded, protected)
    assert all(each.uid for each in deletions)


def test_a_claim_has_its_finalizer_before_anything_is_launched_for_it():
    held = []

    async def story(life):
        provider = life.parts.provider
        real = provider.launch

        async def launch(claim):
            held.extend(TERMINATION_FINALIZER in each.metadata.finalizers for each in life.world.values(NODE_CLAIM))
            return await real(claim)

        provider.launch = launch
        life.world.apply(BY_HAND)
        await life.until(lambda: bool(held), within=120)

    live(story, node_class(), node_pool(disruption=QUIET))
    assert held
    assert all(held)


class Deletions:
    """Notes for each NodeClaim that is deleted whether new pods are kept from its node."""

    def __init__(self, world):
        self.world = world
        self.shut = []

    async def before(self, call):
        if call.operation == "delete" and call.kind == "NodeClaim":
            self.shut += [
                any(taint.key == "karpenter.sh/disrupted" for taint in node.spec.taints)
                for node in self.world.values(NODE)
            ]

    async def after(self, call):
        pass


def test_no_new_pod_can_come_to_a_node_from_the_last_check_on():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        seen = life.world.interference = Deletions(life.world)
        scaled(life, 0)
        await life.until(lambda: not life.nodes, within=1800)
        return seen.shut

    shut = live(story, node_class(), pool(), deployment(replicas=1), settings=ACTING)
    assert shut
    assert all(shut)


def test_the_end_of_every_instance_is_asked_of_the_provider():
    asked = []

    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        provider = life.parts.provider
        real = provider.terminate

        async def terminate(claim):
            asked.append(claim.name)
            await real(claim)

        provider.terminate = terminate
        gone = [each.name for each in life.claims]
        for node in life.nodes:
            life.world.api.delete(NODE_RESOURCE, node.key)
        await life.until(lambda: not {each.name for each in life.claims} & {*gone}, within=600)
        await asyncio.sleep(1)
        return gone

    gone = live(story, node_class(), node_pool(disruption=QUIET), deployment())
    assert {*gone} <= {*asked}
