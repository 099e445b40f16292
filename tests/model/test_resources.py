from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.resources import CPU, MEMORY, PODS, Quantity, add, fits, maximum, shortfall, subtract

LISTS = st.dictionaries(
    st.sampled_from([CPU, MEMORY, PODS, "nvidia.com/gpu"]), st.integers(-(10**12), 10**12).map(Quantity), max_size=4
)


def resources(**amounts):
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def test_sums_run_over_every_name():
    total = add(resources(cpu="1", memory="1Gi"), resources(cpu="500m"), resources(pods="1"))
    assert total == resources(cpu="1500m", memory="1Gi", pods="1")
    assert add() == {}


def test_differences_run_over_both_lists_and_may_be_negative():
    rest = subtract(resources(cpu="1"), resources(cpu="250m", memory="1Gi"))
    assert rest == resources(cpu="750m", memory="-1Gi")


def test_the_maximum_is_taken_name_by_name():
    assert maximum(resources(cpu="1", memory="1Gi"), resources(cpu="2", pods="3")) == resources(
        cpu="2", memory="1Gi", pods="3"
    )


def test_a_request_fits_up_to_exactly_what_is_free():
    free = resources(cpu="1", memory="1Gi")
    assert fits(resources(cpu="1000m", memory="1024Mi"), free)
    assert not fits(resources(cpu="1000000001n"), free)
    assert fits(resources(pods="0"), free)
    assert not fits(resources(pods="1"), free)


def test_nothing_fits_where_any_resource_is_overdrawn():
    free = resources(cpu="4", memory="-1")
    assert not fits(resources(cpu="1"), free)
    assert not fits({}, free)
    assert shortfall(resources(cpu="1"), free) == ("memory",)


def test_the_shortfall_names_what_does_not_fit_in_order():
    assert shortfall(resources(pods="1", cpu="2", memory="1"), resources(cpu="1", memory="1")) == ("cpu", "pods")


@given(LISTS, LISTS)
def test_a_request_fits_exactly_when_nothing_falls_short(request, free):
    assert fits(request, free) == (shortfall(request, free) == ())


@given(LISTS, LISTS)
def test_taking_away_what_was_added_gives_back_the_same_amounts(a, b):
    back = subtract(add(a, b), b)
    assert {name: amount for name, amount in back.items() if amount} == {
        name: amount for name, amount in a.items() if amount
    }
