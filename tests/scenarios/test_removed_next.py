"""Nodes that consolidation deletes next are marked, so that evicted pods are scheduled elsewhere."""

import asyncio

from dovetail.model.kinds import NODE, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.taints import PREFER_NO_SCHEDULE, REMOVED_NEXT_TAINT
from dovetail.ports.cluster import Patch
from stories import ACTING, FREELY, ON_DEMAND, deployment, live, node_class, node_pool

HINT = {"key": REMOVED_NEXT_TAINT.key, "effect": PREFER_NO_SCHEDULE}
BLOCKED = [{"nodes": "0"}]


def marked(life):
    return {node.name for node in life.nodes if any(taint.matches(REMOVED_NEXT_TAINT) for taint in node.spec.taints)}


def pods_of_marked_nodes(life):
    pods = [pod for pod in life.pods if not pod.daemon]
    return {name: {pod.name for pod in pods if pod.node_name == name} for name in marked(life)}


def set_pool(life, **disruption):
    return life.world.patch(NODE_POOL, Key("", "default"), Patch({"spec": {"disruption": disruption}}))


def workloads(replicas):
    """Twelve Deployments, the first of them with a pod."""
    return [deployment(f"w{each}", 1 if each < replicas else 0, cpu="900m") for each in range(12)]


async def scaled_in(life):
    """Twelve pods become six."""
    await life.until(lambda: life.running(12) and life.settled())
    for each in workloads(6):
        life.world.apply(each)
    await life.until(lambda: life.running(6))


def restrained(**disruption):
    """A NodePool of nodes with 2 CPUs."""
    small = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"]}
    fields = {**FREELY, "minSavings": "100%", **disruption}
    return node_pool(template={"requirements": [*ON_DEMAND, small]}, disruption=fields)


def test_nodes_that_only_a_budget_keeps_are_marked_until_min_savings_is_turned_off():
    async def story(life):
        await scaled_in(life)
        await life.until(lambda: marked(life), within=600)
        await asyncio.sleep(600)
        assert marked(life) < {node.name for node in life.nodes}, "some nodes have to stay"
        await set_pool(life, minSavings="0%")
        await life.until(lambda: not marked(life), within=60)

    live(story, node_class(), restrained(budgets=BLOCKED), *workloads(12), settings=ACTING)


def test_evicted_pods_are_not_scheduled_to_marked_nodes():
    async def story(life):
        await scaled_in(life)
        await life.until(lambda: len(marked(life)) > 1, within=600)
        number, before = len(life.nodes), pods_of_marked_nodes(life)
        await set_pool(life, budgets=[{"nodes": "1"}])
        for _ in range(1800):
            await asyncio.sleep(1)
            now = pods_of_marked_nodes(life)
            assert all(pods <= before.get(name, pods) for name, pods in now.items())
            before = now
        assert len(life.nodes) < number
        assert not before

    live(story, node_class(), restrained(budgets=BLOCKED), *workloads(12), settings=ACTING)


def test_a_mark_that_another_process_left_is_removed():
    async def story(life):
        await life.until(lambda: life.running(12) and life.settled())
        await life.world.patch(NODE, life.nodes[0].key, Patch({"spec": {"taints": [HINT]}}))
        assert marked(life)
        await life.until(lambda: not marked(life), within=120)

    live(story, node_class(), restrained(), *workloads(12), settings=ACTING)
