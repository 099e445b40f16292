"""Nodes that stay unhealthy are replaced by force, at the instant their pool says."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.model.labels import TERMINATION_TIMESTAMP
from dovetail.sim.virtual_loop import VirtualClock, run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import admit
from stories import GENERIC, Life, budget, deployment, live, node_class, node_pool

SEED_REPAIR = {
    "defaultTolerationDuration": "30m",
    "policies": [
        {"conditionType": "Ready", "toleration": "45m"},
        {"conditionType": "NetworkUnavailable", "toleration": "10m"},
    ],
}
TURNED_AT = datetime(2024, 11, 1, 15, 2, 48, tzinfo=UTC)
MINUTE = 60.0


def pool(repair=None, **spec):
    return node_pool(template={"expireAfter": "Never"}, **({"repair": repair} if repair is not None else {}), **spec)


def spread(replicas):
    """One pod a node, so that a pool has as many nodes as pods."""
    rule = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    return deployment(replicas=replicas, affinity=affinity)


class Diary:
    """When each claim was given a deadline, and when it was deleted: instants and what was written."""

    def __init__(self, world):
        self.deadlines = []
        self.deletions = []
        self._clock = world.clock
        world.store.listen((("karpenter.sh", "NodeClaim"),), self._hear)

    def _hear(self, step):
        before = step.before.meta if step.before is not None else {}
        after = step.after.meta
        written = (after.get("annotations") or {}).get(TERMINATION_TIMESTAMP)
        if written and written != (before.get("annotations") or {}).get(TERMINATION_TIMESTAMP):
            self.deadlines.append((self._clock.now(), written))
        if "deletionTimestamp" in after and "deletionTimestamp" not in before:
            self.deletions.append((self._clock.now(), after["name"]))


def live_on(start, story, *manifests, settings=GENERIC):
    """Like `live`, in a world whose clock starts elsewhere."""

    async def main():
        world = World(WorldOptions(), clock=VirtualClock(asyncio.get_running_loop(), start), validate=admit)
        async with world:
            life = Life(world, settings)
            for manifest in manifests:
                world.apply(manifest)
            life.start()
            try:
                return await story(life)
            finally:
                await life.stop()

    return run(main(), limit=24 * 3600.0)


async def until(life, instant):
    await asyncio.sleep((instant - life.world.clock.now()).total_seconds())


def repaired_at(condition, status):
    """The instants at which the only node of the example's pool got its deadline and was deleted."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        diary = Diary(life.world)
        (node,) = life.nodes
        await until(life, TURNED_AT)
        life.world.instance_failures.turn(node.name, condition, status)
        await life.until(lambda: diary.deletions, within=2 * 3600)
        await life.until(lambda: life.running(1) and life.settled() and node.name != life.nodes[0].name)
        return diary

    return live_on(TURNED_AT - timedelta(minutes=5), story, node_class(), pool(SEED_REPAIR), deployment(replicas=1))


@pytest.mark.parametrize(
    ("condition", "status", "instant"),
    [
        ("NetworkUnavailable", "True", datetime(2024, 11, 1, 15, 12, 48, tzinfo=UTC)),
        ("Ready", "False", datetime(2024, 11, 1, 15, 47, 48, tzinfo=UTC)),
    ],
    ids=["NetworkUnavailable since 15:02:48 goes at 15:12:48", "Ready False since 15:02:48 goes at 15:47:48"],
)
def test_worked_example_of_the_design(condition, status, instant):
    diary = repaired_at(condition, status)
    ((written_at, deadline),) = diary.deadlines
    assert deadline == instant.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert timedelta() <= written_at - instant < timedelta(milliseconds=100)
    assert timedelta() <= diary.deletions[0][0] - instant < timedelta(milliseconds=200)


def shielded(**fields):
    """A workload that nothing voluntary may move: annotated, and under a budget that allows nothing."""
    made = deployment(replicas=1, **fields)
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    made["spec"]["template"]["metadata"]["annotations"] = annotations
    return made


async def settled(life, number):
    await life.until(lambda: life.running(number) and life.settled())
    return Diary(life.world)


