import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.kwok.claims import claim, instance_type, requirement
from dovetail.cloud.kwok.offering_selection import Availability, SelectedOffering, Shortage, find_cheapest
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, WELL_KNOWN, ZONE

ZONES = ("a", "b", "c")
CAPACITY_TYPES = ("spot", "on-demand")
PRICES = st.integers(1, 4).map(lambda price: price / 10)

offerings = st.dictionaries(st.tuples(st.sampled_from(ZONES), st.sampled_from(CAPACITY_TYPES)), PRICES, max_size=6)
catalogs = st.lists(offerings, min_size=1, max_size=5).map(
    lambda many: tuple(
        instance_type(f"t{at}.large", *((*place, price) for place, price in each.items()))
        for at, each in enumerate(many)
    )
)
wishes = st.lists(
    st.one_of(
        st.lists(st.sampled_from(ZONES), min_size=1, max_size=3).map(lambda zones: requirement(ZONE, *zones)),
        st.sampled_from(CAPACITY_TYPES).map(lambda capacity: requirement(CAPACITY_TYPE, capacity)),
        st.sampled_from(ZONES).map(lambda zone: requirement(ZONE, zone, operator="NotIn")),
        st.sampled_from(["t0.large", "t1.large"]).map(lambda name: requirement(INSTANCE_TYPE, name)),
    ),
    max_size=3,
)


def admits(wish, value):
    return (value in wish.values) is (wish.operator == "In")


def allowed(wanted, each, offering):
    values = {ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type, INSTANCE_TYPE: each.name}
    return offering.available and all(admits(wish, values[wish.key]) for wish in wanted)


@given(catalogs, wishes)
def test_the_cheapest_is_the_minimum_over_everything_the_claim_allows(catalog, wanted):
    possible = sorted(
        (offering.price, each.name, offering.zone, offering.capacity_type)
        for each in catalog
        for offering in each.offerings
        if allowed(wanted, each, offering)
    )
    found = find_cheapest(claim("c", *wanted), catalog, WELL_KNOWN)
    if isinstance(found, SelectedOffering):
        offering = found.offering
        assert (offering.price, found.instance_type.name, offering.zone, offering.capacity_type) == possible[0]
    else:
        assert not possible
        assert found


@given(catalogs, wishes, st.randoms())
def test_the_order_of_the_catalogue_does_not_matter(catalog, wanted, random):
    shuffled = list(catalog)
    random.shuffle(shuffled)
    one, other = (find_cheapest(claim("c", *wanted), each, WELL_KNOWN) for each in (catalog, shuffled))
    assert one == other


@given(catalogs, wishes)
def test_an_offering_with_a_shortage_is_not_selected_until_the_shortage_ends(catalog, wanted):
    availability, shortage = Availability(catalog), Shortage(zone="a", capacity_type="spot")
    availability.begin(shortage)
    found = find_cheapest(claim("c", *wanted), availability.catalog, WELL_KNOWN)
    assert isinstance(found, str) or (found.offering.zone, found.offering.capacity_type) != ("a", "spot")
    availability.end(shortage)
    assert availability.catalog == catalog


def test_a_shortage_marks_offerings_and_removes_none():
    availability = Availability((instance_type("t.large", ("a", "spot", 1.0), ("b", "spot", 2.0)),))
    availability.begin(Shortage(zone="a"))
    availability.begin(Shortage(instance_type="t.large", capacity_type="spot"))
    assert [offering.available for offering in availability.catalog[0].offerings] == [False, False]
    availability.end(Shortage(instance_type="t.large", capacity_type="spot"))
    assert [offering.available for offering in availability.catalog[0].offerings] == [False, True]


@pytest.mark.parametrize(
    ("wanted", "cpu", "says"),
    [
        ((requirement(ARCH, "arm64"),), "1", "no instance type meets the requirements"),
        ((), "4", "has enough allocatable resources"),
        ((requirement(ZONE, "a"), requirement(CAPACITY_TYPE, "on-demand")), "1", "has an available offering"),
    ],
)
def test_a_failed_selection_has_a_reason(wanted, cpu, says):
    catalog = [instance_type("t.large", ("a", "spot", 1.0), ("b", "on-demand", 1.0), cpu="4")]
    assert says in find_cheapest(claim("c", *wanted, cpu=cpu), catalog, WELL_KNOWN)
