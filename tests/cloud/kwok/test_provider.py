import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.kwok.claims import CLASS_REF, claim, instance_type, requirement
from cloud.planned_faults import PlannedFaults
from dovetail.cloud.kwok.catalog import realistic_catalog
from dovetail.cloud.kwok.offering_selection import Shortage
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.model.duration import Duration
from dovetail.model.kinds import KWOK_NODE_CLASS, NODE, NODE_CLAIM
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.kwoknodeclass import KWOKNodeClass, KWOKNodeClassSpec
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.node import Node
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import InstanceNotFound, InsufficientCapacity, NodeClassNotReady, OutcomeUnknown, Unavailable
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

CATALOG = (
    instance_type("m5.large", ("a", "spot", 0.04), ("a", "on-demand", 0.1), ("b", "spot", 0.03)),
    instance_type("c5.large", ("a", "spot", 0.05), ("b", "spot", 0.03)),
    instance_type("m5.xlarge", ("a", "on-demand", 0.2), cpu="8"),
)


def lived(story, *, delay=None):
    """Run a scenario on a new cluster with a node class."""

    async def main():
        cluster = World()
        spec = KWOKNodeClassSpec(node_registration_delay=Duration.parse(delay) if delay else None)
        await cluster.create(KWOK_NODE_CLASS, KWOKNodeClass(metadata=ObjectMeta(name="default"), spec=spec))
        provider = KwokProvider(cluster, CATALOG, cluster.clock)
        try:
            return await story(cluster, provider)
        finally:
            await provider.aclose()

    return run(main(), limit=3600)


async def made(cluster, wanted):
    return await cluster.create(NODE_CLAIM, wanted)


async def recorded(cluster, wanted, instance):
    """The claim as the lifecycle controller writes it after a launch."""
    await cluster.patch(NODE_CLAIM, wanted.key, Patch({"metadata": {"labels": instance.labels}}))
    return await cluster.patch(
        NODE_CLAIM, wanted.key, Patch({"status": {"providerID": instance.provider_id}}, subresource="status")
    )


async def node_names(cluster):
    return [node.name for node in (await cluster.list(NODE)).items]


def test_a_launch_makes_the_cheapest_node_there_is():
    async def story(cluster, provider):
        instance = await provider.launch(await made(cluster, claim()))
        (node,) = (await cluster.list(NODE)).items
        assert instance.provider_id == node.provider_id == f"kwok://{node.name}"
        assert [instance.labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)] == ["c5.large", "b", "spot"]
        assert instance.capacity == node.status.capacity == CATALOG[1].capacity
        assert instance.allocatable == node.status.allocatable == CATALOG[1].allocatable
        assert node.status.phase == "Pending"
        assert await provider.get(instance.provider_id) == instance
        assert await provider.list() == (instance,)
        assert await provider.drift(claim()) == ""

    lived(story)


@pytest.mark.parametrize(("written", "there"), [("lost", False), ("found", True), ("", True)])
def test_the_loss_of_an_instance_is_staged_by_a_label(written, there):
    """The Node stays and is not deleted: there is no instance to terminate."""

    async def story(cluster, provider):
        held = await made(cluster, claim())
        instance = await provider.launch(held)
        (node,) = (await cluster.list(NODE)).items
        await cluster.patch(NODE, node.key, Patch({"metadata": {"labels": {"dovetail.sh/instance": written}}}))
        if there:
            assert (await provider.get(instance.provider_id)).provider_id == instance.provider_id
            assert [each.provider_id for each in await provider.list()] == [instance.provider_id]
            return
        with pytest.raises(InstanceNotFound):
            await provider.get(instance.provider_id)
        with pytest.raises(InstanceNotFound):
            await provider.terminate(held)
        assert await provider.list() == ()
        assert [each.deleting for each in (await cluster.list(NODE)).items] == [False]

    lived(story)


wishes = st.lists(
    st.sampled_from(
        [
            requirement(ZONE, "a"),
            requirement(CAPACITY_TYPE, "spot"),
            requirement(INSTANCE_TYPE, "m5.large", "m5.xlarge"),
        ]
    ),
    max_size=2,
    unique_by=lambda wish: wish.key,
)


@given(wishes, st.booleans(), st.booleans())
def test_launching_again_gives_the_same_instance_whatever_happened_in_between(wanted, late, restarted):
    async def story(cluster, provider):
        asked = await made(cluster, claim("pool-a1", *wanted))
        first = await provider.launch(asked)
        second_provider = KwokProvider(cluster, CATALOG, cluster.clock) if restarted else provider
        again = await second_provider.launch(asked)
        assert again == first
        await asyncio.sleep(60)
        assert await provider.list() == (await provider.get(first.provider_id),)
        assert (await provider.launch(asked)).provider_id == first.provider_id
        assert len(await node_names(cluster)) == 1

    lived(story, delay="30s" if late else None)