def figure(life, name, **labels):
    """A counter as it is scraped."""
    for line in life.parts.metrics.render().decode().splitlines():
        if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_repair_waits_for_neither_budget_nor_annotation_nor_grace():
    async def story(life):
        diary = await settled(life, 1)
        (node,), (pod,) = life.nodes, life.pods
        life.world.instance_failures.turn(node.name, "KernelDeadlock", "True")
        began = life.world.clock.now()
        await life.until(lambda: all(each.name != node.name for each in life.nodes))
        gone_after = life.world.clock.now() - began
        await life.until(lambda: life.running(1) and life.settled())
        assert pod.metadata.uid not in {each.metadata.uid for each in life.pods}
        assert timedelta(minutes=10) <= gone_after < timedelta(minutes=10, seconds=20)
        assert len(diary.deletions) == 1
        (told,) = {event.message for event in life.events("NodeRepair")}
        assert "KernelDeadlock is True since" in told
        assert figure(life, "karpenter_nodeclaims_disrupted_total", reason="unhealthy", nodepool="default") == 1
        assert figure(life, "karpenter_pods_disruption_initiated_total", reason="unhealthy") == 1
        name = "karpenter_nodeclaims_unhealthy_disrupted_total"
        assert figure(life, name, condition="kernel_deadlock", capacity_type="spot") == 1

    grace = {"terminationGracePeriod": "24h", "expireAfter": "Never"}
    live(
        story,
        node_class(),
        node_pool(template=grace, repair={}),
        shielded(terminationGracePeriodSeconds=600),
        budget(maxUnavailable=0),
    )


@pytest.mark.parametrize(
    ("manifest", "settings"),
    [
        (pool(), GENERIC),
        (pool({}), replace(GENERIC, feature_gates="NodeRepair=false")),
        (pool(), replace(GENERIC, feature_gates="NodeRepair=false", repair_without_block="provider")),
    ],
    ids=["no repair block", "gate closed", "gate closed, whatever goes without a block"],
)
def test_nodes_are_not_repaired_where_nobody_asked_for_it(manifest, settings):
    async def story(life):
        diary = await settled(life, 1)
        life.world.instance_failures.turn(life.nodes[0].name, "DiskPressure", "True")
        await asyncio.sleep(6 * 3600)
        assert not diary.deletions
        assert not life.events("NodeRepair")

    live(story, node_class(), manifest, deployment(replicas=1), settings=settings)


@pytest.mark.parametrize(
    ("manifest", "settings", "minutes"),
    [
        (pool({}), GENERIC, 30),
        (pool({"defaultTolerationDuration": "7m"}), GENERIC, 7),
        (pool(), replace(GENERIC, repair_without_block="provider"), 30),
    ],
    ids=["empty block: the provider's", "the pool's default", "no block, and the operator wants the provider's"],
)
def test_toleration_ends_in_a_repair(manifest, settings, minutes):
    async def story(life):
        diary = await settled(life, 1)
        life.world.instance_failures.turn(life.nodes[0].name, "MemoryPressure", "True")
        began = life.world.clock.now()
        await life.until(lambda: diary.deletions, within=3600)
        waited = diary.deletions[0][0] - began
        # conditions tell whole seconds, so a toleration may seem up to one shorter
        assert timedelta(minutes=minutes, seconds=-1) <= waited < timedelta(minutes=minutes, seconds=1)

    live(story, node_class(), manifest, deployment(replicas=1), settings=settings)


def test_a_node_that_recovers_in_time_stays_and_its_clock_starts_anew():
    async def story(life):
        diary = await settled(life, 1)
        name = life.nodes[0].name
        life.world.instance_failures.turn(name, "NetworkUnavailable", "True")
        await asyncio.sleep(9 * MINUTE)
        life.world.instance_failures.turn(name, "NetworkUnavailable", "False")
        await asyncio.sleep(5 * MINUTE)
        life.world.instance_failures.turn(name, "NetworkUnavailable", "True")
        await asyncio.sleep(9 * MINUTE)
        assert not diary.deletions
        await asyncio.sleep(1 * MINUTE + 1)
        assert len(diary.deletions) == 1

    live(story, node_class(), pool({}), deployment(replicas=1))


def test_a_restart_does_not_put_repair_off():
    async def story(life):
        diary = await settled(life, 1)
        life.world.instance_failures.turn(life.nodes[0].name, "NetworkUnavailable", "True")
        began = life.world.clock.now()
        for _ in range(3):
            await asyncio.sleep(3 * MINUTE)
            await life.restart()
        await life.until(lambda: diary.deletions)
        assert diary.deletions[0][0] - began < timedelta(minutes=10, seconds=1)

    live(story, node_class(), pool({}), deployment(replicas=1))


