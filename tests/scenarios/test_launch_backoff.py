"""Nodes that do not help are not launched without end, and nodes that help are launched at once."""

import asyncio

import pytest

from dovetail.model.kinds import NODE, NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, GENERIC, deployment, live, node_class, node_pool

HALF_AN_HOUR = 1800
SMALL = [{"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}]
QUARANTINE = {"key": "example.com/quarantine", "effect": "NoSchedule"}


class Webhook:
    """Something does to every new node what Dovetail knows nothing of."""

    def __init__(self, does):
        self.does, self.world = does, None

    def attach(self, world):
        if self.world is None:
            self.world = world
            world.store.listen([resource_of(NODE)], self.hear)

    def hear(self, step):
        if step.type == "ADDED" and self.world.interference is self:
            asyncio.get_running_loop().call_soon(self.does, self.world)

    async def before(self, call):
        pass

    async def after(self, call):
        pass


def quarantine(world):
    """It puts a taint on them."""
    for node in world.values(NODE):
        if not any(taint.key == QUARANTINE["key"] for taint in node.spec.taints):
            taints = [{"key": taint.key, "effect": taint.effect} for taint in node.spec.taints]
            world.api.patch(resource_of(NODE), node.key, Patch({"spec": {"taints": [*taints, QUARANTINE]}}))


def squat(world):
    """It puts a large pod on them, past the scheduler and without a DaemonSet."""
    for node in world.values(NODE):
        key = Key("default", f"squatter-{node.name}")
        if not any(pod.key == key for pod in world.values(POD)):
            container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}
            world.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": key.name, "namespace": key.namespace},
                    "spec": {
                        "nodeName": node.name,
                        "containers": [container],
                        "tolerations": [{"operator": "Exists"}],
                    },
                }
            )


class Created:
    """Names of all claims there ever were."""

    def __init__(self, life):
        self.life, self.names = life, set()
        self.listen()

    def listen(self):
        if isinstance(self.life.world.interference, Webhook):
            self.life.world.interference.attach(self.life.world)
        self.life.parts.manager.state.claims.listen(lambda _before, after: after and self.names.add(after.name))

    async def over(self, seconds, *agents, restart_every=None):
        for second in range(seconds):
            await asyncio.sleep(1)
            for agent in agents:
                agent(self.life)
            if restart_every and second % restart_every == restart_every - 1:
                await self.life.restart()
                self.listen()
        return len(self.names)


ONE = deployment(replicas=1, cpu="3", memory="1Gi")


@pytest.mark.parametrize("settings", [GENERIC, ACTING], ids=["idle", "acting"])
@pytest.mark.parametrize("restart_every", [None, 95], ids=str)
@pytest.mark.parametrize("does", [quarantine, squat])
def test_a_pod_that_new_nodes_do_not_take_buys_fewer_and_fewer(does, restart_every, settings):
    async def story(life):
        return await Created(life).over(HALF_AN_HOUR, restart_every=restart_every)

    pool = node_pool(template={"requirements": SMALL}, disruption={"consolidateAfter": "0s"})
    number = live(story, node_class(), pool, ONE, settings=settings, interference=Webhook(does))
    assert 3 <= number <= 8


def test_replacing_the_pod_does_not_reset_the_wait():
    async def story(life):
        def replace(life):
            for pod in life.pods if int(asyncio.get_running_loop().time()) % 60 == 0 else ():
                life.world.api.delete(resource_of(POD), pod.key)

        return await Created(life).over(HALF_AN_HOUR, replace)

    pool = node_pool(template={"requirements": SMALL})
    assert 3 <= live(story, node_class(), pool, ONE, interference=Webhook(quarantine)) <= 8


def test_it_is_told_on_the_pod_and_the_pool_and_shown_in_metrics():
    async def story(life):
        await Created(life).over(40)
        on_pod = [event.message for event in life.events("FailedScheduling")]
        [on_pool] = life.events("LaunchBackoff")
        shown = life.parts.metrics.render().decode()
        return on_pod, on_pool, shown

    pool = node_pool(template={"requirements": SMALL})
    on_pod, on_pool, shown = live(story, node_class(), pool, ONE, interference=Webhook(quarantine))
    assert any("NodePool default launches no node for it before" in message for message in on_pod)
    assert any("example.com/quarantine" in message for message in on_pod)
    assert (on_pool.involved_object.kind, on_pool.type) == ("NodePool", "Warning")
    assert 'dovetail_launches_failed_total{cause="not_fitting",nodepool="default"} 1.0' in shown
    assert 'dovetail_nodepools_launch_backoffs{nodepool="default"} 1.0' in shown


