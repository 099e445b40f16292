"""An instance type as EC2 describes it, reduced to what nodes are planned by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws.catalog.static_tables import UNKNOWN, InstanceTypeFacts
from dovetail.model.quantity import Quantity

Described = Mapping[str, Any]
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Device:
    """GPUs or accelerators of one kind. Memory is that of one of them."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int = 0
    cores: int = 0  # of one of them; only Neuron devices tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2InstanceType:
    """The shape of one instance type. Figures that EC2 does not tell are None or empty."""

    name: str
    architecture: str
    vcpus: int
    memory_mib: int
    bare_metal: bool
    hypervisor: str
    usage_classes: frozenset[str]
    interfaces: int  # of the default network card: the only one pods get addresses from
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
    seen_memory: Quantity | None = None  # what nodes of it turned out to have

    @property
    def family(self) -> str:
        """`m5` of `m5.large`."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        """`large` of `m5.large`."""
        return self.name.partition(".")[2]

    @property
    def exotic(self) -> bool:
        """Whether it is one of those nobody wants by accident: bare metal, GPUs, accelerators."""
        return self.bare_metal or bool(self.gpus) or bool(self.accelerators)


def read_machine(said: Described, facts: Mapping[str, InstanceTypeFacts]) -> Ec2InstanceType | None:
    """One entry of DescribeInstanceTypes; None if no node can be made of it."""
    name, processor, network = said["InstanceType"], said["ProcessorInfo"], said["NetworkInfo"]
    architectures = [_ARCHITECTURES[each] for each in processor["SupportedArchitectures"] if each in _ARCHITECTURES]
    if not architectures:
        return None
    clock = processor.get("SustainedClockSpeedInGhz")
    return Ec2InstanceType(
        name=name,
        architecture=architectures[0],
        vcpus=said["VCpuInfo"]["DefaultVCpus"],
        memory_mib=said["MemoryInfo"]["SizeInMiB"],
        bare_metal=said.get("BareMetal", False),
        hypervisor=said.get("Hypervisor", ""),
        usage_classes=frozenset(said.get("SupportedUsageClasses", ())),
        interfaces=_interfaces(network),
        addresses_per_interface=network["Ipv4AddressesPerInterface"],
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        cpu_manufacturer=processor.get("Manufacturer", "").lower(),
        clock_mhz=round(clock * 1000) if clock else None,
        ebs_mbps=_ebs_mbps(said.get("EbsInfo", {})),
        nvme_gb=_nvme_gb(said.get("InstanceStorageInfo", {})),
        gpus=_devices(said.get("GpuInfo", {}).get("Gpus", ())),
        accelerators=_accelerators(said),
        facts=facts.get(name, UNKNOWN),
    )


def _interfaces(network: Described) -> int:
    default = network.get("DefaultNetworkCardIndex", 0)
    cards = {card["NetworkCardIndex"]: card for card in network.get("NetworkCards", ())}
    return int(cards.get(default, network)["MaximumNetworkInterfaces"])


def _ebs_mbps(said: Described) -> int | None:
    if said.get("EbsOptimizedSupport") != "default":  # costs extra, so nobody has it without asking
        return None
    told: int | None = said.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps")
    return told


def _nvme_gb(said: Described) -> int | None:
    return said.get("TotalSizeInGB") if said.get("NvmeSupport", "unsupported") != "unsupported" else None


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


def _accelerators(said: Described) -> tuple[Device, ...]:
    neuron = _devices(said.get("NeuronInfo", {}).get("NeuronDevices", ()))
    return neuron or _devices(said.get("InferenceAcceleratorInfo", {}).get("Accelerators", ()))


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")