@pytest.mark.parametrize("delay", [None, "30s"])
def test_a_launch_that_was_made_is_found_again_though_nothing_could_be_had_now(delay):
    """The class was deleted or there is a shortage; the node exists nevertheless."""

    async def story(cluster, provider):
        wanted = await made(cluster, claim())
        instance = await provider.launch(wanted)
        await asyncio.sleep(60)
        again = KwokProvider(cluster, (), cluster.clock)
        assert (await again.launch(wanted)).provider_id == instance.provider_id
        await cluster.delete(KWOK_NODE_CLASS, Key("", "default"))
        other = KwokProvider(cluster, CATALOG, cluster.clock)
        assert (await other.launch(wanted)).provider_id == instance.provider_id
        assert len(await node_names(cluster)) == 1

    lived(story, delay=delay)


def test_a_launch_whose_answer_was_lost_is_found_again():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        cluster.interference = faults = PlannedFaults()
        faults.fail("create", OutcomeUnknown("no answer"), took_effect=True)
        with pytest.raises(OutcomeUnknown):
            await provider.launch(asked)
        instance = await provider.launch(asked)
        assert [f"kwok://{name}" for name in await node_names(cluster)] == [instance.provider_id]

    lived(story)


def test_a_node_appears_after_the_registration_delay_and_is_an_instance_before():
    async def story(cluster, provider):
        instance = await provider.launch(await made(cluster, claim()))
        await asyncio.sleep(29)
        assert await node_names(cluster) == []
        assert await provider.list() == (instance,)
        assert await provider.get(instance.provider_id) == instance
        await asyncio.sleep(2)
        assert await node_names(cluster) == [instance.provider_id.removeprefix("kwok://")]
        assert [each.provider_id for each in await provider.list()] == [instance.provider_id]

    lived(story, delay="30s")


def test_a_late_node_survives_a_restart_and_trouble_with_the_api():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        instance = await provider.launch(asked)
        await recorded(cluster, asked, instance)
        await provider.aclose()
        cluster.interference = faults = PlannedFaults()
        successor = KwokProvider(cluster, CATALOG, cluster.clock)
        await successor.recover()
        assert [each.provider_id for each in await successor.list()] == [instance.provider_id]
        faults.fail("create", Unavailable("down"))
        await asyncio.sleep(40)
        (node,) = (await cluster.list(NODE)).items
        assert node.provider_id == instance.provider_id
        assert node.metadata.labels == instance.labels
        await successor.recover()
        assert len(await successor.list()) == 1

    lived(story, delay="30s")


def test_a_delayed_node_is_not_created_for_a_deleted_claim():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        await provider.launch(asked)
        await cluster.delete(NODE_CLAIM, asked.key)
        await asyncio.sleep(60)
        assert await node_names(cluster) == []
        assert await provider.list() == ()

    lived(story, delay="30s")


def test_terminating_a_late_node_calls_it_off():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        await provider.launch(asked)
        await provider.terminate(asked)
        with pytest.raises(InstanceNotFound):
            await provider.terminate(asked)
        await asyncio.sleep(60)
        assert await node_names(cluster) == []

    lived(story, delay="30s")


def test_terminate_deletes_the_node_and_then_raises_not_found():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        instance = await provider.launch(asked)
        await provider.terminate(asked)
        assert await node_names(cluster) == []
        for gone in (provider.terminate(asked), provider.get(instance.provider_id), provider.get("aws:///i-1")):
            with pytest.raises(InstanceNotFound):
                await gone

    lived(story)


def test_a_node_held_by_a_finalizer_is_terminating_without_an_instance():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        instance = await provider.launch(asked)
        key = Key("", instance.provider_id.removeprefix("kwok://"))
        await cluster.patch(NODE, key, Patch({"metadata": {"finalizers": ["karpenter.sh/termination"]}}))
        await provider.terminate(asked)
        assert [each.terminating for each in await provider.list()] == [True]
        assert (await provider.get(instance.provider_id)).terminating
        with pytest.raises(InstanceNotFound):
            await provider.terminate(asked)

    lived(story)


def test_a_missing_class_is_insufficient_capacity():
    async def story(cluster, provider):
        elsewhere = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
        for ref in (msgspec.structs.replace(CLASS_REF, name="other"), elsewhere):
            assert await provider.node_class(ref) is None
            with pytest.raises(InsufficientCapacity, match="does not exist"):
                await provider.launch(claim(ref=ref))

    lived(story)


