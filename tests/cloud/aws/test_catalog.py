"""The catalog, over HTTP: offerings by zone, prices, and temporary shortages."""

import asyncio

import pytest
from msgspec.structs import replace

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.catalog import keep_fresh
from dovetail.cloud.aws.catalog.ec2_instance_type import shipped_prices
from dovetail.cloud.aws.catalog.offerings import OfferingKey
from dovetail.cloud.aws.clients import AwsError
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.nodepool import NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassRef, NodePool, NodePoolSpec
from dovetail.model.repair import GENERAL
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import CloudError, NodeClassNotReady
from dovetail.sim.virtual_loop import run

REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
POOL = NodePool(
    metadata=ObjectMeta(name="default"),
    spec=NodePoolSpec(template=NodeClaimTemplate(spec=NodeClaimTemplateSpec(node_class_ref=REF))),
)


async def types(account):
    return {each.name: each for each in await account.provider.instance_types(POOL)}


def sold(instance_type):
    """The available offerings, as (capacity type, zone) with their price."""
    return {(each.capacity_type, each.zone[-1]): each.price for each in instance_type.offerings if each.available}


async def ready(account, **spec):
    await account.create(account.node_class(**spec))
    await account.kept()


def test_types_are_available_where_the_class_has_subnets(live):
    async def story(account):
        account.proxy.narrow = ()
        await ready(account)
        found = await types(account)
        assert len(found) > 1300
        m5 = found["m5.large"]
        shipped = shipped_prices("us-east-1")["m5.large"]
        assert sold(m5) == {(bought, zone): shipped for bought in ("on-demand", "spot") for zone in "ab"}
        assert {each.zone[-1] for each in m5.offerings} > {"a", "b"}  # elsewhere too, but not for this class
        assert m5.requirements.get(labels.ZONE_ID).values >= {"use1-az6", "use1-az1"}
        assert not sold(found["a1.large"])  # AL2023 does not start on the first Graviton
        assert not sold(found["p4d.24xlarge"])  # there is no image for GPUs
        assert sold(found["m6g.large"])
        assert account.provider.supports(REF)
        assert not account.provider.supports(NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="a"))

    live(story)


def test_prices_come_from_aws_and_stay_when_it_fails(live):
    async def story(account):
        await ready(account)
        await types(account)  # at the prices that are shipped
        account.proxy.sells({"m5.large": 0.5})
        prices = account.parts.prices
        await prices.refresh_on_demand()
        await prices.refresh_spot()
        found = await types(account)
        assert {price for (bought, _), price in sold(found["m5.large"]).items() if bought == "on-demand"} == {0.5}
        assert {price for (bought, _), price in sold(found["m5.large"]).items() if bought == "spot"} == {0.00001}
        assert sold(found["m5.xlarge"])["on-demand", "a"] == shipped_prices("us-east-1")["m5.xlarge"]
        account.proxy.refuse("GetProducts", "ThrottlingException")
        account.proxy.refuse("DescribeSpotPriceHistory", "RequestLimitExceeded", status=503)
        for refresh in (prices.refresh_on_demand, prices.refresh_spot):
            with pytest.raises(AwsError):
                await refresh()
        assert sold((await types(account))["m5.large"]) == sold(found["m5.large"])

    live(story)


def test_a_failed_refresh_backs_off_and_a_successful_one_repeats_twice_a_day():
    minutes, failures = [], 4

    async def refresh():
        minutes.append(round(asyncio.get_running_loop().time() / 60))
        if len(minutes) <= failures:
            raise AwsError("pricing.get_products", "AccessDeniedException", "no")

    async def story():
        asking = asyncio.create_task(keep_fresh("prices", refresh))
        await asyncio.sleep(25 * 3600)
        asking.cancel()
        await asyncio.wait([asking])

    run(story(), limit=26 * 3600)
    assert [minute - minutes[0] for minute in minutes] == [0, 1, 3, 7, 15, 15 + 720, 15 + 1440]


