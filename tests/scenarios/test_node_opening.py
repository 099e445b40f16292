"""New nodes are closed until they are ready, and opened with the pods they were launched for nominated to them."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.controllers.node_opening import NOMINATION_SECONDS
from dovetail.core.lifecycle.opening import LONGEST_START, is_closed, planned_pods
from dovetail.model.kinds import NODE, NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Forbidden, OutcomeUnknown, Unavailable
from dovetail.sim.kubernetes.kinds import resource_of
from dovetail.sim.kubernetes.kubelet import KubeletTiming
from stories import ACTING, GENERIC, ON_DEMAND, deployment, live, node_class, node_pool, seeded

CPUS = ("250m", "500m", "1", "1500m", "2", "3")
SIZES = tuple(zip("abcdef", CPUS, (23, 17, 11, 7, 5, 3), strict=True))
PODS = sum(number for _, _, number in SIZES)
FOUR = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}, *ON_DEMAND]
TOGETHER = KubeletTiming(node_ready=(4.0, 5.0))
"""All nodes are ready at about the same time: without nominations, kube-scheduler distributes the pods evenly."""


def workloads():
    return [deployment(name, number, cpu=cpu, memory="100Mi") for name, cpu, number in SIZES]


def cluster(**disruption):
    return node_class(), node_pool(
        template={"requirements": FOUR}, disruption={"consolidateAfter": "Never", **disruption}
    )


class Recorder:
    """Keeps which nodes were ever closed, and lets nominations fail."""

    def __init__(self, error=None, seconds=0.0):
        self.error, self.seconds, self.attempts = error, seconds, 0

    async def before(self, call):
        if (call.operation, call.kind) == ("patch", "Pod"):
            self.attempts += 1
            await asyncio.sleep(self.seconds)
            if self.error is not None:
                raise self.error

    async def after(self, call):
        pass


class Closures:
    """The nodes that were ever closed, and those that were open before they were ready."""

    def __init__(self, world):
        self.closed, self.open_early = set(), set()
        world.store.listen([resource_of(NODE)], self.hear)

    def hear(self, step):
        node = step.after.value(NODE)
        if is_closed(node):
            self.closed.add(node.name)
        elif not node.ready and node.metadata.labels.get("karpenter.sh/registered") == "true":
            self.open_early.add(node.name)


def scale_out(settings=GENERIC, seed=1, interference=None, restart_every=0.0, manifests=()):
    """The life of a scale-out until its pods run: nodes, claims, closures, and how many pods are where planned."""

    async def story(life):
        closures = Closures(life.world)
        step = 0.0
        while not life.running(PODS):
            await asyncio.sleep(restart_every or 0.5)
            if restart_every:
                await life.restart()
            step += 1
            assert step < 400, life
        await life.until(life.settled)
        claim_by_node = {claim.status.node_name: claim for claim in life.claims}
        placed = sum(pod.metadata.uid in planned_pods(claim_by_node[pod.node_name]) for pod in life.pods)
        return len(life.claims), closures, placed, [node.name for node in life.nodes if is_closed(node)]

    options = seeded(seed, kubelet=TOGETHER)
    return live(
        story, *cluster(), *workloads(), *manifests, options=options, settings=settings, interference=interference
    )


@pytest.mark.parametrize("seed", range(3))
def test_pods_land_where_planned_and_nothing_more_is_launched(seed):
    launched, closures, placed, closed = scale_out(seed=seed)
    unsteered, *_ = scale_out(replace(GENERIC, nominate_pods=False), seed=seed)
    assert launched < unsteered
    assert len(closures.closed) == launched
    assert not closures.open_early
    assert placed >= 0.9 * PODS
    assert closed == []


def test_with_the_setting_off_no_node_is_closed_and_no_pod_nominated():
    recorder = Recorder()
    _, closures, placed, _ = scale_out(replace(GENERIC, nominate_pods=False), interference=recorder)
    assert (closures.closed, placed, recorder.attempts) == (set(), 0, 0)


@pytest.mark.parametrize("error", [Forbidden("no"), Unavailable("no"), OutcomeUnknown("no")])
def test_nodes_open_although_no_pod_can_be_nominated_and_each_pod_is_tried_once(error):
    recorder = Recorder(error)
    _, closures, _, closed = scale_out(interference=recorder)
    assert closures.closed
    assert closed == []
    assert recorder.attempts <= PODS


def test_nodes_open_although_nominations_are_not_answered():
    *_, closed = scale_out(interference=Recorder(seconds=10 * NOMINATION_SECONDS))
    assert closed == []


@pytest.mark.parametrize("seconds", [1.3, 1.7, 2.6, 7.0])
def test_restarts_leave_no_node_closed(seconds):
    *_, closed = scale_out(restart_every=seconds)
    assert closed == []


def test_the_next_process_nominates_the_planned_pods():
    async def story(life):
        await life.until(lambda: any(is_closed(node) for node in life.nodes))
        await life.restart()
        await life.until(lambda: life.running(PODS) and life.settled())
        claim_by_node = {claim.status.node_name: claim for claim in life.claims}
        return sum(pod.metadata.uid in planned_pods(claim_by_node[pod.node_name]) for pod in life.pods)

    assert live(story, *cluster(), *workloads(), options=seeded(1, kubelet=TOGETHER)) >= 0.9 * PODS


class Recreating:
    """The pod is replaced by another one of its name while its nomination is on the way."""

    def __init__(self):
        self.life, self.replaced = None, 0

    async def before(self, call):
        if (call.operation, call.kind) == ("patch", "Pod") and not self.replaced:
            self.replaced += 1
            self.life.world.api.delete(resource_of(POD), call.key)
            self.life.world.apply(SOLO)

    async def after(self, call):
        pass


SOLO = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "solo", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]},
}


def test_a_new_pod_of_the_same_name_is_not_nominated():
    recreating = Recreating()
    nominated = []

    async def story(life):
        recreating.life = life
        life.world.store.listen(
            [resource_of(POD)], lambda step: nominated.append(step.after.plain["status"].get("nominatedNodeName", ""))
        )
        await life.until(lambda: recreating.replaced and life.running(1) and life.settled())

    live(story, *cluster(), SOLO, interference=recreating)
    assert not any(nominated)


def test_a_daemon_that_starts_nodes_keeps_them_open():
    starts = deployment("cni", 1, cpu="10m", memory="10Mi", tolerations=[{"key": "node.kubernetes.io/not-ready"}])
    del starts["spec"]["replicas"]
    starts["kind"] = "DaemonSet"

    async def story(life):
        closures = Closures(life.world)
        await life.until(lambda: sum(pod.ready for pod in life.pods if not pod.daemon) == 3)
        return closures.closed

    starts["spec"]["template"]["spec"]["tolerations"][0]["operator"] = "Exists"
    assert live(story, *cluster(), starts, deployment("web", 3)) == set()


def test_a_node_that_does_not_become_ready_is_opened_after_a_while():
    timing = KubeletTiming(node_ready=(3600.0, 3600.0))

    async def story(life):
        await life.until(lambda: any(is_closed(node) for node in life.nodes))
        await asyncio.sleep(LONGEST_START.total_seconds() - 5)
        before = [is_closed(node) for node in life.nodes]
        await asyncio.sleep(10)
        return before, [is_closed(node) for node in life.nodes]

    options = seeded(1, kubelet=timing)
    assert live(story, *cluster(), deployment("web", 1), options=options) == ([True], [False])


def test_a_node_waits_for_its_startup_taints():
    startup = {"key": "example.com/agent", "effect": "NoSchedule"}
    pool = node_pool(template={"requirements": FOUR, "startupTaints": [startup]})

    async def story(life):
        await life.until(lambda: any(node.ready for node in life.nodes))
        await asyncio.sleep(60)
        (node,) = life.nodes
        assert is_closed(node)
        left = [{"key": each.key, "effect": each.effect} for each in node.spec.taints if each.key != startup["key"]]
        life.world.api.patch(resource_of(NODE), node.key, Patch({"spec": {"taints": left}}))
        await life.until(lambda: life.running(3), within=20)
        return [event.message for event in life.events("Opened")]

    (message,) = live(story, node_class(), pool, deployment("web", 3))
    assert message.endswith("is open to pods; pods nominated to it: 3")


def test_replacements_are_not_closed():
    pool = node_pool(
        template={"requirements": ON_DEMAND}, disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    )

    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        closures = Closures(life.world)
        known = {claim.name for claim in life.claims}
        body = {"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}}
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(body))
        await life.until(lambda: known.isdisjoint(claim.name for claim in life.claims) and life.settled())
        await life.until(lambda: life.running(6))
        return closures.closed

    assert live(story, node_class(), pool, deployment("web", 6), settings=ACTING) == set()
