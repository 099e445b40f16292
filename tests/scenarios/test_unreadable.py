"""What cannot be read may be what runs on a node or protects it: nothing is disrupted until it can."""

import asyncio

import pytest

from dovetail.model.kinds import POD
from dovetail.model.wire import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kinds import NODE, NODE_CLAIM
from stories import ACTING, ON_DEMAND, deployment, live, node_class, node_pool, pool


def odd_pod(node):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "about-two"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }


def odd_budget(_node):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"selector": {"matchLabels": ["app"]}},
    }


@pytest.mark.parametrize("odd", [odd_pod, odd_budget])
def test_nothing_is_disrupted_while_a_pod_or_a_budget_cannot_be_read(odd):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        made = life.world.apply(odd(node.name))
        await asyncio.sleep(5)
        life.world.apply(deployment(replicas=0))
        await asyncio.sleep(600)
        assert [each.name for each in life.nodes] == [node.name]
        told = [event for event in life.events("DisruptionBlocked") if event.involved_object.kind == "NodePool"]
        assert any("default/odd" in event.message and event.type == "Warning" for event in told)
        life.world.api.delete(made.resource, Key("default", "odd"))
        await life.until(lambda: not life.nodes, within=60)

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)


def test_the_odd_pod_is_one_nobody_can_read():
    async def story(life):
        life.world.apply(odd_pod("nowhere"))
        await asyncio.sleep(5)
        assert Key("default", "odd") in life.parts.manager.state.pods.unreadable
        assert not life.world.values(POD)

    live(story, node_class(), pool(), settings=ACTING)


def test_a_drain_waits_while_a_pod_cannot_be_read():
    """It may run on that very node, and nobody would have asked it to go."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        made = life.world.apply(odd_pod(node.name))
        await asyncio.sleep(5)
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(600)
        assert node.name in [each.name for each in life.nodes]
        assert {pod.node_name for pod in life.pods} != {node.name}  # all others have gone already
        assert any("default/odd" in event.message for event in life.events("FailedDraining"))
        life.world.api.delete(made.resource, Key("default", "odd"))
        await life.until(lambda: life.running(3) and node.name not in [each.name for each in life.nodes], within=60)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_drain_with_a_deadline_does_not_outlast_it_for_a_pod_that_cannot_be_read():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        life.world.apply(odd_pod(node.name))
        await asyncio.sleep(5)
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(290)
        assert node.name in [each.name for each in life.nodes]
        await life.until(lambda: node.name not in [each.name for each in life.nodes], within=15)

    bounded = node_pool(template={"requirements": ON_DEMAND, "terminationGracePeriod": "5m"})
    live(story, node_class(), bounded, deployment(replicas=3))


def test_an_instance_is_not_taken_from_under_a_node_that_cannot_be_read():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        life.world.api.patch(
            NODE, node.key, Patch({"status": {"capacity": {"example.com/odd": "about-four"}}}, "", "status")
        )
        await asyncio.sleep(5)
        assert node.key in life.parts.manager.state.nodes.unreadable
        life.world.api.delete(NODE_CLAIM, claim.key)
        await asyncio.sleep(600)
        assert not life.world.store.find(NODE, node.key).deleting
        assert any(node.name in event.message for event in life.events("FailedDraining"))
        life.world.api.patch(NODE, node.key, Patch({"status": {"capacity": {"example.com/odd": None}}}, "", "status"))
        await life.until(lambda: claim.name not in [each.name for each in life.claims], within=90)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_node_whose_claim_may_be_the_one_that_cannot_be_read_is_not_let_go():
    """Without its claim nobody would end the instance."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        odd = {"status": {"capacity": {"example.com/odd": "about-four"}}}
        life.world.api.patch(NODE_CLAIM, claim.key, Patch(odd, "", "status"))
        await asyncio.sleep(5)
        assert claim.key in life.parts.manager.state.claims.unreadable
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(600)
        assert node.name in [each.name for each in life.nodes]
        mended = {"status": {"capacity": {"example.com/odd": None}}}
        life.world.api.patch(NODE_CLAIM, claim.key, Patch(mended, "", "status"))
        await life.until(lambda: claim.name not in [each.name for each in life.claims], within=90)

    live(story, node_class(), pool(), deployment(replicas=3))
