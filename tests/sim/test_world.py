"""World behavior beyond the contract suite: lost instances, orphaned pods, faults, and the cost of an idle week."""

import asyncio
import gc
from datetime import timedelta

import pytest

from dovetail.model.kinds import LEASE, NODE, POD
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import ListOptions, Patch
from dovetail.ports.errors import Conflict, OutcomeUnknown, Throttled
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, DEPLOYMENT, ConfigMapWithData
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from sim.day import WEEK, deployment, meta, node

READY = "Ready"


def in_world(scenario, **options):
    """Run a scenario in a fresh world."""

    async def main():
        async with World(WorldOptions(seed=3, **options)) as world:
            return await scenario(world)

    return run(main(), limit=2 * WEEK)


def pods_of(world, app):
    return [pod for pod in world.values(POD) if pod.metadata.labels.get("app") == app]


def test_a_quiet_week_of_fifty_nodes_is_cheap():
    """Nothing polls: the only regular events are heartbeats, and there are few of them."""

    async def scenario(world):
        for number in range(50):
            world.apply(node(f"node-{number}"))
        await asyncio.sleep(60)
        before = len(world.log)
        await asyncio.sleep(WEEK)
        lease = await world.get(LEASE, Key("kube-node-lease", "node-0"))
        assert world.clock.now() - lease.spec.renew_time < timedelta(minutes=5)
        assert all(entry.resource[1] == "Lease" for entry in world.log[before:])
        return len(world.log) - before

    assert in_world(scenario) == 50 * WEEK // 300


def test_a_lost_instance_is_noticed_and_its_pods_replaced():
    async def scenario(world):
        for name in ("dies", "lives"):
            world.apply(node(name))
        await asyncio.sleep(10)
        world.apply(deployment("web", 4))
        await asyncio.sleep(30)
        lost = {pod.name for pod in pods_of(world, "web") if pod.node_name == "dies"}
        assert lost
        world.kill_instance("dies")
        await asyncio.sleep(35)
        assert (await world.get(NODE, Key("", "dies"))).ready
        await asyncio.sleep(25)
        dead = await world.get(NODE, Key("", "dies"))
        assert [each.status for each in dead.status.conditions if each.type == READY] == ["Unknown"]
        taints = {(taint.key, taint.effect) for taint in dead.spec.taints}
        assert taints == {("node.kubernetes.io/unreachable", effect) for effect in ("NoSchedule", "NoExecute")}
        assert not any(pod.ready for pod in pods_of(world, "web") if pod.name in lost)
        await asyncio.sleep(320)
        pods = pods_of(world, "web")
        assert {pod.name for pod in pods if pod.deleting} == lost, "no kubelet is left to stop them"
        assert sum(pod.ready and pod.node_name == "lives" for pod in pods) == 4
        await world.delete(NODE, dead.key)
        await asyncio.sleep(70)
        assert not lost & {pod.name for pod in pods_of(world, "web")}
        assert not [lease for lease in world.values(LEASE) if lease.name == "dies"]

    in_world(scenario)


def test_a_new_template_rolls_out_without_losing_more_than_a_quarter():
    async def scenario(world):
        for number in range(2):
            world.apply(node(f"node-{number}", cpu="16"))
        world.apply(deployment("web", 8))
        await asyncio.sleep(30)
        old = {pod.name for pod in pods_of(world, "web")}
        template = {"template": {"metadata": {"annotations": {"version": "2"}}}}
        await world.patch(DEPLOYMENT, Key("default", "web"), Patch({"spec": template}))
        fewest = 8
        for _ in range(600):
            await asyncio.sleep(0.1)
            fewest = min(fewest, sum(pod.ready and not pod.deleting for pod in pods_of(world, "web")))
        new = [pod for pod in pods_of(world, "web") if pod.ready]
        assert fewest >= 6
        assert len(new) == 8
        assert not old & {pod.name for pod in new}

    in_world(scenario)


def test_pods_of_a_job_run_for_their_annotated_time():
    async def scenario(world):
        world.apply(node("node-0"))
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}
        template = {"metadata": {"annotations": {"sim.dovetail/run-seconds": "600"}}, "spec": spec}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("report"), "spec": {"template": template}}
        world.apply(job)
        await asyncio.sleep(500)
        assert [pod.status.phase for pod in world.values(POD)] == ["Running"]
        await asyncio.sleep(200)
        assert [pod.status.phase for pod in world.values(POD)] == ["Succeeded"]

    in_world(scenario)


def test_a_watch_that_falls_too_far_behind_or_lives_too_long_ends():
    async def scenario(world):
        listing = await world.list(CONFIG_MAP)
        types = [change.type async for change in world.watch(CONFIG_MAP, listing.resource_version)]
        assert types
        assert set(types) == {"BOOKMARK"}
        return world.clock.now()

    assert timedelta(minutes=5) <= in_world(scenario) - in_world(now) <= timedelta(minutes=11)


