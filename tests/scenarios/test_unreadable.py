"""What cannot be read may be what runs on a node or protects it: nothing is disrupted until it can."""

import asyncio

import pytest

from dovetail.model.kinds import POD
from dovetail.model.wire import Key
from stories import ACTING, deployment, live, node_class, pool


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
        await life.until(lambda: not life.nodes)

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)


def test_the_odd_pod_is_one_nobody_can_read():
    async def story(life):
        life.world.apply(odd_pod("nowhere"))
        await asyncio.sleep(5)
        assert Key("default", "odd") in life.parts.manager.state.pods.unreadable
        assert not life.world.values(POD)

    live(story, node_class(), pool(), settings=ACTING)
