"""Nodes taken away by hand, each way people do it: nothing is left over, everybody runs elsewhere, budgets hold."""

import pytest

from dovetail.model.kube_object import Key
from dovetail.model.labels import NODEPOOL
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, NODE_POOL
from leaving import QUIET, Calls, Diary, nothing_left
from stories import budget, deployment, live, node_class, node_pool, seeded

FOUR_CPUS = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x-amd64-linux"]}
TEMPLATE = {"requirements": [FOUR_CPUS]}


def one(kind):
    return lambda life: [(kind, next(iter(life.nodes if kind == NODE else life.claims)).key)]


def labelled(kind):
    return lambda life: [
        (kind, each.key)
        for each in (life.nodes if kind == NODE else life.claims)
        if each.metadata.labels.get(NODEPOOL) == "default"
    ]


WAYS = {
    "a node": one(NODE),
    "a nodeclaim": one(NODE_CLAIM),
    "all nodeclaims": lambda life: [(NODE_CLAIM, each.key) for each in life.claims],
    "nodes by label": labelled(NODE),
    "nodeclaims by label": labelled(NODE_CLAIM),
    "a nodepool": lambda _life: [(NODE_POOL, Key("", "default"))],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_deleting_ends_with_nothing_left_and_every_pod_elsewhere(way):
    """Twelve pods on three nodes or more, of which at most two may be away."""

    async def story(life):
        await life.until(lambda: life.running(12) and life.settled())
        diary = Diary(life.world)
        targets = WAYS[way](life)
        before = {pod.metadata.uid for pod in life.pods}
        going = [each for each in life.nodes if (NODE, each.key) in targets]
        leaving = [each for each in life.claims if (NODE_CLAIM, each.key) in targets]
        if way == "a nodepool":
            going, leaving = list(life.nodes), list(life.claims)
        for resource, key in targets:
            life.world.api.delete(resource, key)
        await life.until(lambda: nothing_left(life, going, leaving) and life.running(12) and life.settled(), within=900)
        instances = {each.provider_id for each in await life.parts.provider.list()}
        assert instances == {node.provider_id for node in life.nodes}
        assert not instances & {each.provider_id for each in (*going, *leaving)}
        assert {pod.metadata.uid for pod in life.pods} != before
        assert diary.broken_budgets() == []
        assert min(status["disruptionsAllowed"] for status in diary.statuses) == 0
        if way == "a nodepool":
            assert {node.metadata.labels[NODEPOOL] for node in life.nodes} == {"spare"}

    live(
        story,
        node_class(),
        node_pool(template=TEMPLATE, weight=10, disruption=QUIET),
        node_pool("spare", template=TEMPLATE, disruption=QUIET),
        deployment(replicas=12),
        budget(maxUnavailable=2),
        options=seeded(3),
    )


def test_the_calls_for_each_node_are_few_and_known():
    """Every write once, one look at the provider; the pods once each. Nothing is asked while nothing changes."""

    async def story(life):
        await life.until(lambda: life.running(12) and life.settled())
        nodes, claims, pods = life.nodes, life.claims, life.pods
        calls = life.world.interference = Calls()
        for claim in claims:
            life.world.api.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: nothing_left(life, nodes, claims) and life.running(12) and life.settled())
        return len(nodes), calls.about(*nodes, *claims, *pods)

    pool = node_pool(template=TEMPLATE, disruption=QUIET)
    nodes, made = live(story, node_class(), pool, deployment(replicas=12))
    assert made["evict", "Pod"] == 12
    assert made["delete", "Node"] == nodes
    assert made["patch", "Node"] == 2 * nodes  # taint, finalizer
    assert made["patch", "NodeClaim"] <= 4 * nodes  # draining, drained and terminating, finalizer; pod events
    assert made["get", "Node"] == 0
    assert made["terminate", "Instance"] == nodes  # the provider is asked once
    assert made.total() - 12 <= 8 * nodes, made


def test_the_calls_for_each_new_node_are_few_and_known():
    """The claim comes with its finalizer, is launched without a look, and each look at a claim writes once."""

    async def story(life):
        calls = life.world.interference = Calls()
        await life.until(lambda: life.running(12) and life.settled())
        return len(life.nodes), calls.about(*life.nodes, *life.claims)

    pool = node_pool(template=TEMPLATE, disruption=QUIET)
    nodes, made = live(story, node_class(), pool, deployment(replicas=12))
    assert made["launch", "Instance"] == nodes
    assert made["get", "Instance"] == made["get", "Node"] == 0
    assert made["patch", "Node"] == 3 * nodes  # registered, opened, initialized
    assert made["patch", "NodeClaim"] <= 5 * nodes + 1  # labels, launched, registered, initialized; pod events