def test_a_watch_creates_almost_no_reference_cycles():
    """A long scenario runs without looking for garbage in cycles, so it must not make any."""

    async def scenario(world):
        world.apply(node("one"))
        watch = world.watch(CONFIG_MAP, (await world.list(CONFIG_MAP)).resource_version)
        hearing = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(1)
        while gc.collect():  # what other tests left behind may take several rounds
            pass
        for number in range(100):
            world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("map"), "data": {"at": str(number)}})
            await hearing
            hearing = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(1)
        hearing.cancel()
        return gc.collect()

    collects = gc.isenabled()
    gc.disable()
    try:
        assert in_world(scenario) < 100
    finally:
        if collects:
            gc.enable()


async def now(world):
    return world.clock.now()


class Storm:
    """Faults by operation."""

    def __init__(self, **faults):
        self.faults = faults
        self.calls = []

    async def before(self, call):
        self.calls.append(call.operation)
        if isinstance(self.faults.get(call.operation), Throttled):
            raise self.faults[call.operation]

    async def after(self, call):
        if isinstance(self.faults.get(call.operation), OutcomeUnknown):
            raise self.faults[call.operation]


def config_map(name):
    return ConfigMapWithData(metadata=ObjectMeta(name=name, namespace="default"))


def test_faults_come_before_or_after_the_effect():
    async def scenario(world):
        world.interference = Storm(create=OutcomeUnknown("timed out"), list=Throttled("slow down"))
        with pytest.raises(OutcomeUnknown):
            await world.create(CONFIG_MAP, config_map("made"))
        with pytest.raises(Throttled):
            await world.list(CONFIG_MAP)
        assert (await world.get(CONFIG_MAP, Key("default", "made"))).name == "made"
        assert world.interference.calls == ["create", "list", "get"]

    in_world(scenario)


def test_of_two_racing_writers_one_conflicts():
    async def scenario(world):
        made = await world.create(CONFIG_MAP, config_map("raced"))

        async def write(value):
            await world.patch(CONFIG_MAP, made.key, Patch({"data": {"by": value}}, made.metadata.resource_version))

        outcomes = await asyncio.gather(write("a"), write("b"), return_exceptions=True)
        assert sorted(type(each) for each in outcomes if each) == [Conflict]

    in_world(scenario)


def test_a_stopped_world_does_not_change():
    async def main():
        world = World(WorldOptions(seed=3))
        world.start()
        world.apply(deployment("web", 2))
        world.stop()
        await asyncio.sleep(3600)
        found = await world.list(POD, ListOptions())
        assert not found.items

    run(main())


def test_limits_are_requests_where_none_are_given_and_priorities_have_a_class():
    async def scenario(world):
        rank = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        world.apply(rank)
        container = {
            "name": "main",
            "image": "app",
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        }
        spec = {"containers": [container], "priorityClassName": "high"}
        world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta("web"), "spec": spec})
        pod = await world.get(POD, Key("default", "web"))
        requests = pod.spec.containers[0].resources.requests
        assert {name: str(amount) for name, amount in requests.items()} == {"cpu": "1", "memory": "1Gi"}
        assert pod.spec.priority == 9

    in_world(scenario)


def test_a_limit_range_of_the_namespace_fills_in_what_containers_leave_out():
    async def scenario(world):
        item = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "min": {"memory": "1Gi"}}
        others = {"type": "Pod", "max": {"cpu": "9"}}
        limits = {"spec": {"limits": [others, item]}, "metadata": meta("defaults")}
        world.apply({"apiVersion": "v1", "kind": "LimitRange", **limits})
        for name, resources in (
            ("bare", {}),
            ("own", {"requests": {"cpu": "3m"}}),
            ("limited", {"limits": {"cpu": "4"}}),
        ):
            container = {"name": "main", "image": "app", "resources": resources}
            world.apply(
                {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name), "spec": {"containers": [container]}}
            )
        elsewhere = {"name": "elsewhere", "namespace": "kube-system"}
        world.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": elsewhere,
                "spec": {"containers": [{"name": "x", "image": "app"}]},
            }
        )
        return {each.name: each.spec.containers[0].resources for each in world.values(POD)}

    found = in_world(scenario)
    asked = {name: {key: str(each) for key, each in found[name].requests.items()} for name in found}
    limits = {name: {key: str(each) for key, each in found[name].limits.items()} for name in found}
    assert asked["bare"] == {"cpu": "1", "memory": "1Gi"}
    assert limits["bare"] == {"cpu": "2"}
    assert asked["own"] == {"cpu": "3m", "memory": "1Gi"}
    assert asked["limited"] == {"cpu": "4", "memory": "1Gi"}
    assert asked["elsewhere"] == limits["elsewhere"] == {}
