"""An EC2 instance type: parsed from DescribeInstanceTypes, completed from shipped tables, converted to requirements.

`facts.json.gz` has what the API does not return: the baseline network bandwidth and the number of branch interfaces
that a trunk supports. `prices.json.gz` has on-demand prices by region for when the pricing API is not available;
`update_price_table` rewrites it.

`requirements_of` gives every well-known label as a requirement; a label that the type lacks is `DoesNotExist`, so that
a NodePool that requires it does not match.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape
from dovetail.model.labels import ARCH, INSTANCE_TYPE, NODEPOOL, OS, REGION, WELL_KNOWN, WINDOWS_BUILD
from dovetail.model.requirements import DOES_NOT_EXIST, IN, Requirement
from dovetail.model.resources import Quantity

FALLBACK_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class InstanceTypeFacts:
    """What AWS publishes about an instance type outside the API; None if unknown."""

    network_mbps: int | None = None
    branch_interfaces: int | None = None


UNKNOWN = InstanceTypeFacts()


@cache
def facts_by_type() -> Mapping[str, InstanceTypeFacts]:
    """The facts by instance type."""
    return {
        name: InstanceTypeFacts(described.get("mbps"), described.get("branches"))
        for name, described in _table("facts.json.gz").items()
    }


def shipped_prices(region: str) -> Mapping[str, float]:
    """On-demand prices per hour by instance type; those of us-east-1 if the table lacks the region."""
    table = _table("prices.json.gz")
    prices: Mapping[str, float] = table.get(region) or table[FALLBACK_REGION]
    return prices


@cache
def _table(name: str) -> dict[str, Any]:
    packed = resources.files("dovetail.cloud.aws.catalog").joinpath(name).read_bytes()
    table: dict[str, Any] = json.loads(gzip.decompress(packed))
    return table


Description = Mapping[str, Any]
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Device:
    """GPUs or accelerators of one model. `memory_mib` is per device."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int = 0
    cores: int = 0  # per device; only Neuron devices report it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2InstanceType:
    """The properties of one instance type. Values that EC2 does not report are None or empty."""

    name: str
    architecture: str
    vcpus: int
    memory_mib: int
    bare_metal: bool
    hypervisor: str
    usage_classes: frozenset[str]
    interfaces: int  # of the default network card; pods get addresses from no other
    addresses_per_interface: int
    efa_interfaces: int
    encryption_in_transit: bool
    cpu_manufacturer: str
    clock_mhz: int | None
    ebs_mbps: int | None
    nvme_gb: int | None
    gpus: tuple[Device, ...] = ()
    accelerators: tuple[Device, ...] = ()
    facts: InstanceTypeFacts = UNKNOWN
    observed_memory: Quantity | None = None  # the memory that registered nodes of this type have

    @property
    def family(self) -> str:
        """`m5` of `m5.large`."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        """`large` of `m5.large`."""
        return self.name.partition(".")[2]


def parse_instance_type(described: Description, facts: Mapping[str, InstanceTypeFacts]) -> Ec2InstanceType | None:
    """Parse one entry of DescribeInstanceTypes; None if its architecture is not supported."""
    name, processor, network = described["InstanceType"], described["ProcessorInfo"], described["NetworkInfo"]
    architectures = [_ARCHITECTURES[each] for each in processor["SupportedArchitectures"] if each in _ARCHITECTURES]
    if not architectures:
        return None
    clock = processor.get("SustainedClockSpeedInGhz")
    return Ec2InstanceType(
        name=name,
        architecture=architectures[0],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_mib=described["MemoryInfo"]["SizeInMiB"],
        bare_metal=described.get("BareMetal", False),
        hypervisor=described.get("Hypervisor", ""),
        usage_classes=frozenset(described.get("SupportedUsageClasses", ())),
        interfaces=_interfaces(network),
        addresses_per_interface=network["Ipv4AddressesPerInterface"],
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        cpu_manufacturer=processor.get("Manufacturer", "").lower(),
        clock_mhz=round(clock * 1000) if clock else None,
        ebs_mbps=_ebs_mbps(described.get("EbsInfo", {})),
        nvme_gb=_nvme_gb(described.get("InstanceStorageInfo", {})),
        gpus=_devices(described.get("GpuInfo", {}).get("Gpus", ())),
        accelerators=_accelerators(described),
        facts=facts.get(name, UNKNOWN),
    )


def _interfaces(network: Description) -> int:
    default = network.get("DefaultNetworkCardIndex", 0)
    cards = {card["NetworkCardIndex"]: card for card in network.get("NetworkCards", ())}
    return int(cards.get(default, network)["MaximumNetworkInterfaces"])


def _ebs_mbps(described: Description) -> int | None:
    if described.get("EbsOptimizedSupport") != "default":  # optional EBS optimization costs extra and is off
        return None
    bandwidth: int | None = described.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps")
    return bandwidth


def _nvme_gb(described: Description) -> int | None:
    return described.get("TotalSizeInGB") if described.get("NvmeSupport", "unsupported") != "unsupported" else None


def _devices(listed: Any) -> tuple[Device, ...]:
    return tuple(
        Device(
            _kebab(each.get("Name", "")),
            _kebab(each.get("Manufacturer", "aws")),
            each.get("LogicalGpuCount") or each.get("Count", 0),
            each.get("MemoryInfo", {}).get("SizeInMiB", 0),
            each.get("CoreInfo", {}).get("Count", 0),
        )
        for each in listed
    )


def _accelerators(described: Description) -> tuple[Device, ...]:
    neuron = _devices(described.get("NeuronInfo", {}).get("NeuronDevices", ()))
    return neuron or _devices(described.get("InferenceAcceleratorInfo", {}).get("Accelerators", ()))


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")


WINDOWS_BUILDS = {"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}
TENANCIES = ("default", "dedicated")
_NAME = re.compile(r"(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+)")


def requirements_of(ec2_type: Ec2InstanceType, shape: NodeClassShape, region: str) -> tuple[Requirement, ...]:
    """The labels of the instance type as requirements, apart from those that its offerings set."""
    values = {**_system_labels(ec2_type, shape, region), **_hardware_labels(ec2_type), **_device_labels(ec2_type)}
    named = {key: (value,) for key, value in values.items() if value}
    known = [Requirement.of(key, IN, listed) for key, listed in named.items()]
    known.append(Requirement.of(labels.INSTANCE_TENANCY, IN, TENANCIES))
    return (*known, *absent_labels(each.key for each in known))


def absent_labels(present: Iterable[str]) -> Iterator[Requirement]:
    """`DoesNotExist` for every well-known label not in `present`, except the pool and labels set by offerings."""
    missing = (WELL_KNOWN - {NODEPOOL} | labels.INSTANCE_LABELS) - set(present)
    for key in sorted(missing):
        if key not in _SET_BY_OFFERINGS:
            yield Requirement.of(key, DOES_NOT_EXIST)


_SET_BY_OFFERINGS = frozenset({"topology.kubernetes.io/zone", "karpenter.sh/capacity-type"})


def _system_labels(ec2_type: Ec2InstanceType, shape: NodeClassShape, region: str) -> dict[str, str]:
    return {
        INSTANCE_TYPE: ec2_type.name,
        ARCH: ec2_type.architecture,
        OS: "windows" if shape.windows else "linux",
        WINDOWS_BUILD: WINDOWS_BUILDS.get(shape.family, ""),
        REGION: region,
    }


def _hardware_labels(ec2_type: Ec2InstanceType) -> dict[str, str]:
    name = _NAME.match(ec2_type.name)
    return {
        labels.INSTANCE_CATEGORY: name["category"] if name else "",
        labels.INSTANCE_GENERATION: name["generation"] if name else "",
        labels.INSTANCE_FAMILY: ec2_type.family,
        labels.INSTANCE_SIZE: ec2_type.size,
        labels.INSTANCE_CPU: str(ec2_type.vcpus),
        labels.INSTANCE_CPU_MANUFACTURER: ec2_type.cpu_manufacturer,
        labels.INSTANCE_CPU_CLOCK: _number(ec2_type.clock_mhz),
        labels.INSTANCE_MEMORY: str(ec2_type.memory_mib),
        labels.INSTANCE_EBS_BANDWIDTH: _number(ec2_type.ebs_mbps),
        labels.INSTANCE_NETWORK_BANDWIDTH: _number(ec2_type.facts.network_mbps),
        labels.INSTANCE_LOCAL_NVME: _number(ec2_type.nvme_gb),
        labels.INSTANCE_HYPERVISOR: ec2_type.hypervisor,
        labels.INSTANCE_ENCRYPTION_IN_TRANSIT: str(ec2_type.encryption_in_transit).lower(),
        labels.INSTANCE_FLEX: str("-flex" in ec2_type.family).lower(),
    }


def _device_labels(ec2_type: Ec2InstanceType) -> dict[str, str]:
    described: dict[str, str] = {}
    if ec2_type.gpus:
        gpu = ec2_type.gpus[0]
        described |= {
            labels.INSTANCE_GPU_NAME: gpu.name,
            labels.INSTANCE_GPU_MANUFACTURER: gpu.manufacturer,
            labels.INSTANCE_GPU_COUNT: str(_total(ec2_type.gpus)),
            labels.INSTANCE_GPU_MEMORY: str(gpu.memory_mib),
        }
    if ec2_type.accelerators:
        accelerator = ec2_type.accelerators[0]
        described |= {
            labels.INSTANCE_ACCELERATOR_NAME: accelerator.name,
            labels.INSTANCE_ACCELERATOR_MANUFACTURER: accelerator.manufacturer,
            labels.INSTANCE_ACCELERATOR_COUNT: str(_total(ec2_type.accelerators)),
        }
    return described


def _total(devices: tuple[Device, ...]) -> int:
    return sum(each.count for each in devices)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
