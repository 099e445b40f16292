"""What a NodePool says it has is what its claims and nodes have, whatever changed last."""

import asyncio
import json

import pytest

from dovetail.core.lifecycle.nodepool_status import count
from dovetail.core.merge_patches import amounts
from dovetail.model.annotated_fields import LAST_APPLIED
from dovetail.model.kinds import KWOK_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE, NODE_CLAIM, NODE_POOL
from stories import ACTING, deployment, live, node_class, node_pool

SMALL = [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]
POOL = node_pool(template={"requirements": SMALL}, disruption={"consolidateAfter": "1m"})


def joined(life):
    """The count over the cluster as everybody else sees it."""
    nodes = life.parts.manager.state.cluster_nodes()
    resources, number = count(each for each in nodes if each.managed and each.nodepool_name == "default")
    return amounts(resources), number


async def told(life):
    """What the pool says once there was time to count."""
    await asyncio.sleep(5)
    status = life.pool().status
    return amounts(status.resources), status.nodes


def test_a_pool_says_what_it_has_while_nodes_come_and_go():
    async def story(life):
        numbers = []
        for replicas in (9, 3, 0):
            life.world.apply(deployment(replicas=replicas))
            await life.until(lambda wanted=replicas: life.running(wanted) and len(life.pods) == wanted)
            for _ in range(30):
                assert await told(life) == joined(life)
                numbers.append(life.pool().status.nodes)
        assert max(numbers) >= 3
        await life.until(lambda: not life.nodes)
        assert (await told(life))[1] == 0

    live(story, node_class(), POOL, deployment(replicas=9), settings=ACTING)


def test_a_node_that_grows_is_counted_as_it_is():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before, _ = await told(life)
        grown = Patch({"status": {"capacity": {"cpu": "7"}}}, subresource="status")
        life.world.api.patch(NODE, life.nodes[0].key, grown)
        assert (before["cpu"], (await told(life))[0]["cpu"]) == ("4", "7")

    live(story, node_class(), POOL, deployment(replicas=1))


def test_what_no_node_has_any_more_is_not_spoken_of():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before, _ = await told(life)
        for amount in ("2", None):
            device = Patch({"status": {"capacity": {"example.com/device": amount}}}, subresource="status")
            life.world.api.patch(NODE, life.nodes[0].key, device)
            assert (await told(life))[0].get("example.com/device") == amount
        assert (await told(life))[0] == before
        version = life.pool().metadata.resource_version
        await asyncio.sleep(1300)
        assert life.pool().metadata.resource_version == version

    live(story, node_class(), POOL, deployment(replicas=1))


def test_an_instance_that_two_claims_have_is_counted_for_none():
    async def story(life):
        await life.until(lambda: life.running(9) and life.settled())
        _, number = await told(life)
        one, other, *_ = life.claims
        same = Patch({"status": {"providerID": one.provider_id}}, subresource="status")
        life.world.api.patch(NODE_CLAIM, Key("", other.name), same)
        assert await told(life) == joined(life)
        assert life.pool().status.nodes == number - 2

    live(story, node_class(), POOL, deployment(replicas=9))


def test_a_pool_hears_of_its_node_class_at_once():
    """A class may be made after the pools that name it, and go before them."""

    def ready(life):
        return next(each.status for each in life.pool().status.conditions if each.type == "NodeClassReady")

    async def story(life):
        await asyncio.sleep(30)
        assert ready(life) == "False"
        life.world.apply(node_class())
        await life.until(lambda: ready(life) == "True", within=5)
        await life.world.delete(KWOK_NODE_CLASS, Key("", "default"))
        await life.until(lambda: ready(life) == "False", within=5)

    live(story, POOL)


CONDITION = {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}


def annotated(**annotations):
    made = node_pool(disruption={"consolidateAfter": "1m"})
    made["metadata"]["annotations"] = annotations
    return made


def conditions(life, kind):
    """The conditions of all objects of a kind, as stored."""
    objects = [each.plain for each in life.world.store.all(kind)]
    return [condition for each in objects for condition in each.get("status", {}).get("conditions", ())]


def annotate(life, **annotations):
    life.world.api.patch(NODE_POOL, Key("", "default"), Patch({"metadata": {"annotations": annotations}}))


def validation(life):
    return next(each for each in conditions(life, NODE_POOL) if each["type"] == "ValidationSucceeded")


@pytest.mark.parametrize("text", ["{", '{"policies": 3}'])
def test_an_annotation_that_cannot_be_read_stops_the_pool_and_is_named_until_it_is_corrected(text):
    async def story(life):
        await asyncio.sleep(60)
        assert not life.nodes
        assert validation(life)["status"] == "False"
        assert "metadata.annotations[dovetail.sh/repair]" in validation(life)["message"]
        assert all(set(each) == CONDITION for each in conditions(life, NODE_POOL))
        (event,) = life.events("NodePoolValidationFailed")
        assert "dovetail.sh/repair" in event.message
        annotate(life, **{"dovetail.sh/repair": "{}"})
        await life.until(lambda: life.running(1))
        assert validation(life)["status"] == "True"

    live(story, node_class(), annotated(**{"dovetail.sh/repair": text}), deployment(replicas=1))


def test_an_annotation_takes_effect_and_ends_without_drift():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        before = life.claims
        annotate(life, **{"dovetail.sh/consolidation-grace-period": "2h"})
        await asyncio.sleep(60)
        pools = life.parts.manager.state.nodepools.items
        assert str(pools[Key("", "default")].spec.disruption.consolidation_grace_period) == "2h"
        annotate(life, **{"dovetail.sh/consolidation-grace-period": None})
        await asyncio.sleep(60)
        assert pools[Key("", "default")].spec.disruption.consolidation_grace_period is None
        assert [each.name for each in life.claims] == [each.name for each in before]
        assert not any(each.has("Drifted") for each in life.claims)

    live(story, node_class(), annotated(), deployment(replicas=1), settings=ACTING)


def test_a_field_that_the_crd_dropped_is_named_in_the_condition_and_in_an_event():
    async def story(life):
        await life.until(lambda: life.running(1))
        assert validation(life)["status"] == "True"
        assert "spec.repair" in validation(life)["message"]
        (event,) = life.events("FieldDropped")
        assert event.type == "Warning"
        assert "dovetail.sh/repair: '{}'" in event.message
        annotate(life, **{"dovetail.sh/repair": "{}"})
        await life.until(lambda: validation(life)["message"] == "")

    applied = json.dumps(node_pool(repair={}))
    live(story, node_class(), annotated(**{LAST_APPLIED: applied}), deployment(replicas=1))


def test_every_condition_is_written_with_all_its_fields():
    async def story(life):
        seen = []
        for replicas in (9, 0):
            life.world.apply(deployment(replicas=replicas))
            for _ in range(30):
                await asyncio.sleep(10)
                seen += [*conditions(life, NODE_POOL), *conditions(life, NODE_CLAIM)]
        assert {"Consolidatable", "Initialized", "Launched", "Ready", "Registered"} <= {each["type"] for each in seen}
        assert all(set(each) == CONDITION for each in seen)

    live(story, node_class(), POOL, deployment(replicas=9), settings=ACTING)
