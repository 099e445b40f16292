"""NodePools at their limit: nodes are still replaced, and a limit that blocks is named."""

import asyncio

import pytest

from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.ports.cluster import Patch
from stories import ACTING, ON_DEMAND, clean, deployment, live, node_class, node_pool

FOURS = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}
UNMOVED = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


def pool(**limits):
    return node_pool(template={"requirements": [*ON_DEMAND, FOURS]}, limits=limits, disruption=UNMOVED)


async def drift(life, version="1"):
    """Every node of the pool drifts."""
    template = {"spec": {"template": {"metadata": {"labels": {"version": version}}}}}
    await life.world.patch(NODE_POOL, Key("", "default"), Patch(template))


@pytest.mark.parametrize("limits", [{"cpu": "12"}, {"nodes": "3"}, {"cpu": "12", "nodes": "3"}], ids=str)
def test_drift_replaces_nodes_of_a_pool_at_its_limit(limits):
    """Three nodes, all the limit allows. While a node and its replacement overlap, there is one more, never two."""
    most = 0

    async def story(life):
        nonlocal most
        await life.until(lambda: life.running(3) and life.settled())
        for version in ("1", "2"):  # then the replacements are replaced
            before = {claim.name for claim in life.claims}
            assert len(before) == 3
            await drift(life, version)

            def replaced(before=before):
                nonlocal most
                staying = [claim for claim in life.claims if not claim.deleting]
                most = max(most, len(staying))
                return before.isdisjoint(claim.name for claim in life.claims) and life.running(3) and life.settled()

            await life.until(replaced, within=1800)
            await asyncio.sleep(300)
            assert clean(life)
        return len(life.nodes)

    assert live(story, node_class(), pool(**limits), deployment(replicas=3, cpu="3"), settings=ACTING) == 3
    assert most <= 6, "every node has at most one replacement beside it"


def test_a_limit_that_was_lowered_blocks_drift_and_is_named():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        before = {claim.name for claim in life.claims}
        await life.world.patch(NODE_POOL, Key("", "default"), Patch({"spec": {"limits": {"cpu": "4"}}}))
        await drift(life)
        await asyncio.sleep(600)
        assert {claim.name for claim in life.claims} == before
        assert clean(life)
        return {event.message for event in life.events("DisruptionBlocked")}

    said = live(story, node_class(), pool(cpu="8"), deployment(replicas=2, cpu="3"), settings=ACTING)
    assert any("nodepool default: cpu limit 4, 4 used, at least 4 needed" in each for each in said), said


class SlowCreates:
    """Each create of a NodeClaim takes five seconds."""

    async def before(self, call):
        if (call.operation, call.kind) == ("create", "NodeClaim"):
            await asyncio.sleep(5)

    async def after(self, call):
        pass


def test_a_replacement_and_a_node_for_new_pods_do_not_share_what_is_left_below_a_limit():
    """Four CPUs run. Drift needs eight in their place, new pods need eight more, and twelve are allowed."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        life.world.interference = SlowCreates()
        requirements = [*ON_DEMAND, {**FOURS, "values": ["s-8x-amd64-linux"]}]
        template = {"spec": {"template": {"spec": {"requirements": requirements}}}}
        await life.world.patch(NODE_POOL, Key("", "default"), Patch(template))
        await life.until(lambda: any(RECORD_ANNOTATION in claim.metadata.annotations for claim in life.claims))
        life.world.apply(deployment("more", 1, cpu="5"))
        most = 0
        for _ in range(600):
            await asyncio.sleep(1)
            most = max(most, sum(claim.metadata.labels[INSTANCE_TYPE].startswith("s-8x") for claim in life.claims))
        assert most == 1

    live(story, node_class(), pool(cpu="12"), deployment(replicas=1, cpu="3"), settings=ACTING)
