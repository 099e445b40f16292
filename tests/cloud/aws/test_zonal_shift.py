"""Zonal shifts, over HTTP: nothing is launched in a shifted zone until the shift ends."""

import pytest

from cloud.aws.claims import ON_DEMAND, asked_for, types, wants
from cloud.aws.proxy import json_reply
from dovetail.ports.errors import InsufficientCapacity

ZONE = "topology.kubernetes.io/zone"


async def shift(account, weights, status=200):
    """Let the zonal shift API return these weights by zone."""
    arn = (await account.parts.resolvers.cluster.facts()).arn
    assert arn.endswith(f"cluster/{account.name}")
    path = f"GET /managedresources/{arn}"
    account.proxy.on(path, lambda _asked: json_reply({"appliedWeights": weights, "zonalShifts": []}, status))
    return path


async def zones(account):
    """The zones with available offerings."""
    found = await account.provider.types_of(await account.read())
    return {offering.zone for each in found for offering in each.offerings if offering.available}


def test_a_shifted_zone_has_no_available_offerings_until_the_shift_ends(ready):
    async def story(account):
        first, second = sorted((await account.read()).status.subnets, key=lambda subnet: subnet.zone)
        await shift(account, {first.zone_id: 0.0, second.zone_id: 1.0})
        account.clock.pass_(seconds=30)  # the class was reconciled before
        assert await zones(account) == {second.zone}
        kept = await account.parts.nodeclass_reconciler.keep(await account.read(), ())
        assert kept.shifted_zones == {first.zone: first.zone_id}
        with pytest.raises(InsufficientCapacity):
            await account.provider.launch(await asked_for(account, ON_DEMAND, wants(ZONE, first.zone)))
        instance = await account.provider.launch(await asked_for(account, ON_DEMAND, types("m5.large")))
        assert instance.labels[ZONE] == second.zone
        await shift(account, {first.zone_id: 1.0, second.zone_id: 1.0})
        assert await zones(account) == {second.zone}  # it is asked for again after half a minute
        account.clock.pass_(seconds=30)
        assert await zones(account) == {first.zone, second.zone}

    ready(story, enable_zonal_shift=True)


def test_what_cannot_be_answered_leaves_things_as_they_were(ready):
    async def story(account):
        first, second = sorted((await account.read()).status.subnets, key=lambda subnet: subnet.zone)
        path = await shift(account, {"message": "not yet"}, 500)
        assert await zones(account) == {first.zone, second.zone}
        account.clock.pass_(seconds=30)
        await shift(account, {first.zone: 0.0})  # by name
        assert await zones(account) == {second.zone}
        account.clock.pass_(seconds=30)
        await shift(account, {}, 500)
        assert await zones(account) == {second.zone}
        account.proxy.calls.clear()
        for _ in range(20):
            await zones(account)
        assert account.proxy.calls[path] == 0  # a failure is not asked about again at once either

    ready(story, enable_zonal_shift=True)


def test_zonal_shifts_are_not_requested_unless_enabled(ready):
    async def story(account):
        path = await shift(account, {"us-east-1a": 0.0})
        assert await zones(account) == {"us-east-1a", "us-east-1b"}
        assert account.proxy.calls[path] == 0

    ready(story)
