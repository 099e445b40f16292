"""Capacity and overhead of nodes, compared with what Karpenter publishes for every type, and edge cases."""

import csv
import gzip
import json
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.capacity import Margins, capacity_of, overhead_of
from dovetail.cloud.aws.catalog.ec2_instance_type import facts_by_type, parse_instance_type, requirements_of
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape, shape_of
from dovetail.manifest.validation import read
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL, WELL_KNOWN, ZONE
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Quantity
from manifest.ec2nodeclass_corpus import ec2_class

PUBLISHED = Path(__file__).parents[3] / "data" / "ec2_allocatable.csv.gz"
TWO_CARDS = {"i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl"}
"""Published before EC2 distinguished their network cards."""


@cache
def described():
    packed = resources.files("moto.ec2.resources").joinpath("instance_types.json.gz").read_bytes()
    return json.loads(gzip.decompress(packed))


def ec2_type(name):
    return parse_instance_type(described()[name], facts_by_type())


def allocatable(name, shape=NodeClassShape(family="AL2023"), margins=Margins()):  # noqa: B008 - frozen values
    it = ec2_type(name)
    made = InstanceType(name, Requirements({}), (), capacity_of(it, shape, margins), overhead_of(it, shape, margins))
    return made.allocatable


def shape(**spec):
    """The shape of a class with this spec."""
    _, value = read(ec2_class(**spec))
    return shape_of(value.spec)


def test_every_type_has_exactly_the_room_that_is_published():
    with gzip.open(PUBLISHED, "rt", encoding="utf-8") as table:
        published = {row.pop("type"): row for row in csv.DictReader(table)}
    known = [name for name in published if name in described()]
    differing = {
        name
        for name in known
        if any(allocatable(name)[resource] != Quantity.parse(amount) for resource, amount in published[name].items())
    }
    assert differing == TWO_CARDS
    assert len(known) >= 1358


def amounts(room, *names):
    return tuple(str(room[name]) for name in names)


def _interface(device, kind):
    return {"networkCardIndex": 0, "deviceIndex": device, "interfaceType": kind}


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, "29"),
        ({"kubelet": {"maxPods": 110}}, "110"),
        ({"kubelet": {"podsPerCore": 10}}, "20"),
        ({"kubelet": {"maxPods": 15, "podsPerCore": 10}}, "15"),
        ({"kubelet": {"podsPerCore": 0}}, "29"),
        ({"kubelet": {"podsPerCore": 10}, "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, "29"),
        ({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}, "110"),
        ({"networkInterfaces": [_interface(0, "interface"), _interface(1, "efa-only")]}, "20"),
    ],
)
def test_pods_of_an_m5_large(spec, pods):
    assert str(allocatable("m5.large", shape(**spec))["pods"]) == pods


@pytest.mark.parametrize(("reserved", "pods"), [(0, "29"), (1, "20"), (3, "0"), (9, "0")])
def test_reserved_interfaces_take_pods_away(reserved, pods):
    assert str(allocatable("m5.large", margins=Margins(reserved_interfaces=reserved))["pods"]) == pods


