"""Nodes that are no longer needed, due or right go away, and nobody is hurt."""

import asyncio

import pytest

from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Unavailable
from stories import (
    ACTING,
    FREELY,
    ON_DEMAND,
    budget,
    clean,
    cost,
    deployment,
    live,
    node_class,
    node_pool,
    pool,
    seeded,
)


def test_empty_nodes_go_when_a_deployment_is_scaled_to_nothing():
    async def story(life):
        await life.until(lambda: life.running(20) and life.settled())
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes and not life.claims)

    live(story, node_class(), pool(), deployment(replicas=20), settings=ACTING)


def test_scaling_in_leads_to_a_cheaper_cluster_that_then_rests():
    async def story(life):
        await life.until(lambda: life.running(40) and life.settled())
        before = cost(life)
        life.world.apply(deployment(replicas=8))
        await asyncio.sleep(1800)
        await life.until(lambda: life.running(8) and life.settled() and clean(life))
        after, names = cost(life), sorted(node.name for node in life.nodes)
        assert after < before / 2
        await asyncio.sleep(4 * 3600)
        assert sorted(node.name for node in life.nodes) == names, "constant load, nothing moves"

    live(story, node_class(), pool(), deployment(replicas=40), settings=ACTING)


def test_pods_are_moved_within_their_budget():
    least = []

    async def story(life):
        await life.until(lambda: life.running(12) and life.settled())
        life.world.apply(deployment("other", 0))

        def watched():
            least.append(
                sum(pod.ready and not pod.deleting and pod.metadata.labels["app"] == "web" for pod in life.pods)
            )
            return False

        with pytest.raises(AssertionError):
            await life.until(watched, within=900)

    manifests = (deployment(replicas=4), deployment("other", 8, cpu="3"), budget(maxUnavailable=1))
    live(story, node_class(), pool(), *manifests, settings=ACTING)
    assert min(least) >= 3


def test_a_budget_of_zero_keeps_every_node():
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        nodes = sorted(node.name for node in life.nodes)
        life.world.apply(deployment(replicas=0))
        await asyncio.sleep(3600)
        assert sorted(node.name for node in life.nodes) == nodes

    live(story, node_class(), pool(budgets=[{"nodes": "0"}]), deployment(replicas=10), settings=ACTING)


def test_soft_expiration_replaces_first():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        old = life.nodes[0].name
        await asyncio.sleep(2 * 3600)
        await life.until(lambda: life.running(3) and life.settled() and clean(life))
        assert old not in [node.name for node in life.nodes]

    live(story, node_class(), pool(expireAfter="1h", consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_a_changed_template_drifts_its_nodes_and_they_are_replaced():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        old = life.nodes[0].name
        patch = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
        await life.world.patch(NODE_POOL, Key("", "default"), patch)
        await life.until(lambda: old not in [node.name for node in life.nodes])
        await life.until(lambda: life.running(3) and life.settled() and clean(life))
        assert all(node.metadata.labels["team"] == "a" for node in life.nodes)

    live(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_a_replacement_that_never_comes_is_given_up_and_the_node_released():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        old = life.nodes[0].name
        life.world.apply(node_class(nodeRegistrationDelay="5h"))
        patch = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
        await life.world.patch(NODE_POOL, Key("", "default"), patch)
        await life.until(lambda: not clean(life), within=300)
        await life.until(lambda: clean(life), within=1500)
        assert old in [node.name for node in life.nodes]
        assert life.running(3)

    live(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


@pytest.mark.parametrize("after", range(2, 40, 3))
def test_a_restart_in_the_middle_of_a_command_leaves_nothing_behind(after):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        patch = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
        await life.world.patch(NODE_POOL, Key("", "default"), patch)
        await life.until(lambda: not clean(life), within=300)
        await asyncio.sleep(after / 10)
        await life.restart()
        await life.until(
            lambda: (
                life.running(3)
                and life.settled()
                and clean(life)
                and all(node.metadata.labels.get("team") == "a" for node in life.nodes)
            ),
            within=4000,
        )

    live(
        story,
        node_class(),
        pool(consolidateAfter="Never"),
        deployment(replicas=3),
        settings=ACTING,
        options=seeded(after),
    )


def test_a_command_that_cannot_be_written_on_all_its_nodes_is_taken_back():
    async def story(life):
        await life.until(lambda: life.running(12) and life.settled())
        queue = life.parts.manager.disruption_queue
        write, written = queue._write_record, []

        async def stumbling(claim, record):
            written.append(claim.name)
            if len(written) == 2:
                raise Unavailable("down")
            return await write(claim, record)

        queue._write_record = stumbling
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: len(written) >= 2)
        queue._write_record = write
        await life.until(lambda: not life.nodes and not life.claims)
        return len(written)

    only = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x-amd64-linux"]}]
    manifest = node_pool(template={"requirements": [*ON_DEMAND, *only]}, disruption=FREELY)
    assert live(story, node_class(), manifest, deployment(replicas=12), settings=ACTING) == 4
