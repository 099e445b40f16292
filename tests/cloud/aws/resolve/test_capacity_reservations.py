"""Nodes whose reserved capacity ends, over HTTP: relabeled as on-demand, or drained in time."""

from datetime import timedelta

import pytest

from cloud.aws.account import NOON
from cloud.aws.claims import RESERVED, asked_for, launched_as, requests, types
from dovetail.cloud.aws.interruption.status_checks import EndingCapacityBlocks, find_sources
from dovetail.cloud.aws.labels import RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.labels import CAPACITY_TYPE
from dovetail.model.node import Node
from dovetail.ports.cluster import Patch
from dovetail.ports.interruption import InterruptionKind
from dovetail.ports.metrics import NoMetrics

NODE_KEY = Key("", "node-1")
PLACE = {"availabilityZone": "us-east-1a", "instanceType": "m5.large", "state": "active", "availableInstanceCount": 2}
OPEN = {"capacityReservationId": "cr-1", "reservationType": "default"} | PLACE


def block(ends_at):
    told = {"capacityReservationId": "cr-1", "reservationType": "capacity-block"}
    return told | PLACE | {"endDate": ends_at.strftime("%Y-%m-%dT%H:%M:%S.000Z")}


@pytest.fixture
def reserved(live):
    """A scenario with a claim on a reservation and its node, as the lifecycle controller writes them."""

    def told(story, reservation=OPEN):
        async def main(account):
            account.proxy.reserves(reservation)
            await account.create(account.node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}]))
            await account.kept()
            asked = await asked_for(account, RESERVED, types("m5.large"))
            made = launched_as(asked, await account.provider.launch(asked))
            metadata = {"labels": dict(made.metadata.labels), "annotations": dict(made.metadata.annotations)}
            await account.world.patch(NODE_CLAIM, made.key, Patch({"metadata": metadata}))
            status = {"providerID": made.provider_id, "nodeName": NODE_KEY.name}
            claim = await account.world.patch(NODE_CLAIM, made.key, Patch({"status": status}, subresource="status"))
            labels = {**claim.metadata.labels, "team": "a"}
            await account.world.create(NODE, Node(metadata=ObjectMeta(name=NODE_KEY.name, labels=labels)))
            return await story(account, claim)

        return live(main)

    return told


async def said(account, claim):
    """The capacity type labels of node and claim."""
    found = [await account.world.get(NODE, NODE_KEY), await account.world.get(NODE_CLAIM, claim.key)]
    return [each.metadata.labels[CAPACITY_TYPE] for each in found]


def test_a_node_whose_reservation_ended_is_relabeled_as_on_demand(reserved):
    async def story(account, claim):
        await account.provider.list()
        await account.kept([claim])
        assert await said(account, claim) == ["reserved", "reserved"]
        account.proxy.fleets.reserved.clear()
        await account.provider.list()
        await account.kept([claim])
        assert await said(account, claim) == ["on-demand", "on-demand"]
        node = await account.world.get(NODE, NODE_KEY)
        assert not {RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE} & set(node.metadata.labels)
        assert node.metadata.labels["team"] == "a"
        account.proxy.calls.clear()
        claim = await account.world.get(NODE_CLAIM, claim.key)
        account.clock.pass_(seconds=30)
        await account.kept([claim])
        assert account.proxy.calls["DescribeInstances"] == 0  # that was all

    reserved(story)


def test_a_cached_instance_without_its_reservation_is_described_again(reserved):
    async def story(account, claim):
        drawn_on = account.proxy.fleets.reserved.copy()
        account.proxy.fleets.reserved.clear()
        await account.provider.list()
        account.proxy.fleets.reserved.update(drawn_on)
        await account.kept([claim])
        assert await said(account, claim) == ["reserved", "reserved"]

    reserved(story)


def test_a_claim_without_a_node_or_a_terminating_one_is_no_error(reserved):
    async def story(account, claim):
        account.proxy.fleets.reserved.clear()
        await account.provider.list()
        await account.world.delete(NODE, NODE_KEY)
        await account.kept([claim])
        again = await account.world.get(NODE_CLAIM, claim.key)
        assert again.metadata.labels[CAPACITY_TYPE] == "on-demand"

    reserved(story)


def test_an_ended_reservation_is_no_drift_of_an_instance_that_keeps_running(reserved):
    async def story(account, claim):
        assert await account.provider.drift(claim) == ""
        account.proxy.heal()
        account.proxy.reserves()
        account.proxy.fleets.reserved.clear()  # which the list of two minutes ago did not know
        account.clock.pass_(minutes=1)
        await account.kept()
        assert (await account.read()).status.capacity_reservations == ()
        assert await account.provider.drift(claim) == ""

    reserved(story)


def test_instances_of_a_capacity_block_are_reported_forty_minutes_before_its_end(reserved):
    ends_at = NOON + timedelta(hours=2)

    async def story(account, claim):
        parts = account.parts
        [request], [template] = requests(account), requests(account, "CreateLaunchTemplate")
        assert request["TargetCapacitySpecification.DefaultTargetCapacityType"] == "capacity-block"
        assert "OnDemandOptions.AllocationStrategy" not in request
        assert template["LaunchTemplateData.InstanceMarketOptions.MarketType"] == "capacity-block"
        assert any(isinstance(each, EndingCapacityBlocks) for each in find_sources(parts, NoMetrics()))
        blocks = EndingCapacityBlocks(parts.resolvers.reservations, parts.instances, account.clock, poll_seconds=0.0)
        account.clock.pass_(minutes=79)
        assert await blocks.receive() == []
        account.clock.pass_(minutes=1)
        [delivery] = await blocks.receive()
        assert delivery.interruption.kind is InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED
        assert delivery.interruption.instance_ids == (claim.provider_id.rpartition("/")[2],)
        assert delivery.interruption.at == ends_at - timedelta(minutes=30)  # EC2 takes them from then on
        await blocks.acknowledge([delivery])
        assert len(await blocks.receive()) == 1  # until it is gone
        await account.provider.terminate(claim)
        await account.provider.list()
        assert await blocks.receive() == []

    reserved(story, block(ends_at))


def test_a_capacity_block_that_ends_soon_takes_no_new_instances(reserved):
    async def story(account, _claim):
        account.clock.pass_(minutes=81)
        await account.kept()
        offered = [
            offering
            for each in await account.provider.types_of(await account.read())
            for offering in each.offerings
            if offering.capacity_type == "reserved"
        ]
        assert [offering.available for offering in offered] == [False]

    reserved(story, block(NOON + timedelta(hours=2)))