def test_more_pods_than_addresses_reserve_no_more_memory_where_the_network_decides():
    many = {"kubelet": {"maxPods": 110}}
    assert allocatable("m5.large", shape(**many))["memory"] == allocatable("m5.large")["memory"]
    rocket = shape(**many, amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
    assert allocatable("m5.large", rocket)["memory"] < allocatable("m5.large")["memory"]


@pytest.mark.parametrize(
    ("kubelet", "cpu", "memory"),
    [
        ({}, "1930m", "6903Mi"),
        ({"kubeReserved": {"cpu": "200m"}}, "1800m", "6903Mi"),
        ({"systemReserved": {"cpu": "100m", "memory": "100Mi"}}, "1830m", "6803Mi"),
        ({"evictionHard": {"memory.available": "500Mi"}}, "1930m", "6503Mi"),
        ({"evictionHard": {"memory.available": "100%"}}, "1930m", "7003Mi"),
    ],
)
def test_what_the_class_reserves(kubelet, cpu, memory):
    room = allocatable("m5.large", shape(kubelet=kubelet))
    assert (room["cpu"], room["memory"]) == (Quantity.parse(cpu), Quantity.parse(memory))


def test_an_eviction_threshold_in_percent_is_one_of_the_capacity():
    """5 % of 7577Mi, rounded up to a byte."""
    room = allocatable("m5.large", shape(kubelet={"evictionHard": {"memory.available": "5%"}}))
    capacity = 7577 * 1024 * 1024
    kept = -(-capacity * 5 // 100) + (11 * 29 + 255) * 1024 * 1024
    assert room["memory"].units == capacity - kept


@pytest.mark.parametrize(
    ("name", "spec", "storage"),
    [
        ("m5.large", {}, "20Gi"),
        ("m5d.large", {}, "20Gi"),
        ("m5d.large", {"instanceStorePolicy": "RAID0"}, "75G"),
        ("m5.large", {"instanceStorePolicy": "RAID0"}, "20Gi"),
        ("m5.large", {"amiSelectorTerms": [{"alias": "windows2022@latest"}]}, "50Gi"),
    ],
)
def test_ephemeral_storage_is_the_disk_the_kubelet_uses(name, spec, storage):
    assert capacity_of(ec2_type(name), shape(**spec), Margins())["ephemeral-storage"] == Quantity.parse(storage)


def test_ephemeral_storage_is_the_volume_of_the_family_unless_another_is_marked():
    volumes = [
        {"deviceName": device, "ebs": {"volumeSize": size}}
        for device, size in (("/dev/xvda", "4Gi"), ("/dev/xvdb", "99Gi"))
    ]
    marked = [{**volumes[0], "rootVolume": True}, volumes[1]]
    rocket = [{"alias": "bottlerocket@latest"}]
    assert str(shape(blockDeviceMappings=volumes).volume) == "4Gi"
    assert str(shape(blockDeviceMappings=volumes, amiSelectorTerms=rocket).volume) == "99Gi"
    assert str(shape(blockDeviceMappings=marked, amiSelectorTerms=rocket).volume) == "4Gi"


@pytest.mark.parametrize(
    ("name", "resource", "amount"),
    [
        ("p4d.24xlarge", labels.NVIDIA_GPU, 8),
        ("p4d.24xlarge", labels.EFA, 4),
        ("inf2.24xlarge", labels.NEURON, 6),
        ("inf2.24xlarge", labels.NEURON_CORE, 12),
        ("m5.large", labels.POD_ENI, 9),
    ],
)
def test_devices_are_counted(name, resource, amount):
    assert capacity_of(ec2_type(name), NodeClassShape(family="AL2023"), Margins())[resource] == Quantity.of(amount)


def test_an_instance_type_without_a_device_lacks_its_labels():
    assert labels.NVIDIA_GPU not in capacity_of(ec2_type("m5.large"), NodeClassShape(family="AL2023"), Margins())


def labels_of(name, family="AL2023"):
    return Requirements.of(requirements_of(ec2_type(name), NodeClassShape(family=family), "us-east-1"))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("m5.large", {"category": "m", "generation": "5", "family": "m5", "size": "large", "memory": "8192"}),
        ("c7i-flex.large", {"category": "c", "generation": "7", "family": "c7i-flex", "capability-flex": "true"}),
        ("inf2.24xlarge", {"category": "inf", "generation": "2", "accelerator-name": "inferentia2"}),
        ("g5.xlarge", {"gpu-name": "a10g", "gpu-manufacturer": "nvidia", "gpu-count": "1", "local-nvme": "250"}),
        ("m6g.medium", {"cpu-manufacturer": "aws", "network-bandwidth": "500", "hypervisor": "nitro"}),
    ],
)
def test_labels_describe_the_instance_type(name, wanted):
    said = labels_of(name).labels()
    assert {key: said[f"karpenter.k8s.aws/instance-{key}"] for key in wanted} == wanted


def test_every_well_known_label_is_spoken_of_unless_offerings_settle_it():
    spoken_of = set(labels_of("m5.large"))
    assert spoken_of == (WELL_KNOWN | labels.INSTANCE_LABELS) - {NODEPOOL, ZONE, CAPACITY_TYPE}
    assert labels_of("m5.large").get(labels.INSTANCE_GPU_COUNT).is_empty


def test_windows_nodes_say_so():
    said = labels_of("m5.large", "Windows2022").labels()
    assert (said["kubernetes.io/os"], said["node.kubernetes.io/windows-build"]) == ("windows", "10.0.20348")
