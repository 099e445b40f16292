"""What a NodePool says it has is what its claims and nodes have, whatever changed last."""

import asyncio

from dovetail.core.lifecycle.nodepool_status import count
from dovetail.core.merge_patches import amounts
from dovetail.model.kinds import KWOK_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM
from stories import ACTING, deployment, live, node_class, node_pool

SMALL = [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]
POOL = node_pool(template={"requirements": SMALL}, disruption={"consolidateAfter": "1m"})


def joined(life):
    """The count over the cluster as everybody else sees it."""
    nodes = life.parts.manager.state.cluster_nodes()
    resources, number = count(each for each in nodes if each.managed and each.nodepool_name == "default")
    return amounts(resources), number


async def told(life):
    """What the pool says once there was time to count."""
    await asyncio.sleep(5)
    status = life.pool().status
    return amounts(status.resources), status.nodes


def test_a_pool_says_what_it_has_while_nodes_come_and_go():
    async def story(life):
        numbers = []
        for replicas in (9, 3, 0):
            life.world.apply(deployment(replicas=replicas))
            await life.until(lambda wanted=replicas: life.running(wanted) and len(life.pods) == wanted)
            for _ in range(30):
                assert await told(life) == joined(life)
                numbers.append(life.pool().status.nodes)
        assert max(numbers) >= 3
        await life.until(lambda: not life.nodes)
        assert (await told(life))[1] == 0

    live(story, node_class(), POOL, deployment(replicas=9), settings=ACTING)


def test_a_node_that_grows_is_counted_as_it_is():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before, _ = await told(life)
        grown = Patch({"status": {"capacity": {"cpu": "7"}}}, subresource="status")
        life.world.api.patch(NODE, life.nodes[0].key, grown)
        assert (before["cpu"], (await told(life))[0]["cpu"]) == ("4", "7")

    live(story, node_class(), POOL, deployment(replicas=1))


def test_what_no_node_has_any_more_is_not_spoken_of():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before, _ = await told(life)
        for amount in ("2", None):
            device = Patch({"status": {"capacity": {"example.com/device": amount}}}, subresource="status")
            life.world.api.patch(NODE, life.nodes[0].key, device)
            assert (await told(life))[0].get("example.com/device") == amount
        assert (await told(life))[0] == before
        version = life.pool().metadata.resource_version
        await asyncio.sleep(1300)
        assert life.pool().metadata.resource_version == version

    live(story, node_class(), POOL, deployment(replicas=1))


def test_an_instance_that_two_claims_have_is_counted_for_none():
    async def story(life):
        await life.until(lambda: life.running(9) and life.settled())
        _, number = await told(life)
        one, other, *_ = life.claims
        same = Patch({"status": {"providerID": one.provider_id}}, subresource="status")
        life.world.api.patch(NODE_CLAIM, Key("", other.name), same)
        assert await told(life) == joined(life)
        assert life.pool().status.nodes == number - 2

    live(story, node_class(), POOL, deployment(replicas=9))


def test_a_pool_hears_of_its_node_class_at_once():
    """A class may be made after the pools that name it, and go before them."""

    def ready(life):
        return next(each.status for each in life.pool().status.conditions if each.type == "NodeClassReady")

    async def story(life):
        await asyncio.sleep(30)
        assert ready(life) == "False"
        life.world.apply(node_class())
        await life.until(lambda: ready(life) == "True", within=5)
        await life.world.delete(KWOK_NODE_CLASS, Key("", "default"))
        await life.until(lambda: ready(life) == "False", within=5)

    live(story, POOL)
