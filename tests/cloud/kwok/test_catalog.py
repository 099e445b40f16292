import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cloud.kwok.catalog import (
    CATALOGS,
    ZONES,
    InstanceTypesInvalid,
    generic_catalog,
    load_instance_types,
    realistic_catalog,
    select_catalog,
)
from dovetail.model.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE


def spelled(instance_type):
    """An instance type in the format of an instance types file."""
    labels = instance_type.requirements.labels()
    return {
        "name": instance_type.name,
        "architecture": labels[ARCH],
        "operatingSystems": sorted(instance_type.requirements.get("kubernetes.io/os").values),
        "resources": {name: str(amount) for name, amount in instance_type.capacity.items()},
        "offerings": [
            {"Price": each.price, "Available": each.available, "Requirements": each.requirements.to_wire()}
            for each in instance_type.offerings
        ],
    }


def written(*entries):
    return json.dumps(entries).encode()


def entry(**changes):
    whole = {
        "name": "m5.large",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "8Gi"},
        "offerings": [
            {
                "Price": 0.1,
                "Available": True,
                "Requirements": [
                    {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
                    {"key": ZONE, "operator": "In", "values": ["a"]},
                ],
            }
        ],
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


@pytest.mark.parametrize("name", CATALOGS)
def test_a_shipped_catalogue_survives_the_file_format(name):
    catalog = CATALOGS[name]()
    assert load_instance_types(written(*map(spelled, catalog))) == catalog
    assert len({each.name for each in catalog}) == len(catalog)


def test_the_generic_catalogue_has_karpenters_names_sizes_and_prices():
    catalog = {each.name: each for each in generic_catalog()}
    assert len(catalog) == 144
    small = catalog["c-1x-amd64-linux"]
    assert {name: str(amount) for name, amount in small.capacity.items()} == {
        "cpu": "1",
        "memory": "2Gi",
        "pods": "16",
        "ephemeral-storage": "20Gi",
    }
    assert sorted({each.price for each in small.offerings}) == pytest.approx([0.0190032385536, 0.027147483648])
    assert {each.zone for each in small.offerings} == {f"test-zone-{letter}" for letter in "abcd"}
    assert str(catalog["m-256x-arm64-windows"].capacity["pods"]) == "1024"


def test_the_realistic_catalogue_covers_families_architectures_and_gpus():
    catalog = {each.name: each for each in realistic_catalog()}
    assert 120 <= len(catalog) <= 200
    assert {each.requirements.labels()[ARCH] for each in catalog.values()} == {"amd64", "arm64"}
    assert str(catalog["g5.12xlarge"].capacity["nvidia.com/gpu"]) == "4"
    assert {name[0] for name in catalog} == set("cgmrt")


def by_place(instance_type):
    return {(each.zone, each.capacity_type): each.price for each in instance_type.offerings}


def test_spot_is_60_to_75_percent_off_and_differs_by_zone():
    spread = 0
    for instance_type in realistic_catalog():
        prices = by_place(instance_type)
        on_demand = prices[ZONES[0], ON_DEMAND]
        spot = [price for (_, capacity_type), price in prices.items() if capacity_type == SPOT]
        assert all(0.249 < price / on_demand < 0.401 for price in spot)
        spread += len(set(spot)) > 1
    assert spread > 0.9 * len(realistic_catalog())


def test_some_offerings_are_missing_but_every_type_can_be_had_on_demand():
    places = [set(by_place(each)) for each in realistic_catalog()]
    assert all((ZONES[0], ON_DEMAND) in each for each in places)
    missing = sum(6 - len(each) for each in places)
    assert 0.02 < missing / (6 * len(places)) < 0.08


def test_the_older_spelling_of_offerings_is_understood():
    older = [{"capacityType": "spot", "zone": "a", "price": 0.1, "available": True}]
    assert load_instance_types(written(entry(offerings=older))) == load_instance_types(written(entry()))


def test_offerings_are_available_unless_marked_otherwise():
    offerings = [
        {"price": 1, "zone": "a", "capacityType": "spot"},
        {"price": 1, "zone": "b", "capacityType": "spot", "Available": False},
    ]
    (loaded,) = load_instance_types(written(entry(offerings=offerings)))
    assert [each.available for each in loaded.offerings] == [True, False]


def test_every_fault_of_a_file_is_reported_at_once_with_place_and_remedy():
    bad_offerings = [
        {"Price": -1, "Requirements": [{"key": ZONE, "operator": "In", "values": ["a"]}]},
        {"Price": 1, "Requirements": [{"key": ZONE, "operator": "Near", "values": ["a"]}]},
        {"Price": 1, "capacityType": "cheap", "zone": "a"},
        7,
    ]
    bad = [
        entry(),
        entry(architecture=None, operatingSystems=[]),
        entry(name="has space", resources={"cpu": "two", "memory": "-1Gi"}),
        entry(name="ok", resources={}, offerings=[]),
        entry(name="ok2", offerings=bad_offerings),
        entry(name="ok3", offerings=entry()["offerings"] * 2),
        "nonsense",
    ]
    with pytest.raises(InstanceTypesInvalid) as caught:
        load_instance_types(written(*bad))
    faults = {fault.path for fault in caught.value.faults}
    assert faults == {
        "[1].name",
        "[1].architecture",
        "[1].operatingSystems",
        "[2].name",
        "[2].resources.cpu",
        "[2].resources.memory",
        "[3].resources.cpu",
        "[3].resources.memory",
        "[3].offerings",
        "[4].offerings[0].Price",
        "[4].offerings[0].Requirements",
        "[4].offerings[1].Requirements[0]",
        "[4].offerings[1].Requirements",
        "[4].offerings[2].capacityType",
        "[4].offerings[3]",
        "[5].offerings[1]",
        "[6]",
    }
    assert all(fault.remedy or ";" in fault.problem for fault in caught.value.faults)
    assert "[4].offerings[0].Price: is missing or not a price (got -1)" in str(caught.value)


@pytest.mark.parametrize("contents", [b"", b"{", b"{}", b"[]", b"[NaN]", b"\xff"])
def test_a_file_that_holds_no_list_is_refused(contents):
    with pytest.raises(InstanceTypesInvalid):
        load_instance_types(contents)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InstanceTypesInvalid, match="cannot be read"):
        load_instance_types(tmp_path / "missing.json")


def test_a_file_is_read_from_its_path(tmp_path):
    path = tmp_path / "types.json"
    path.write_bytes(written(entry()))
    assert [each.name for each in load_instance_types(path)] == ["m5.large"]
    assert select_catalog("realistic", str(path)) == load_instance_types(path)
    assert select_catalog("generic") == generic_catalog()


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(entry())), json_values, min_size=1))
def test_any_entry_is_read_or_refused_with_faults(changes):
    try:
        assert load_instance_types(written(entry(**changes)))
    except InstanceTypesInvalid as error:
        assert error.faults  # noqa: PT017 - either outcome is right


@given(json_values)
def test_any_offering_is_read_or_refused_with_faults(offering):
    try:
        assert load_instance_types(written(entry(offerings=[offering])))
    except InstanceTypesInvalid as error:
        assert error.faults  # noqa: PT017 - either outcome is right
