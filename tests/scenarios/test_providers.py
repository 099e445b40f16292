"""NodePools of two providers in one cluster: each acts on its own objects, and only once something refers to it."""

import asyncio

import pytest

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ProviderPorts
from dovetail.controllers.garbage_collection import GarbageCollection
from dovetail.controllers.manager import _set_in_use
from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.node import Node, NodeSpec
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Denied, NotFound
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.write_gate import GatedCluster, WriteGate
from dovetail.settings import Settings
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World
from dovetail.wiring.assembly import assemble
from dovetail.wiring.embedded import admit
from stories import Life, deployment, node_class, node_pool

EC2 = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
PROVIDER_ID = "aws:///us-east-1a/i-1"
LABELS = {
    "karpenter.sh/nodepool": "cloud",
    "karpenter.k8s.aws/ec2nodeclass": "default",
    "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true",
}


class Automatic(Life):
    """The controllers as on a real cluster: with every provider that can run."""

    def _parts(self):
        gate = WriteGate()
        gate.open()
        return assemble(GatedCluster(self.world, gate), self.world.clock, self.settings)


def lived(story, *manifests, settings):
    async def main():
        life = Automatic(World(validate=admit), settings)
        async with life.world:
            for manifest in manifests:
                life.world.apply(manifest)
            life.start()
            try:
                await story(life)
            finally:
                await life.stop()

    run(main(), limit=7200)


async def create_ec2_node(world):
    """A node that another process launched, with a claim that has expired."""
    world.apply(ec2_claim("cloud-1"))
    conditions = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for each in ("Launched", "Registered", "Initialized")
    ]
    status = {"providerID": PROVIDER_ID, "nodeName": "ec2", "conditions": conditions}
    await world.patch(NODE_CLAIM, Key("", "cloud-1"), Patch({"status": status}, subresource="status"))
    metadata = ObjectMeta(name="ec2", labels=LABELS, finalizers=("karpenter.sh/termination",))
    await world.create(NODE, Node(metadata=metadata, spec=NodeSpec(provider_id=PROVIDER_ID)))


def ec2_claim(name):
    metadata = {"name": name, "labels": LABELS, "finalizers": ["karpenter.sh/termination"]}
    spec = {"nodeClassRef": EC2, "requirements": [], "expireAfter": "60s"}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_without_its_settings_a_provider_leaves_its_nodes_alone_and_says_why_while_the_other_one_works():
    """Neither expiration nor garbage collection nor termination touches what the provider could not finish."""

    async def story(life):
        await create_ec2_node(life.world)
        await life.until(lambda: life.running(4))
        await asyncio.sleep(1800)
        (kept,) = [each for each in life.claims if each.name == "cloud-1"]
        assert not kept.deleting
        assert "ec2" in {each.name for each in life.nodes}
        (event,) = life.events("ProviderUnusable")
        assert event.involved_object.name == "cloud"
        assert "set --cluster-name (CLUSTER_NAME)" in event.message
        assert life.pool("cloud").status.conditions == ()
        assert {each.nodepool_name for each in life.claims} == {"cloud", "local"}

    pools = node_pool("local", weight=1), node_pool("cloud", template={"nodeClassRef": EC2}, weight=50)
    settings = Settings(catalog="generic", disruption="on")
    lived(story, node_class(), *pools, deployment(replicas=4), settings=settings)


def test_a_nodepool_of_no_provider_is_ignored():
    async def story(life):
        await life.until(lambda: life.running(2))
        assert life.pool("rack").status.conditions == ()
        assert life.pool("rack").metadata.annotations == {}
        assert not [each for each in life.world.values(NODE_CLAIM) if each.nodepool_name == "rack"]

    rack = {"group": "example.com", "kind": "RackNodeClass", "name": "default"}
    pools = node_pool("local", weight=1), node_pool("rack", template={"nodeClassRef": rack}, weight=50)
    lived(story, node_class(), *pools, deployment(replicas=2), settings=Settings(catalog="generic"))


class Counted:
    """A provider of one kind that counts how often its instances are listed."""

    node_class_labels = frozenset()

    def __init__(self, kind):
        self.kind = kind
        self.lists = 0

    def supports(self, ref):
        return ref.kind == self.kind

    async def list(self):
        self.lists += 1
        return ()


def test_a_provider_is_not_called_until_a_nodepool_or_a_claim_refers_to_it():
    async def main():
        world = World()
        state = ClusterState(world)
        clouds = [Counted("KWOKNodeClass"), Counted("EC2NodeClass")]
        providers = [ProviderPorts(cloud=each) for each in clouds]
        _set_in_use(providers, state)

        class Context:
            settings, clock = Settings(), world.clock

        Context.state = state
        loops = [informer.run() for informer in (*state.informers, state.switch)]
        loops += [GarbageCollection(Context, each).run() for each in providers]
        tasks = [asyncio.create_task(each) for each in loops]
        await asyncio.sleep(300)
        assert [each.lists for each in clouds] == [0, 0]
        world.apply(node_pool())
        await asyncio.sleep(300)
        assert (clouds[0].lists > 0, clouds[1].lists) == (True, 0)
        world.apply(ec2_claim("alone"))
        await asyncio.sleep(300)
        assert clouds[1].lists > 0
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run(main(), limit=3600)


@pytest.mark.parametrize("error", [NotFound("no such kind"), Denied("403")])
def test_node_classes_that_are_absent_or_forbidden_have_no_objects(error):
    """Karpenter's charts bring the CRD and the permissions of one provider only."""

    class Refusing:
        async def list(self, _kind, _options=None):
            raise error

    cluster = OptionalKindsCluster(Refusing(), WriteGate(), every_kind=False)
    for kind in (KWOK_NODE_CLASS, EC2_NODE_CLASS):
        assert asyncio.run(cluster.list(kind)).items == ()
    with pytest.raises(type(error)):
        asyncio.run(cluster.list(NODE_POOL))
