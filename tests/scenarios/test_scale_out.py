"""Pending pods become nodes."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.cloud.kwok.offering_selection import Shortage
from dovetail.model.conditions import find
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Invalid
from stories import budget, deployment, live, node_class, node_pool, seeded


def test_fifty_pods_that_fit_nowhere_get_nodes_and_run():
    async def story(life):
        await life.until(lambda: life.running(50) and life.settled())
        assert sum(len(life.world.pods_on(node.name)) for node in life.nodes) == 50
        return life.world.clock.now()

    live(story, node_class(), node_pool(), deployment(replicas=50))


def test_nothing_is_bought_twice_while_nodes_are_on_their_way():
    async def story(life):
        await life.until(lambda: life.running(20))
        return len(life.claims)

    slow = node_class(nodeRegistrationDelay="5m")
    assert live(story, slow, node_pool(), deployment(replicas=20)) == 1


def test_pods_that_come_while_a_node_starts_use_the_room_that_is_left():
    async def story(life):
        life.world.apply(deployment("first", 3))
        await life.until(lambda: life.claims)
        life.world.apply(deployment("second", 1, cpu="500m", memory="512Mi"))
        await life.until(lambda: life.running(4))
        return len(life.nodes)

    only = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}
    pool = node_pool(template={"requirements": [only]})
    assert live(story, node_class(nodeRegistrationDelay="30s"), pool) == 1


def test_limits_stop_a_pool_and_the_pods_are_told():
    async def story(life):
        await life.until(lambda: life.events("FailedScheduling"))
        await asyncio.sleep(120)
        assert str(life.pool().status.resources["cpu"]) == "4"
        return life.events("FailedScheduling")[0].message

    only = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}
    pool = node_pool(template={"requirements": [only]}, limits={"cpu": "4"})
    assert "exceed limits" in live(story, node_class(), pool, deployment(replicas=9))


def test_a_pool_waits_for_its_class_and_says_so():
    async def story(life):
        await life.until(lambda: find(life.pool().status.conditions, "NodeClassReady"))
        assert find(life.pool().status.conditions, "NodeClassReady").reason == "NodeClassNotFound"
        await asyncio.sleep(60)
        assert not life.claims
        life.world.apply(node_class())
        await life.until(lambda: life.running(3))
        assert find(life.pool().status.conditions, "Ready").status == "True"

    live(story, node_pool(), deployment(replicas=3))


def test_short_offerings_are_told_and_another_is_bought():
    async def story(life):
        chosen = []
        life.parts.manager.state.claims.listen(lambda _before, after: after and chosen.append(after))
        for zone in "abc":
            life.parts.provider.market.availability.begin(Shortage(zone=f"test-zone-{zone}"))
        life.world.apply(deployment(replicas=3))
        await life.until(lambda: life.running(3))
        return {node.metadata.labels["topology.kubernetes.io/zone"] for node in life.nodes}

    assert live(story, node_class(), node_pool()) == {"test-zone-d"}


def test_capacity_that_runs_out_at_launch_costs_the_claim_not_the_pods():
    async def story(life):
        only = Shortage(instance_type="s-4x-amd64-linux")
        launch = life.parts.provider.launch

        async def sold_out(claim):
            life.parts.provider.market.availability.begin(only)
            life.parts.provider.launch = launch
            return await launch(claim)

        life.parts.provider.launch = sold_out
        life.world.apply(deployment(replicas=1, cpu="3", memory="8Gi"))
        await life.until(lambda: life.events("InsufficientCapacityError"))
        life.parts.provider.market.availability.end(only)
        await life.until(lambda: life.running(1) and life.settled())

    types = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}
    live(story, node_class(), node_pool(template={"requirements": [types]}))


def test_an_instance_that_never_registers_is_given_up_after_fifteen_minutes():
    async def story(life):
        await life.until(lambda: life.claims)
        first = life.claims[0]
        await life.until(lambda: first.name not in [claim.name for claim in life.claims], within=1200)
        lived = life.world.clock.now() - first.metadata.creation_timestamp
        assert timedelta(minutes=15) <= lived < timedelta(minutes=16)
        await life.until(lambda: find(life.pool().status.conditions, "NodeRegistrationHealthy").status == "False", 2000)

    live(story, node_class(nodeRegistrationDelay="3h"), node_pool(), deployment(replicas=1))


def test_an_instance_deleted_behind_our_back_is_noticed_cleaned_up_and_replaced():
    async def story(life):
        await life.until(lambda: life.running(5) and life.settled())
        lost = life.nodes[0]
        life.world.instance_failures.vanish(lost.name)
        gone = life.claims[0].name
        await life.until(lambda: gone not in [claim.name for claim in life.claims])
        await life.until(lambda: life.running(5) and life.settled())

    live(story, node_class(), node_pool(), deployment(replicas=5))


def test_a_deleted_node_is_drained_within_its_budget_and_takes_its_claim_along():
    least = []

    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        await life.until(lambda: True)
        old = life.claims[0].name
        await life.world.delete(NODE_CLAIM, life.claims[0].key)

        def gone():
            least.append(sum(pod.ready and not pod.deleting for pod in life.pods))
            return old not in [claim.name for claim in life.claims]

        await life.until(gone)
        await life.until(lambda: life.running(6) and life.settled())

    live(story, node_class(), node_pool(), deployment(replicas=6), budget(maxUnavailable=2))
    assert min(least) >= 4


def test_deleting_a_claim_or_a_pool_ends_with_nothing_left():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        old = life.claims[0]
        await life.world.delete(NODE_CLAIM, old.key)
        await life.until(lambda: life.running(3) and life.settled() and life.claims[0].name != old.name)
        await life.world.delete(NODE_POOL, Key("", "default"))
        await life.until(lambda: not life.claims and not life.nodes)

    live(story, node_class(), node_pool(), deployment(replicas=3))


def test_startup_taints_hold_initialisation_until_someone_lifts_them():
    async def story(life):
        await life.until(lambda: life.nodes and life.claims[0].has("Registered"))
        await asyncio.sleep(60)
        assert find(life.claims[0].status.conditions, "Initialized").reason == "StartupTaintsExist"
        kept = [{"key": t.key, "effect": t.effect} for t in life.nodes[0].spec.taints if t.key != "cni"]
        await life.world.patch(NODE, life.nodes[0].key, Patch({"spec": {"taints": kept}}))
        await life.until(lambda: life.running(1) and life.settled())

    taint = {"startupTaints": [{"key": "cni", "effect": "NoSchedule"}]}
    live(story, node_class(), node_pool(template=taint), deployment(replicas=1))


def test_pods_coming_and_going_move_the_clock_of_their_node():
    async def story(life):
        await life.until(lambda: life.running(2) and life.claims[0].status.last_pod_event_time)
        first = life.claims[0].status.last_pod_event_time
        await asyncio.sleep(600)
        assert life.claims[0].status.last_pod_event_time == first or life.running(2)
        settled_at = life.claims[0].status.last_pod_event_time
        await life.restart()
        await asyncio.sleep(60)
        assert life.claims[0].status.last_pod_event_time == settled_at
        life.world.apply(deployment(replicas=1))
        await asyncio.sleep(60)
        assert life.claims[0].status.last_pod_event_time > settled_at

    live(story, node_class(), node_pool(), deployment(replicas=2))


def test_a_pool_the_schema_would_refuse_is_refused_by_the_world_too():
    async def story(life):
        with pytest.raises(Invalid) as refused:
            life.world.apply(node_pool(disruption={"budgets": [{"nodes": "10%", "schedule": "@daily"}]}))
        return str(refused.value)

    assert "'schedule' must be set with 'duration'" in live(story)


def test_an_unreadable_pool_is_told_and_the_others_go_on():
    async def story(life):
        broken = node_pool("broken", disruption={"consolidateAfter": "soon"})
        life.world.apply(broken)
        await life.until(lambda: life.running(2))
        await life.until(lambda: life.events("NodePoolValidationFailed"))
        message = life.events("NodePoolValidationFailed")[0].message
        assert "spec.disruption.consolidateAfter" in message

    live(story, node_class(), node_pool(), deployment(replicas=2), validate=None)


def test_status_counts_what_a_pool_has():
    async def story(life):
        await life.until(lambda: life.running(4) and life.settled())
        await asyncio.sleep(30)
        pool = life.pool()
        assert pool.status.nodes == len(life.nodes)
        assert str(pool.status.resources["nodes"]) == str(len(life.nodes))

    live(story, node_class(), node_pool(), deployment(replicas=4))


def test_the_same_seed_twice_is_the_same_life_to_the_byte():
    async def story(life):
        await life.until(lambda: life.running(30) and life.settled())
        life.world.apply(deployment(replicas=5))
        await asyncio.sleep(300)
        return life.world.log_bytes()

    manifests = (node_class(), node_pool(), deployment(replicas=30))
    once, again = (live(story, *manifests, options=seeded(7)) for _ in range(2))
    other = live(story, *manifests, options=seeded(8))
    assert once == again
    assert once != other


def test_a_drain_waits_for_a_protected_pod_until_its_time_is_over_and_no_longer():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        born = life.pods[0].metadata.creation_timestamp
        old = life.claims[0].name
        await life.world.delete(NODE_CLAIM, life.claims[0].key)
        await life.until(lambda: old not in [claim.name for claim in life.claims], within=3600)
        lived = life.world.clock.now() - born
        assert timedelta(minutes=20) <= lived < timedelta(minutes=21)

    protected = deployment(replicas=1)
    protected["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "20m"}
    live(story, node_class(), node_pool(), protected)
