"""Instances, over HTTP: described, listed and terminated in batches that include unknown ids."""

import asyncio

import pytest

from cloud.aws.account import NOON
from cloud.aws.claims import ON_DEMAND, SPOT, asked_for, launched_as, types
from dovetail.cloud.aws.clients import AwsError, Batched, BatchWindow, chunks
from dovetail.cloud.aws.instances import instance_id
from dovetail.model.nodeclaim import NodeClaim, NodeClaimStatus
from dovetail.ports.errors import InstanceNotFound
from dovetail.sim.virtual_loop import run

GONE = "aws:///us-east-1a/i-0123456789abcdef0"


@pytest.mark.parametrize(
    ("provider_id", "id_"),
    [
        ("aws:///us-east-1a/i-0abc", "i-0abc"),
        ("aws:///us-east-1a/", ""),
        ("aws:////i-0abc", ""),
        ("kwok://node", ""),
        ("i-0abc", ""),
        ("", ""),
    ],
)
def test_an_id_is_read_from_its_own_form_only(provider_id, id_):
    assert instance_id(provider_id) == id_


def test_instances_are_got_listed_and_ended_in_batches(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        provider = account.provider
        asked = [await asked_for(account, ON_DEMAND if n % 2 else SPOT, types("m5.large")) for n in range(6)]
        made = [launched_as(each, await provider.launch(each)) for each in asked]
        ids = [each.provider_id for each in made]
        account.proxy.calls.clear()

        got = await asyncio.gather(*(provider.get(id_) for id_ in ids))
        assert [each.provider_id for each in got] == ids
        assert {each.labels["karpenter.sh/capacity-type"] for each in got} == {"on-demand", "spot"}
        assert dict(account.proxy.calls) == {"DescribeInstances": 1}
        listed = await provider.list()
        assert {each.provider_id for each in listed} == set(ids)
        assert all(each.labels["karpenter.sh/nodepool"] == "default" for each in listed)
        assert all(each.launched_at is not None and each.launched_at.tzinfo is not None for each in listed)

        account.proxy.calls.clear()
        unknown = NodeClaim(status=NodeClaimStatus(provider_id=GONE))
        ended = await asyncio.gather(*(provider.terminate(each) for each in (*made, unknown)), return_exceptions=True)
        assert ended[:-1] == [None] * 6
        assert isinstance(ended[-1], InstanceNotFound)
        assert account.proxy.calls["TerminateInstances"] <= 2  # once with the unknown one, once without
        account.proxy.calls.clear()
        ended = await asyncio.gather(*(provider.terminate(each) for each in made), return_exceptions=True)
        assert all(isinstance(each, InstanceNotFound) for each in ended)
        assert dict(account.proxy.calls) == {"DescribeInstances": 1}
        assert await provider.list() == ()
        for id_ in (ids[0], GONE, "kwok://other", ""):
            with pytest.raises(InstanceNotFound):
                await provider.get(id_)

    live(story)


def test_what_is_not_ours_is_not_listed(live):
    async def story(account):
        strange = {"ImageId": account.images["x86_64"], "MinCount": 1, "MaxCount": 1, "InstanceType": "m5.large"}
        tags = [{"Key": "eks:eks-cluster-name", "Value": account.name}]
        await account.aws.call(
            "ec2", "run_instances", TagSpecifications=[{"ResourceType": "instance", "Tags": tags}], **strange
        )
        assert await account.provider.list() == ()

    live(story)


def test_a_stopped_instance_is_found_listed_and_ended(live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        provider = account.provider
        asked = await asked_for(account, ON_DEMAND, types("m5.large"))
        made = launched_as(asked, await provider.launch(asked))
        await account.aws.call("ec2", "stop_instances", InstanceIds=[instance_id(made.provider_id)])
        assert [each.provider_id for each in await provider.list()] == [made.provider_id]
        assert (await provider.get(made.provider_id)).provider_id == made.provider_id
        await provider.terminate(made)
        assert await provider.list() == ()

    live(story)


def test_what_cannot_be_listed_is_an_error_and_never_an_empty_list(live):
    async def story(account):
        account.proxy.refuse("DescribeInstances", "RequestLimitExceeded")
        with pytest.raises(AwsError):
            await account.provider.list()
        with pytest.raises(AwsError):
            await account.provider.get(GONE)
        account.proxy.refuse("TerminateInstances", "UnauthorizedOperation")
        with pytest.raises(AwsError):
            await account.provider.terminate(NodeClaim(status=NodeClaimStatus(provider_id=GONE)))

    live(story)


def batches(window, *arrivals):
    """The batches of keys requested at these times, and when each batch is sent."""
    sent = []

    async def story():
        loop = asyncio.get_running_loop()

        async def fetch(keys):
            sent.append((round(loop.time(), 3), sorted(keys)))
            return {key: key * 2 for key in keys}

        async def ask(at, key):
            await asyncio.sleep(at)
            return await batched.get(key)

        batched = Batched(fetch, window)
        answers = await asyncio.gather(*(ask(at, key) for at, key in arrivals))
        assert answers == [key * 2 for _, key in arrivals]

    run(story(), limit=100)
    return sent


def test_a_batch_is_sent_after_an_idle_time():
    assert batches(BatchWindow(0.1, 1.0, 10), (0, 1), (0.05, 2), (0.3, 3)) == [(0.15, [1, 2]), (0.4, [3])]


def test_no_key_waits_longer_than_the_maximum():
    arrivals = [(0.09 * n, n) for n in range(1, 14)]
    [(at, keys), *_] = batches(BatchWindow(0.1, 1.0, 100), *arrivals)
    assert at == 1.09
    assert keys == list(range(1, 13))


def test_a_full_batch_is_sent_at_once_and_each_key_once():
    assert batches(BatchWindow(0.1, 1.0, 2), (0, 1), (0, 1), (0, 2), (0.05, 3)) == [(0.0, [1, 2]), (0.15, [3])]


def test_a_failed_batch_fails_its_waiters_and_no_later_ones():
    async def story():
        fail = [True]

        async def fetch(keys):
            if fail.pop() if fail else False:
                raise AwsError("ec2.x", "Throttling", "")
            return dict.fromkeys(keys, NOON)

        batched = Batched(fetch)
        first = await asyncio.gather(batched.get(1), batched.get(2), return_exceptions=True)
        assert [type(each) for each in first] == [AwsError, AwsError]
        assert await batched.get(1) == NOON

    run(story(), limit=100)


def test_a_cancelled_waiter_does_not_cancel_the_others():
    async def story():
        async def fetch(keys):
            return dict.fromkeys(keys, 7)

        batched = Batched(fetch)
        leaving, staying = asyncio.create_task(batched.get(1)), asyncio.create_task(batched.get(1))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == 7
        assert await batched.get(1) == 7

    run(story(), limit=100)


def test_chunks_hold_everything_in_order():
    assert list(chunks(range(5), 2)) == [range(2), range(2, 4), range(4, 5)]


def test_an_idle_hour_and_an_end_cost_the_same_for_any_number_of_nodes(live):
    async def hour(account, claims):
        account.proxy.calls.clear()
        for _ in range(30):
            account.clock.pass_(minutes=2)
            await account.kept(claims)
            await account.provider.list()
            await asyncio.gather(*(account.provider.drift(claim) for claim in claims))
        return account.proxy.calls.copy()

    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        claims = []
        costs = []
        for more in (1, 19):
            asked = [await asked_for(account, ON_DEMAND, types("m5.large")) for _ in range(more)]
            made = await asyncio.gather(*(account.provider.launch(each) for each in asked))
            claims += [launched_as(*pair) for pair in zip(asked, made, strict=True)]
            costs.append(await hour(account, claims))
        often = [{name: n for name, n in cost.items() if name.startswith("Describe")} for cost in costs]
        assert often[0] == often[1]
        assert often[0]["DescribeInstances"] == 30
        assert abs(costs[0].total() - costs[1].total()) <= 2  # what is asked every quarter of an hour

    live(story)