def test_other_pods_get_their_nodes_at_once():
    """Pods of another kind, which the nodes take, are not held up by those that wait."""

    async def story(life):
        await Created(life).over(300)
        life.world.apply(deployment("other", replicas=1, tolerations=[{"operator": "Exists"}]))
        began = asyncio.get_running_loop().time()
        await life.until(lambda: any(pod.ready for pod in life.pods if pod.name.startswith("other")))
        return asyncio.get_running_loop().time() - began

    pool = node_pool(template={"requirements": SMALL})
    assert live(story, node_class(), pool, ONE, interference=Webhook(quarantine)) < 60


def test_a_node_that_was_filled_by_other_pods_is_followed_by_another_at_once():
    async def story(life):
        Created(life)
        await life.until(lambda: life.nodes)
        life.world.interference = None
        began = asyncio.get_running_loop().time()
        await life.until(lambda: any(pod.ready for pod in life.pods if pod.name.startswith("web")))
        assert len(life.nodes) == 2
        return asyncio.get_running_loop().time() - began

    pool = node_pool(template={"requirements": SMALL})
    assert live(story, node_class(), pool, ONE, interference=Webhook(squat)) < 60


def test_pods_of_a_node_that_somebody_drains_get_another_at_once():
    """The node was launched for them and does not take them now, but it did."""

    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        [node] = life.nodes
        life.world.api.patch(resource_of(NODE), node.key, Patch({"spec": {"unschedulable": True}}))
        for pod in life.pods:
            life.world.api.delete(resource_of(POD), pod.key)
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        await life.until(lambda: life.running(1))
        return asyncio.get_running_loop().time() - began

    pool = node_pool(template={"requirements": SMALL})
    assert live(story, node_class(), pool, ONE) < 60


def test_one_bad_node_among_good_ones_does_not_stop_scale_out():
    """The bad node stays, empty, and is still one that did not help. But a later one did."""

    async def story(life):
        Created(life)
        await life.until(lambda: life.nodes)
        life.world.interference = None  # only the first node is bad
        await life.until(lambda: life.running(1), within=120)
        life.world.apply(deployment(replicas=3, cpu="3", memory="1Gi"))
        await life.until(lambda: life.running(3), within=60)

    pool = node_pool(template={"requirements": SMALL})
    live(story, node_class(), pool, ONE, interference=Webhook(quarantine))


def test_a_change_of_the_pool_ends_the_wait():
    async def story(life):
        await Created(life).over(900)
        life.world.interference = None
        labels = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(labels))
        await life.until(lambda: life.running(1), within=60)

    pool = node_pool(template={"requirements": SMALL})
    live(story, node_class(), pool, ONE, interference=Webhook(quarantine))


@pytest.mark.parametrize("restart_every", [None, 95], ids=str)
@pytest.mark.parametrize(
    ("error", "fewest", "most"),
    [(InsufficientCapacity("none left"), 5, 12), (LaunchFailed("Unauthorized", "not allowed"), 2, 6)],
)
def test_launches_that_fail_become_rare(error, fewest, most, restart_every):
    async def story(life):
        async def failing(_claim):
            raise error

        created = Created(life)
        for _ in range(HALF_AN_HOUR // restart_every if restart_every else 1):
            life.parts.provider.launch = failing
            await created.over(restart_every or HALF_AN_HOUR)
            if restart_every:
                await life.restart()
                created.listen()
        return len(created.names)

    assert fewest <= live(story, node_class(), node_pool(), deployment(replicas=3)) <= most


def test_a_wave_of_launches_that_fail_together_counts_once():
    async def story(life):
        launch = life.parts.provider.launch

        async def failing(_claim):
            raise InsufficientCapacity("none left")

        life.parts.provider.launch = failing
        await life.until(lambda: life.events("InsufficientCapacityError"))
        life.parts.provider.launch = launch
        began = asyncio.get_running_loop().time()
        await life.until(lambda: life.running(30))
        return asyncio.get_running_loop().time() - began

    pool = node_pool(template={"requirements": SMALL})
    assert live(story, node_class(), pool, deployment(replicas=30, cpu="3", memory="1Gi")) < 60
