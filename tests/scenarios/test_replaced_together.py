"""Single nodes that are each replaced by a cheaper one wait for their second look together, as far as they may."""

import asyncio
from datetime import timedelta

from dovetail.model.command import read_record
from dovetail.model.kinds import POD
from dovetail.ports.cluster import Patch
from scenarios.test_second_look import commands_of
from stories import ACTING, FREELY, ON_DEMAND, clean, cost, deployment, live, node_class, node_pool

SMALL = "s-2x-amd64-linux"
SIZES = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SMALL, "s-4x-amd64-linux"]}
LOOK = timedelta(seconds=15)


def sized(nodes="100%", **fields):
    disruption = {**FREELY, "budgets": [{"nodes": nodes}], "minSavings": "0%"}
    return node_pool(template={"requirements": [*ON_DEMAND, SIZES]}, disruption=disruption, **fields)


def spread(name, replicas, cpu):
    """Never two on a node: no node can go unless another comes."""
    away = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
    return deployment(name, replicas, cpu=cpu, affinity=affinity)


class Seen:
    """What happened while six nodes of four cores were left with a pod that would do with two."""

    def __init__(self):
        self.commands = {}
        self.nodes = self.away = 0
        self.waves = []
        self.told = set()

    def look(self, life):
        self.nodes = max(self.nodes, len(life.claims))
        self.away = max(self.away, sum(read_record(claim) is not None for claim in life.claims))

    async def live(self, life, meanwhile=None, small=6):
        self.commands = commands_of(life)
        await life.until(lambda: life.running(12) and life.settled() and len(life.nodes) == 6)
        before = cost(life)
        life.world.apply(spread("beside", 0, "2"))
        await life.until(lambda: life.running(6))
        if meanwhile is not None:
            await asyncio.sleep(10)
            await meanwhile(life)

        def over():
            self.look(life)
            return life.types[SMALL] == small and life.running(6) and life.settled() and clean(life)

        await life.until(over)
        await asyncio.sleep(60)
        assert life.types[SMALL] == small
        assert len(life.nodes) == 6
        assert cost(life) < before
        events = life.events("ConsolidationCandidate")
        self.told = {each.involved_object.name for each in events if each.involved_object.kind == "Node"}
        started = sorted(each.started_at for each in self.commands.values())
        self.waves = [
            at for before, at in zip([started[0] - LOOK, *started], started, strict=False) if at - before >= LOOK
        ]


def story(pool, meanwhile=None, small=6):
    seen = Seen()
    workloads = spread("alone", 6, "1"), spread("beside", 6, "2")
    live(lambda life: seen.live(life, meanwhile, small), node_class(), pool, *workloads, settings=ACTING)
    assert {(each.method, each.replacements) for each in seen.commands.values()} == {("single-node", 1)}
    assert len(seen.commands) == small
    return seen


def test_they_are_replaced_after_one_look_and_each_by_one():
    seen = story(sized())
    assert len(seen.waves) == 1
    assert (seen.away, seen.nodes) == (6, 12)
    assert len(seen.told) == 6


def test_budgets_count_all_of_them():
    seen = story(sized(nodes="2"))
    assert len(seen.waves) >= 3
    assert (seen.away, seen.nodes) == (2, 8)


def test_limits_count_a_node_and_its_replacement_once_and_nothing_that_is_begun_is_rolled_back(caplog):
    """Six nodes of four cores are all that the limit allows."""
    seen = story(sized(limits={"cpu": "24"}))
    assert len(seen.waves) == 1
    assert (seen.away, seen.nodes) == (6, 12)
    assert "rolling back" not in {each.getMessage() for each in caplog.records}


def test_one_that_no_longer_holds_at_the_second_look_is_left_and_the_others_are_replaced():
    async def protect(life):
        pod = min(life.pods, key=lambda each: each.node_name)
        patch = Patch({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
        await life.world.patch(POD, pod.key, patch)

    seen = story(sized(), protect, small=5)
    assert len(seen.waves) == 1