def test_a_pool_that_changes_its_mind_is_heard_at_once():
    async def story(life):
        diary = await settled(life, 1)
        life.world.instance_failures.turn(life.nodes[0].name, "NetworkUnavailable", "True")
        await asyncio.sleep(5 * MINUTE)
        life.world.apply(pool({"defaultTolerationDuration": "4m"}))
        await asyncio.sleep(1)
        assert len(diary.deletions) == 1

    live(story, node_class(), pool({}), deployment(replicas=1))


def test_a_drain_that_is_stuck_is_cut_short_when_its_node_is_due():
    async def story(life):
        diary = await settled(life, 1)
        (node,), (claim,) = life.nodes, life.claims
        life.world.api.delete(("karpenter.sh", "NodeClaim"), claim.key)
        await asyncio.sleep(5 * MINUTE)
        assert [each.name for each in life.nodes if each.deleting] == [node.name]
        life.world.instance_failures.turn(node.name, "NetworkUnavailable", "True")
        await asyncio.sleep(10 * MINUTE + 20)
        assert node.name not in {each.name for each in life.nodes}
        assert len(diary.deadlines) == 1

    live(story, node_class(), pool({}), shielded())


def test_breaker_holds_repair_back_until_enough_nodes_are_well():
    """Five nodes allow one to be unhealthy; with two, none goes, and the first to recover frees the other at once."""

    async def story(life):
        diary = await settled(life, 5)
        first, second = sorted(node.name for node in life.nodes)[:2]
        life.world.instance_failures.turn(first, "NetworkUnavailable", "True")
        life.world.instance_failures.turn(
            second, "DiskPressure", "True"
        )  # tolerated for longer, and unhealthy all the same
        await asyncio.sleep(25 * MINUTE)
        assert not diary.deletions
        blocked = life.events("NodeRepairBlocked")
        assert {event.involved_object.kind for event in blocked} == {"Node", "NodeClaim", "NodePool"}
        assert all("2 of 5, 1 allowed" in event.message for event in blocked)
        life.world.instance_failures.turn(second, "DiskPressure", "False")
        await asyncio.sleep(1)
        assert len(diary.deletions) == 1
        await life.until(lambda: life.running(5) and life.settled())
        assert first not in {node.name for node in life.nodes}
        assert second in {node.name for node in life.nodes}

    live(story, node_class(), pool({}), spread(5))


def test_breaker_counts_each_pool_by_itself():
    async def story(life):
        await settled(life, 2)
        names = {node.metadata.labels["karpenter.sh/nodepool"]: node.name for node in life.nodes}
        diary = Diary(life.world)
        for name in names.values():
            life.world.instance_failures.turn(name, "NetworkUnavailable", "True")
        await asyncio.sleep(11 * MINUTE)
        assert len(diary.deletions) == 2

    def named(name):
        made = node_pool(
            name, template={"expireAfter": "Never"}, template_metadata={"labels": {"team": name}}, repair={}
        )
        return made, deployment(name, replicas=1, nodeSelector={"team": name})

    live(story, node_class(), *named("left"), *named("right"))


def test_only_a_claim_that_goes_is_given_a_deadline():
    """One that stayed with a deadline of the past would one day be drained by force."""

    async def story(life):
        diary = await settled(life, 1)
        life.world.instance_failures.turn(life.nodes[0].name, "NetworkUnavailable", "True")
        await life.until(lambda: diary.deadlines)
        assert diary.deletions
        assert diary.deletions[0][0] <= diary.deadlines[0][0]

    live(story, node_class(), pool({}), deployment(replicas=1))


def test_a_policy_for_a_condition_the_provider_does_not_report_is_warned_of_on_the_pool():
    async def story(life):
        await asyncio.sleep(60)
        return life.events("RepairPolicyWithoutEffect")

    policies = [{"conditionType": each, "toleration": "5m"} for each in ("Ready", "KernelReady")]
    (event,) = live(story, node_class(), node_pool(repair={"policies": policies}))
    assert (event.type, event.involved_object.kind, event.involved_object.name) == ("Warning", "NodePool", "default")
    assert "KernelReady" in event.message
    assert "reports Ready" not in event.message.partition("does not report this condition")[0]
