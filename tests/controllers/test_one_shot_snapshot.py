"""The cluster listed once is the cluster that the controllers know from their watches."""

import asyncio
import logging

import pytest

from dovetail.controllers.one_shot_snapshot import list_snapshot
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.kinds import NODE_POOL
from dovetail.model.snapshot_builder import INVENTORY, ClusterObjects, build_snapshot
from dovetail.ports.errors import NotFound
from stories import budget, deployment, live, node_class, node_pool

MANIFESTS = (node_class(), node_pool(), deployment(replicas=12), budget(minAvailable=3))


def watched(life):
    return life.parts.manager.state.snapshot(life.world.clock.now(), {})


def at_one_instant(life):
    inventory = ClusterObjects({kind: life.world.values(kind) for kind in INVENTORY})
    seen = watched(life)
    return build_snapshot(inventory, seen.at, {}, seen.well_known, seen.nominated)


def test_listed_and_watched_make_the_same_snapshot_at_every_stage():
    async def story(life):
        compared = 0
        for _ in range(40):
            await asyncio.sleep(1.5)
            before = life.world.store.version
            await asyncio.sleep(0.1)  # what watches bring arrives a moment later
            if life.world.store.version == before:
                assert at_one_instant(life) == watched(life)
                compared += 1
        assert compared > 20
        assert life.running(12)
        assert len(watched(life).pdbs) == 1

    live(story, *MANIFESTS)


def test_a_listed_snapshot_has_every_pools_catalogue_and_the_providers_labels():
    async def story(life):
        await life.until(lambda: life.running(12))
        taken = await list_snapshot(life.world, life.parts.provider, life.world.clock)
        assert taken.catalogs == {"default": life.parts.provider.market.availability.catalog}
        assert taken.well_known == watched(life).well_known
        assert sum(len(node.pods) for node in taken.nodes) == 12

    live(story, *MANIFESTS)


def test_a_cluster_without_the_custom_resources_is_told_with_the_remedy():
    async def story(life):
        class Bare:
            async def list(self, kind):
                if kind == NODE_POOL:
                    raise NotFound("404")
                return await life.world.list(kind)

        with pytest.raises(NotFound, match=r"no nodepools\.karpenter\.sh; .*dovetail crds"):
            await list_snapshot(Bare(), life.parts.provider, life.world.clock)

    live(story)


def test_an_object_that_cannot_be_read_is_left_out_and_named(caplog):
    async def story(life):
        life.world.apply_unchecked(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "odd", "namespace": "default"},
                "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "one"}}}]},
            }
        )
        with caplog.at_level(logging.ERROR):
            taken = await list_snapshot(life.world, life.parts.provider, life.world.clock)
        assert taken.unbound_pods == ()
        assert "Pod default/odd cannot be read" in caplog.text
        (bad,) = taken.unreadable
        assert (bad.kind, str(bad.key), bad.node, bad.everywhere) == ("Pod", "default/odd", "", False)

    live(story)


def test_a_plan_leaves_the_node_of_a_pod_nobody_can_read_alone():
    """The controllers do so, too: the node is not as empty as it looks."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "about-two"}}}

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.pods)
        await asyncio.sleep(60)
        asked = (life.world, life.parts.provider, life.world.clock)
        assert plan_disruption(await list_snapshot(*asked)).commands
        meta, node = {"name": "odd", "namespace": "default"}, life.nodes[0].name
        spec = {"containers": [container], "nodeName": node}
        life.world.apply_unchecked({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        plan = plan_disruption(await list_snapshot(*asked))
        assert not plan.commands
        (refusal,) = plan.refusals_by_method["emptiness"]
        assert refusal.code == "Unreadable"
        assert "Pod default/odd" in wording.message(refusal)

    pool = node_pool(disruption={"consolidateAfter": "0s"})
    live(story, node_class(), pool, deployment(replicas=3))
