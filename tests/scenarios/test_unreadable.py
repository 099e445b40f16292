"""What cannot be read may be what runs on a node or protects it: that node is left alone until it can."""

import asyncio

import pytest

from dovetail.model.kinds import NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.model.labels import NODEPOOL
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, resource_of
from stories import ACTING, FREELY, ON_DEMAND, deployment, live, node_class, node_pool, pool

RULE = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [RULE]}}}


def odd_pod(node):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "about-two"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }


def odd_budget(selector):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"selector": selector},
    }


def warned(life, kind):
    found = [event for event in life.events("Unreadable") if event.involved_object.kind == kind]
    return [event.message for event in found if event.type == "Warning" and event.involved_object.name == "odd"]


def blocked(life, node):
    found = [event for event in life.events("DisruptionBlocked") if event.involved_object.name == node.name]
    return [event.message for event in found if "default/odd" in event.message]


def test_the_node_of_a_pod_that_cannot_be_read_is_not_disrupted_and_the_others_are():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        node, other = life.nodes
        made = life.world.apply_unchecked(odd_pod(node.name))
        await asyncio.sleep(5)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: [each.name for each in life.nodes] == [node.name], within=120)
        await asyncio.sleep(600)
        assert [each.name for each in life.nodes] == [node.name]
        assert blocked(life, node)
        assert not blocked(life, other)
        (said,) = set(warned(life, "Pod"))
        assert f"its node {node.name} is neither disrupted nor given new pods" in said
        life.world.api.delete(made.resource, Key("default", "odd"))
        await life.until(lambda: not life.nodes, within=60)

    live(story, node_class(), pool(), deployment(replicas=2, **APART), settings=ACTING)


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": ["app"]},
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "exists"}]},
    ],
)
def test_a_budget_that_cannot_be_read_holds_the_pods_of_its_namespace_and_no_others(selector):
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        before = {node.metadata.labels[NODEPOOL]: node for node in life.nodes}
        made = life.world.apply_unchecked(odd_budget(selector))
        await asyncio.sleep(5)
        for name in ("default", "blue"):
            drifted = {"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}
            life.world.api.patch(resource_of(NODE_POOL), Key("", name), Patch(drifted, ""))
        await life.until(lambda: before["blue"].name not in [each.name for each in life.nodes], within=300)
        await asyncio.sleep(600)
        node = before["default"]
        assert node.name in [each.name for each in life.nodes]
        assert any("pdb cannot be read" in said.lower() for said in blocked(life, node))
        assert warned(life, "PodDisruptionBudget")
        life.world.api.delete(made.resource, Key("default", "odd"))
        await life.until(lambda: life.settled() and node.name not in [each.name for each in life.nodes], within=300)

    far = deployment("far", 1, nodeSelector={NODEPOOL: "blue"})
    elsewhere = {**far, "metadata": {"name": "far", "namespace": "elsewhere"}}
    blue = node_pool("blue", template={"requirements": ON_DEMAND}, disruption=FREELY)
    near = deployment(replicas=1, nodeSelector={NODEPOOL: "default"})
    live(story, node_class(), pool(), blue, near, elsewhere, settings=ACTING)


def test_the_odd_pod_is_one_nobody_can_read():
    async def story(life):
        life.world.apply_unchecked(odd_pod("nowhere"))
        await asyncio.sleep(5)
        assert Key("default", "odd") in life.parts.manager.state.pods.unreadable
        assert not life.world.values(POD)

    live(story, node_class(), pool(), settings=ACTING)


def test_a_drain_waits_while_a_pod_cannot_be_read():
    """It may run on that very node, and nobody would have asked it to go."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        made = life.world.apply_unchecked(odd_pod(node.name))
        await asyncio.sleep(5)
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(600)
        assert node.name in [each.name for each in life.nodes]
        assert {pod.node_name for pod in life.pods} != {node.name}  # all others have gone already
        assert any("default/odd" in event.message for event in life.events("FailedDraining"))
        life.world.api.delete(made.resource, Key("default", "odd"))
        await life.until(lambda: life.running(3) and node.name not in [each.name for each in life.nodes], within=60)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_drain_does_not_wait_for_a_pod_of_another_node_that_cannot_be_read():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        node, other = life.nodes
        life.world.apply_unchecked(odd_pod(other.name))
        await asyncio.sleep(5)
        life.world.api.delete(NODE, node.key)
        await life.until(lambda: node.name not in [each.name for each in life.nodes], within=120)

    live(story, node_class(), pool(), deployment(replicas=2, **APART))


def test_a_drain_with_a_deadline_does_not_outlast_it_for_a_pod_that_cannot_be_read():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        life.world.apply_unchecked(odd_pod(node.name))
        await asyncio.sleep(5)
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(290)
        assert node.name in [each.name for each in life.nodes]
        await life.until(lambda: node.name not in [each.name for each in life.nodes], within=15)

    bounded = node_pool(template={"requirements": ON_DEMAND, "terminationGracePeriod": "5m"})
    live(story, node_class(), bounded, deployment(replicas=3))


def test_an_instance_is_not_taken_from_under_a_node_that_cannot_be_read():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        odd = {"status": {"capacity": {"example.com/odd": "about-four"}}}
        with life.world.api.unchecked():
            life.world.api.patch(NODE, node.key, Patch(odd, "", "status"))
        await asyncio.sleep(5)
        assert node.key in life.parts.manager.state.nodes.unreadable
        life.world.api.delete(NODE_CLAIM, claim.key)
        await asyncio.sleep(600)
        assert not life.world.store.find(NODE, node.key).deleting
        assert any(node.name in event.message for event in life.events("FailedDraining"))
        life.world.api.patch(NODE, node.key, Patch({"status": {"capacity": {"example.com/odd": None}}}, "", "status"))
        await life.until(lambda: claim.name not in [each.name for each in life.claims], within=90)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_node_whose_claim_may_be_the_one_that_cannot_be_read_is_not_let_go():
    """Without its claim nobody would end the instance."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        odd = {"status": {"capacity": {"example.com/odd": "about-four"}}}
        with life.world.api.unchecked():
            life.world.api.patch(NODE_CLAIM, claim.key, Patch(odd, "", "status"))
        await asyncio.sleep(5)
        assert claim.key in life.parts.manager.state.claims.unreadable
        life.world.api.delete(NODE, node.key)
        await asyncio.sleep(600)
        assert node.name in [each.name for each in life.nodes]
        mended = {"status": {"capacity": {"example.com/odd": None}}}
        life.world.api.patch(NODE_CLAIM, claim.key, Patch(mended, "", "status"))
        await life.until(lambda: claim.name not in [each.name for each in life.claims], within=90)

    live(story, node_class(), pool(), deployment(replicas=3))


def test_a_claim_that_cannot_be_read_stops_no_launch_and_is_not_collected():
    """Reproduced with an unknown operator: every round of provisioning failed."""
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "Near", "values": ["spot"]}
    odd = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "odd", "labels": {NODEPOOL: "default"}},
        "spec": {"nodeClassRef": ref, "requirements": [requirement]},
    }

    async def story(life):
        await life.until(lambda: life.running(3), within=120)
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes, within=300)
        await asyncio.sleep(1800)
        assert life.world.store.find(NODE_CLAIM, Key("", "odd")) is not None
        (said,) = set(warned(life, "NodeClaim"))
        assert "'Near'" in said

    manifests = (node_class(), pool(), odd, deployment(replicas=3))
    live(story, *manifests, settings=ACTING, validate=lambda _resource, _before, after: after)


def test_garbage_is_collected_while_a_claim_of_another_instance_cannot_be_read():
    """It is kept with its instance; an instance nobody claims is terminated all the same."""

    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        first, second = life.claims
        odd = {"status": {"capacity": {"example.com/odd": "about-four"}}}
        with life.world.api.unchecked():
            life.world.api.patch(NODE_CLAIM, first.key, Patch(odd, "", "status"))
        await asyncio.sleep(5)
        assert first.key in life.parts.manager.state.claims.unreadable
        life.world.api.patch(NODE_CLAIM, second.key, Patch({"metadata": {"finalizers": None}}, ""))
        life.world.api.delete(NODE_CLAIM, second.key)
        await life.until(lambda: second.provider_id not in {node.provider_id for node in life.nodes}, within=600)
        await asyncio.sleep(600)
        assert first.provider_id in {node.provider_id for node in life.nodes}
        assert first.provider_id in {each.provider_id for each in await life.parts.provider.list()}

    live(story, node_class(), pool(), deployment(replicas=2, **APART))
