"""The requests for selector terms, and the choice between several images."""

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.aws.account import NOON
from cloud.aws.proxy import product
from dovetail.cloud.aws.catalog.offerings import _pricing_region, _read_product
from dovetail.cloud.aws.resolve.amis import AliasedAmi, Ami, _best
from dovetail.cloud.aws.resolve.network import selector_requests
from dovetail.model.ec2nodeclass import SecurityGroupSelectorTerm as Term

FILTERS = {"id": "group-id", "name": "group-name"}


def filters(*terms):
    return [
        {each["Name"]: each["Values"] for each in request["Filters"]} for request in selector_requests(terms, FILTERS)
    ]


def test_ids_share_a_request_names_another_and_tags_have_one_each():
    terms = (Term(id="sg-2"), Term(tags={"b": "2", "a": "*"}), Term(name="n"), Term(id="sg-1"), Term(tags={"c": "3"}))
    assert filters(*terms) == [
        {"group-id": ["sg-1", "sg-2"]},
        {"group-name": ["n"]},
        {"tag-key": ["a"], "tag:b": ["2"]},
        {"tag:c": ["3"]},
    ]


def image(name, *, hours=0, deprecated=False, architecture="amd64"):
    wanted = AliasedAmi("", architecture).requirements
    return Ami(f"ami-{name}", name, NOON + timedelta(hours=hours), deprecated, wanted)


@pytest.mark.parametrize(
    ("images", "kept"),
    [
        ([image("old"), image("new", hours=1)], ["new"]),
        ([image("old"), image("new", hours=1, deprecated=True)], ["old"]),
        ([image("old", deprecated=True), image("new", hours=1, deprecated=True)], ["new"]),
        ([image("a"), image("b")], ["b"]),
        ([image("a"), image("b", hours=1, architecture="arm64")], ["b", "a"]),
    ],
)
def test_the_best_image_of_each_kind_is_kept_newest_first(images, kept):
    for order in itertools.permutations(images):
        assert [each.name for each in _best(order)] == kept


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans(), st.sampled_from(["amd64", "arm64"])))
)
def test_one_image_of_each_kind_is_kept_and_none_is_better(said):
    images = [image(name, hours=h, deprecated=d, architecture=a) for name, h, d, a in said]
    kept = _best(images)
    assert len(kept) == len({each.requirements for each in images})
    assert all(each.rank <= next(k for k in kept if k.requirements == each.requirements).rank for each in images)


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("us-west-2", "us-east-1"),
        ("eu-west-1", "eu-central-1"),
        ("ap-northeast-1", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("sa-east-1", "us-east-1"),
    ],
)
def test_prices_are_requested_from_a_region_with_a_pricing_endpoint(region, home):
    assert _pricing_region(region) == home


def test_a_product_that_costs_nothing_is_no_price():
    assert list(_read_product(product("m5.large", 0.096), "USD")) == [("m5.large", 0.096)]
    assert list(_read_product(product("m5.large", 0.0), "USD")) == []
    assert list(_read_product(product("m5.large", 0.096), "CNY")) == []


def test_a_capacity_block_near_its_end_takes_no_new_instances(live):
    async def story(account):
        place = {"capacityReservationId": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large"}
        more = {"state": "active", "availableInstanceCount": 2, "reservationType": "capacity-block"}
        account.proxy.reserves(place | more | {"endDate": (NOON + timedelta(hours=1)).isoformat()})
        node_class = await account.create(account.node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}]))
        terms = node_class.spec.capacity_reservation_selector_terms
        for minutes, state in ((0, "active"), (19, "active"), (1, "expiring")):
            account.clock.pass_(minutes=minutes)
            [found] = await account.parts.resolvers.reservations.find(terms)
            assert (found.resolved.state, found.available_count) == (state, 2)

    live(story)