def test_a_class_that_is_not_ready_launches_nothing():
    async def story(cluster, provider):
        assert (await provider.node_class(CLASS_REF)).ready.status == "True"
        unready = {"type": "Ready", "status": "False", "reason": "Broken", "message": "out of order"}
        key = Key("", "default")
        await cluster.patch(KWOK_NODE_CLASS, key, Patch({"status": {"conditions": [unready]}}, subresource="status"))
        assert (await provider.node_class(CLASS_REF)).ready.status == "False"
        with pytest.raises(NodeClassNotReady, match="out of order"):
            await provider.launch(claim())
        assert await node_names(cluster) == []

    lived(story)


def test_a_class_without_a_ready_condition_is_ready():
    async def story(cluster, provider):
        await cluster.patch(
            KWOK_NODE_CLASS, Key("", "default"), Patch({"status": {"conditions": None}}, subresource="status")
        )
        assert (await provider.node_class(CLASS_REF)).ready.status == "True"
        assert await provider.launch(claim())

    lived(story)


def test_a_shortage_sends_the_launch_elsewhere_and_then_nowhere():
    async def story(cluster, provider):
        provider.availability.begin(Shortage(zone="b"))
        first = await provider.launch(await made(cluster, claim("one", uid="1")))
        assert (first.labels[INSTANCE_TYPE], first.labels[ZONE]) == ("m5.large", "a")
        provider.availability.begin(Shortage())
        with pytest.raises(InsufficientCapacity, match="available offering"):
            await provider.launch(await made(cluster, claim("two", uid="2")))
        types = await provider.instance_types(NodePool())
        assert [each.name for each in types] == [each.name for each in CATALOG]
        assert not any(offering.available for each in types for offering in each.offerings)

    lived(story)


def test_a_node_of_another_provider_with_the_same_name_is_left_alone():
    async def story(cluster, provider):
        asked = await made(cluster, claim())
        instance = await provider.launch(asked)
        name = instance.provider_id.removeprefix("kwok://")
        await cluster.delete(NODE, Key("", name))
        await cluster.create(NODE, Node(metadata=ObjectMeta(name=name)))
        assert await provider.list() == ()
        with pytest.raises(InstanceNotFound):
            await provider.terminate(asked)
        assert await node_names(cluster) == [name]

    lived(story)


def test_a_node_that_cannot_be_read_is_still_an_instance():
    async def story(cluster, provider):
        instance = await provider.launch(await made(cluster, claim()))
        key = Key("", instance.provider_id.removeprefix("kwok://"))
        with cluster.api.unchecked():
            cluster.api.patch(("", "Node"), key, Patch({"status": {"capacity": {"cpu": "many"}}}, subresource="status"))
        assert [each.provider_id for each in await provider.list()] == [instance.provider_id]

    lived(story)


def test_well_known_labels_are_the_derived_ones_and_those_of_offerings():
    provider = KwokProvider(None, realistic_catalog(), None)
    assert provider.well_known_labels == {
        "karpenter.kwok.sh/instance-size",
        "karpenter.kwok.sh/instance-family",
        "karpenter.kwok.sh/instance-cpu",
        "karpenter.kwok.sh/instance-memory",
        "karpenter.sh/capacity-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    }
    assert provider.name == "kwok"


def test_a_node_that_is_not_ready_is_tolerated_ten_minutes():
    statements = {
        (each.condition_type, each.status): each.toleration.total_seconds()
        for each in KwokProvider(None, CATALOG, None).repair_statements()
    }
    assert statements["Ready", "False"] == statements["Ready", "Unknown"] == 600


@pytest.mark.parametrize("condition", ["NetworkUnavailable", "DiskPressure", "MemoryPressure", "KernelDeadlock"])
def test_general_conditions_make_a_node_unhealthy(condition):
    statements = KwokProvider(None, CATALOG, None).repair_statements()
    assert [each.status for each in statements if each.condition_type == condition] == ["True"]


def test_what_is_avoided_is_unavailable_for_three_minutes_and_no_longer():
    async def story(cluster, provider):
        before = await provider.instance_types(None)
        provider.avoid("m5.large", "b", "spot")
        await asyncio.sleep(100)
        provider.avoid("m5.large", "b", "spot")  # another warning: the wait begins anew
        await asyncio.sleep(179)
        short = {
            (each.name, offering.zone, offering.capacity_type)
            for each in await provider.instance_types(None)
            for offering in each.offerings
            if not offering.available
        }
        assert short == {("m5.large", "b", "spot")}
        await asyncio.sleep(1)
        assert await provider.instance_types(None) == before

    lived(story)


def test_both_spellings_of_the_class_reference_are_supported():
    provider = KwokProvider(None, CATALOG, None)
    assert provider.supports(CLASS_REF)
    assert provider.supports(
        NodeClassRef(api_version="karpenter.kwok.sh/v1alpha1", kind="KWOKNodeClass", name="default")
    )
    assert not provider.supports(NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"))
