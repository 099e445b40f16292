"""Instances, NodeClaims and Nodes that lost the others are found and cleaned, never before their time."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import CloudError, Unavailable
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM
from stories import budget, deployment, live, node_class, node_pool

POOL = node_pool(template={"expireAfter": "Never"}, disruption={"consolidateAfter": "Never"})
SILENCE = 50  # seconds after which a Node whose instance ended is not ready, at the latest
CLASS_LABEL = "karpenter.kwok.sh/kwoknodeclass"


def instance(name="lost", *, label=CLASS_LABEL, provider_id=None, finalizers=(), ready=True):
    """A Node that nobody claims, and with it the instance it must have come from."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {label: "default", "karpenter.sh/nodepool": "default", "kwok.x-k8s.io/node": "fake"},
            "annotations": {} if ready else {"node-ready.stage.kwok.x-k8s.io/delay": "100h"},
            "finalizers": list(finalizers),
        },
        "spec": {"providerID": provider_id or f"kwok://{name}"},
    }


def apart():
    """Two pods that want a node each."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return deployment(replicas=2, affinity=alone)


def names(life):
    return {node.name for node in life.nodes}


def there(life, name="lost"):
    return name in names(life)


def ended(life, name="lost"):
    """Whether the instance was terminated; its Node stays until it is seen not to be ready."""
    return life.world.cloud.instances[f"kwok://{name}"].ended_by == "terminate"


async def quiet(life):
    await life.until(lambda: life.running(1) and life.settled())


def drop_claim(life):
    """The NodeClaim is gone, past its finalizer: somebody forced it."""
    (claim,) = life.claims
    life.world.api.patch(NODE_CLAIM, claim.key, Patch({"metadata": {"finalizers": None}}))
    life.world.api.delete(NODE_CLAIM, claim.key)


def test_an_instance_without_claim_is_terminated_once_it_is_older_than_half_a_minute():
    async def story(life):
        await quiet(life)
        life.world.apply(instance())
        began = life.world.clock.now()
        await asyncio.sleep(30)
        assert there(life)
        await life.until(lambda: ended(life), within=11)
        assert life.world.clock.now() - began < timedelta(seconds=41)
        await life.until(lambda: not there(life), within=SILENCE + 10)
        assert life.settled()

    live(story, node_class(), POOL, deployment(replicas=1))


def test_after_the_first_rounds_instances_are_compared_every_two_minutes():
    async def story(life):
        await quiet(life)
        await asyncio.sleep(20 * 10 + 60)
        life.world.apply(instance())
        await asyncio.sleep(50)
        assert not ended(life)
        await life.until(lambda: ended(life), within=100)
        await life.until(lambda: not there(life), within=SILENCE + 120)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_pods_of_a_node_whose_claim_was_forced_away_run_elsewhere():
    async def story(life):
        await quiet(life)
        (node,) = life.nodes
        drop_claim(life)
        await life.until(lambda: life.running(1) and life.settled() and node.name not in names(life), within=300)

    live(story, node_class(), POOL, deployment(replicas=1))


@pytest.mark.parametrize(
    "manifest",
    [
        instance(label="example.com/theirs"),
        instance(provider_id="other://lost"),
    ],
    ids=["a node nobody marked as ours", "another provider's node, and ready"],
)
def test_what_is_not_ours_stays(manifest):
    async def story(life):
        await quiet(life)
        life.world.apply(manifest)
        await asyncio.sleep(600)
        assert there(life)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_node_with_neither_claim_nor_instance_goes_once_it_says_itself_that_it_is_not_ready():
    async def story(life):
        await quiet(life)
        life.world.apply(instance(provider_id="elsewhere://lost", finalizers=["karpenter.sh/termination"]))
        await asyncio.sleep(400)
        assert there(life)  # still ready: proof enough that something runs
        life.world.instance_failures.kill("lost")
        await life.until(lambda: not there(life), within=300)

    live(story, node_class(), POOL, deployment(replicas=1))


class Cloud:
    """Stands in front of the provider: lists fail, or leave instances out."""

    def __init__(self, provider):
        self._provider = provider
        self._list = provider.list
        self.error = None
        self.hidden = set()
        provider.list = self.list

    async def list(self):
        if self.error is not None:
            raise self.error
        return tuple(each for each in await self._list() if each.provider_id not in self.hidden)


@pytest.mark.parametrize("error", [CloudError("no answer"), Unavailable("down")])
def test_nothing_is_deleted_while_the_provider_cannot_be_listed(error):
    async def story(life):
        await quiet(life)
        cloud = Cloud(life.parts.provider)
        cloud.error = error
        life.world.apply(instance())
        life.world.instance_failures.kill(life.nodes[0].name)
        await asyncio.sleep(250)
        assert there(life)
        assert len(life.claims) == 1
        cloud.error = None
        await life.until(lambda: ended(life), within=130)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_list_that_lags_behind_costs_nobody_a_node():
    """The instance is missing from the list and its node is not ready: the instance itself is asked, and is there."""

    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        Cloud(life.parts.provider).hidden.add(node.provider_id)
        life.world.instance_failures.kill(node.name)
        await asyncio.sleep(600)
        assert node.name in names(life)
        assert [each.deleting for each in life.claims if each.name == claim.name] == [False]

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_claim_whose_instance_vanished_with_its_node_is_let_go():
    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        life.world.instance_failures.vanish(node.name)
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=180)
        await life.until(lambda: life.running(1) and life.settled())

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_claim_whose_instance_is_lost_is_let_go_once_its_node_falls_silent():
    """Not while the node speaks; then within the two minutes between two comparisons, and without a drain."""

    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        life.world.instance_failures.lose(node.name)
        await asyncio.sleep(39)
        assert not life.claims[0].deleting
        await life.until(lambda: node.name not in names(life), within=50 + 120)
        assert claim.name not in {each.name for each in life.claims}
        await life.until(lambda: life.running(1) and life.settled())

    live(story, node_class(), POOL, deployment(replicas=1), budget(maxUnavailable=0))


@pytest.mark.parametrize("way", ["the node is forced away", "nobody was there when it went"])
def test_a_claim_whose_node_is_gone_while_its_instance_runs_on_is_let_go_and_the_instance_terminated(way):
    """Nothing can run there any more, and nobody would notice what it costs."""

    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        absent = way != "the node is forced away"
        if absent:
            await life.stop()
        life.world.instance_failures.remove_node(node.name)
        if absent:
            life.parts = life._parts()
            life.start()
        await life.until(lambda: ended(life, node.name), within=180)
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=30)
        await life.until(lambda: life.running(1) and life.settled())

    live(story, node_class(), POOL, deployment(replicas=1))


def test_a_claim_whose_node_the_cache_does_not_know_keeps_its_instance():
    """The API server is asked for the Node before anything is deleted."""

    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        state = life.parts.manager.state
        state.nodes._forget(node.key)  # as if its watch had told of its end
        for _ in range(3):
            await life.parts.manager.garbage[0].collect()
            await asyncio.sleep(60)
        assert not ended(life, node.name)
        assert [each.deleting for each in life.claims if each.name == claim.name] == [False]

    live(story, node_class(), POOL, deployment(replicas=1))


class Refusing:
    """Nobody may delete one NodeClaim, for so many calls."""

    def __init__(self, name, times):
        self.name, self.left = name, times

    async def before(self, call):
        if (call.operation, call.kind) == ("delete", "NodeClaim") and call.key.name == self.name and self.left:
            self.left -= 1
            raise Unavailable("down")

    async def after(self, call):
        pass


def test_a_claim_that_cannot_be_deleted_keeps_no_other():
    async def story(life):
        await life.until(lambda: life.running(2) and len(life.nodes) == 2 and life.settled())
        first, second = sorted(life.claims, key=lambda claim: claim.name)
        life.world.interference = Refusing(first.name, times=1000)
        for node in life.nodes:
            life.world.instance_failures.lose(node.name)
        await life.until(lambda: second.name not in {each.name for each in life.claims}, within=50 + 120)
        assert first.name in {each.name for each in life.claims}

    live(story, node_class(), POOL, apart())


def test_a_round_that_failed_is_soon_followed_by_another():
    async def story(life):
        await quiet(life)
        (claim,) = life.claims
        refusing = life.world.interference = Refusing(claim.name, times=2)
        life.world.instance_failures.lose(life.nodes[0].name)
        await life.until(lambda: refusing.left == 1, within=50 + 120)
        began = life.world.clock.now()
        await life.until(lambda: claim.name not in {each.name for each in life.claims}, within=35)
        assert life.world.clock.now() - began > timedelta(seconds=28)  # ten seconds, and then twenty

    live(story, node_class(), POOL, deployment(replicas=1))


def test_an_instance_whose_claim_the_cache_does_not_know_is_not_terminated():
    async def story(life):
        await quiet(life)
        await asyncio.sleep(60)
        (node,) = life.nodes
        state = life.parts.manager.state
        claim = state.claims.items[life.claims[0].key]
        state.claims._forget(claim.key)  # as if its watch had never told of it
        await life.parts.manager.garbage[0].collect()
        assert node.name in names(life)
        assert claim.key in state.claims.items

    live(story, node_class(), POOL, deployment(replicas=1))


def test_nothing_counts_as_unclaimed_while_a_claim_cannot_be_read():
    async def story(life):
        await quiet(life)
        (node,), (claim,) = life.nodes, life.claims
        odd = Patch({"status": {"lastPodEventTime": "yesterday"}}, subresource="status")
        with life.world.api.unchecked():
            life.world.api.patch(NODE_CLAIM, claim.key, odd)
        await asyncio.sleep(900)
        assert node.name in names(life)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_an_instance_launched_just_before_a_crash_is_taken_up_by_its_claim():
    """The process dies between launch and writing the claim, for longer than the wait: the instance is not leaked."""

    class LoseStatus:
        armed = True

        async def before(self, call):
            if self.armed and (call.operation, call.kind) == ("patch", "NodeClaim") and self.launched:
                raise Unavailable("the process is about to die")

        async def after(self, call):
            if (call.operation, call.kind) == ("launch", "Instance"):
                self.launched = True

        launched = False

    losing = LoseStatus()

    async def story(life):
        await life.until(lambda: life.nodes)
        (node,) = life.nodes
        await life.stop()
        await asyncio.sleep(120)
        losing.armed = False
        life.parts = life._parts()
        life.start()
        await life.until(lambda: life.running(1) and life.settled(), within=60)
        assert names(life) == {node.name}
        assert [each.node_name for each in life.world.cloud.instances.values()] == [node.name]

    live(story, node_class(), POOL, deployment(replicas=1), interference=losing)


def test_young_instances_survive_every_round():
    """A launch that takes its time to be written down is never mistaken for a leak; one whose Node is gone is one."""

    async def story(life):
        await quiet(life)
        for number in range(5):
            life.world.apply(instance(f"young-{number}"))
            await asyncio.sleep(20)
            assert not ended(life, f"young-{number}")
            life.world.api.delete(NODE, Key("", f"young-{number}"))
        await life.until(lambda: all(ended(life, f"young-{number}") for number in range(5)), within=60)

    live(story, node_class(), POOL, deployment(replicas=1))


def test_instances_without_any_claim_at_startup_are_not_terminated(caplog):
    """A wrong cluster name, or claims lost with the CRD: nothing is terminated until a restart finds claims."""

    async def story(life):
        await asyncio.sleep(900)
        assert there(life)
        assert there(life, "silent")
        assert [record.levelname for record in caplog.records if "not garbage collected" in record.message] == ["ERROR"]
        life.world.apply(deployment(replicas=1, nodeSelector={"kubernetes.io/arch": "amd64"}))
        await life.until(lambda: life.running(1) and life.claims, within=300)
        await asyncio.sleep(300)
        (claim,) = life.claims
        drop_claim(life)  # it was there after the start, so its instance is known to be leaked
        await life.until(lambda: life.world.cloud.instances[claim.provider_id].ended_by == "terminate", within=300)
        await life.until(lambda: life.running(1) and life.claims, within=300)
        assert not ended(life)
        assert not ended(life, "silent")
        await life.restart()
        await life.until(lambda: ended(life) and ended(life, "silent"), within=300)

    live(story, node_class(), POOL, instance(), instance("silent", ready=False))