def test_the_provider_keeps_all_of_it_fresh(live):
    async def story(account):
        account.proxy.sells({"m5.large": 0.5})
        running = asyncio.create_task(account.provider.run())
        wanted = {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetProducts"}
        async with asyncio.timeout(30):
            while account.parts.prices.version < 2 or not wanted <= set(account.proxy.calls):  # noqa: ASYNC110 - sockets
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        assert account.parts.prices.on_demand("m5.large") == 0.5

    live(story)


def test_an_isolated_network_never_asks_for_prices(live):
    async def story(account):
        await account.parts.prices.refresh_on_demand()
        assert account.proxy.calls["GetProducts"] == 0

    live(story, isolated_vpc=True)


def test_what_ran_short_is_not_for_sale_for_three_minutes(live):
    async def story(account):
        await ready(account)
        account.provider.avoid("m5.large", "us-east-1a", "spot")
        short = await types(account)
        assert ("spot", "a") not in sold(short["m5.large"])
        assert {("spot", "b"), ("on-demand", "a")} <= set(sold(short["m5.large"]))
        assert ("spot", "a") in sold(short["m5.xlarge"])
        assert len(short["m5.large"].offerings) > 4  # unavailable, not gone
        account.clock.pass_(minutes=2, seconds=59)
        assert ("spot", "a") not in sold((await types(account))["m5.large"])
        account.clock.pass_(seconds=1)
        assert ("spot", "a") in sold((await types(account))["m5.large"])

    live(story)


def test_a_full_subnet_closes_its_zone_and_a_missing_role_all_spot(live):
    async def story(account):
        await ready(account)
        account.parts.unavailable.mark_subnet(account.subnets[0])
        assert {zone for _, zone in sold((await types(account))["m5.large"])} == {"b"}
        account.parts.unavailable.mark_all_spot()
        assert set(sold((await types(account))["m5.large"])) == {("on-demand", "b")}

    live(story)


def test_reserved_capacity_has_a_price_near_zero_while_it_lasts(live):
    async def story(account):
        place = {"capacityReservationId": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large"}
        more = {"state": "active", "availableInstanceCount": 2, "instanceMatchCriteria": "targeted"}
        account.proxy.reserves(place | more)
        await ready(account, capacityReservationSelectorTerms=[{"id": "cr-1"}])
        [resolved] = (await account.read()).status.capacity_reservations
        assert (resolved.id, resolved.instance_type, resolved.state) == ("cr-1", "m5.large", "active")
        m5 = (await types(account))["m5.large"]
        assert 0 < sold(m5)["reserved", "a"] < 0.000001
        assert m5.requirements.get(labels.RESERVATION_ID).values == {"cr-1"}
        account.parts.unavailable.mark(OfferingKey("reserved", "cr-1", "us-east-1a"))
        assert ("reserved", "a") not in sold((await types(account))["m5.large"])
        account.proxy.reserves(place | more | {"availableInstanceCount": 0})
        account.clock.pass_(minutes=5)
        assert ("reserved", "a") not in sold((await types(account))["m5.large"])

    live(story)


def test_kubelet_settings_of_a_v1beta1_pool_count_unless_the_class_has_its_own(live):
    async def story(account):
        await ready(account)
        template = replace(POOL.spec.template.spec, kubelet={"maxPods": 7})
        pool = replace(POOL, spec=replace(POOL.spec, template=replace(POOL.spec.template, spec=template)))
        for own, pods in ((None, 7), ({"maxPods": 9}, 9)):
            await account.world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"kubelet": own}}))
            found = {each.name: each for each in await account.provider.instance_types(pool)}
            assert found["m5.large"].capacity["pods"].units == pods

    live(story)


def test_the_same_question_is_answered_from_memory(live):
    async def story(account):
        await ready(account)
        first = await account.provider.instance_types(POOL)
        account.proxy.calls.clear()
        assert await account.provider.instance_types(POOL) is first
        assert account.proxy.calls.total() == 0

    live(story)


def test_without_a_class_or_without_aws_there_is_no_catalogue(live):
    async def story(account):
        errors = []
        for prepare in (None, ready):
            if prepare is not None:
                await prepare(account)
                account.proxy.refuse("DescribeInstanceTypes", "UnauthorizedOperation", status=403)
            try:
                await account.provider.instance_types(POOL)
            except CloudError as error:
                errors.append(error)
        assert isinstance(errors[0], NodeClassNotReady)
        assert errors[1].unauthorized
        account.proxy.heal()
        assert await account.provider.instance_types(POOL)

    live(story)


def test_unhealthy_is_what_the_kubelet_and_the_monitoring_agent_say(live):
    async def story(account):
        tolerated = {
            (each.condition_type, each.status): each.toleration.seconds for each in account.provider.repair_statements()
        }
        assert tolerated["Ready", "Unknown"] == 1800
        assert tolerated["AcceleratedHardwareReady", "False"] == 600
        assert tolerated["KernelDeadlock", "True"] == 600
        assert len(tolerated) == 7 + len(GENERAL)

    live(story)
