"""A pause stops voluntary disruption, and nothing else."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.controllers.one_shot_snapshot import list_snapshot
from dovetail.core.disruption.planner import plan_disruption
from dovetail.manifest.snapshot_document import dump_snapshot, load_snapshot
from dovetail.model.kinds import NODE_CLAIM
from dovetail.sim.kubernetes.kinds import NODE as NODE_RESOURCE
from stories import ACTING, clean, deployment, live, node_class, pool

PAUSE = "dovetail.sh/pause"


def switch(value):
    annotations = {PAUSE: value}
    metadata = {"name": "dovetail", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def own(value):
    made = pool()
    return {**made, "metadata": {**made["metadata"], "annotations": {PAUSE: value}}}


def scale(life, replicas):
    life.world.apply({**deployment(), "spec": {"replicas": replicas}})


def paused_by(where, value):
    return switch(value) if where == "configmap" else own(value)


def started(where, value):
    return (pool(), switch(value)) if where == "configmap" else (own(value),)


@pytest.mark.parametrize("where", ["configmap", "nodepool"])
def test_a_paused_cluster_keeps_its_nodes_until_the_pause_is_lifted(where):
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        scale(life, 0)
        await asyncio.sleep(900)
        assert len(life.nodes) > 0
        assert life.events("DisruptionPaused")
        life.world.apply(paused_by(where, "false"))
        await life.until(lambda: not life.nodes, within=120)

    live(story, node_class(), *started(where, "true"), deployment(), settings=ACTING)


@pytest.mark.parametrize("where", ["configmap", "nodepool"])
def test_a_pause_with_an_instant_lifts_itself(where):
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        until = life.world.clock.now() + timedelta(minutes=30)
        life.world.apply(paused_by(where, until.isoformat()))
        scale(life, 0)
        await asyncio.sleep(1500)
        assert life.nodes
        await life.until(lambda: not life.nodes, within=600)

    live(story, node_class(), pool(), deployment(), settings=ACTING)


def test_a_pause_that_cannot_be_understood_is_one_and_warns():
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        scale(life, 0)
        await asyncio.sleep(600)
        assert life.nodes
        assert [event.type for event in life.events("DisruptionPaused")] == ["Warning"]
        assert "'on'" in life.events("DisruptionPaused")[0].message

    live(story, node_class(), pool(), switch("on"), deployment(), settings=ACTING)


def test_provisioning_and_manual_deletion_go_on():
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        first = life.nodes[0]
        scale(life, 30)
        await life.until(lambda: life.running(30) and life.settled())
        life.world.api.delete(NODE_RESOURCE, first.key)
        await life.until(lambda: first.name not in [node.name for node in life.nodes])
        await life.until(lambda: life.running(30) and life.settled())

    live(story, node_class(), pool(), switch("true"), deployment(), settings=ACTING)


def test_a_command_that_waits_for_its_replacement_is_taken_back_without_a_back_off():
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        scale(life, 1)
        await life.until(lambda: not clean(life), within=120)
        life.world.apply(switch("true"))
        await life.until(lambda: clean(life), within=30)
        assert not any(claim.deleting and claim.has("Initialized") for claim in life.claims)
        assert life.parts.manager.disruption_queue.failed == {}
        nodes = {node.name for node in life.nodes}
        await asyncio.sleep(600)
        assert nodes <= {node.name for node in life.nodes} | {claim.name for claim in life.world.values(NODE_CLAIM)}

    live(story, node_class(nodeRegistrationDelay="60s"), pool(minSavings="0%"), deployment(), settings=ACTING)


def test_plans_and_snapshots_know_of_the_pause():
    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        scale(life, 0)
        await life.until(lambda: not life.pods)
        await asyncio.sleep(60)
        taken = await list_snapshot(life.world, life.parts.provider, life.world.clock)
        assert load_snapshot(dump_snapshot(taken)).pause == "true"
        plan = plan_disruption(taken)
        assert plan.commands == ()
        assert {refusal.code for said in plan.refusals_by_method.values() for refusal in said} == {"Paused"}

    live(story, node_class(), pool(), switch("true"), deployment(), settings=ACTING)
