"""The labels a node of an instance type will carry, as requirements: every well-known one, absent ones included."""

import re
from collections.abc import Iterable, Iterator

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.ec2_instance_type import Device, Ec2InstanceType
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape
from dovetail.model.labels import ARCH, INSTANCE_TYPE, NODEPOOL, OS, REGION, WELL_KNOWN, WINDOWS_BUILD
from dovetail.model.requirement import DOES_NOT_EXIST, IN, Requirement

WINDOWS_BUILDS = {"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}
TENANCIES = ("default", "dedicated")
_NAME = re.compile(r"(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+)")


def requirements_of(ec2_type: Ec2InstanceType, shape: NodeClassShape, region: str) -> tuple[Requirement, ...]:
    """What the machine is, apart from what its offerings say."""
    values = {**_system(ec2_type, shape, region), **_figures(ec2_type), **_devices(ec2_type)}
    named = {key: (value,) for key, value in values.items() if value}
    known = [Requirement.of(key, IN, listed) for key, listed in named.items()]
    known.append(Requirement.of(labels.INSTANCE_TENANCY, IN, TENANCIES))
    return (*known, *absent(each.key for each in known))


def absent(spoken_of: Iterable[str]) -> Iterator[Requirement]:
    """Labels a machine does not have. Those its offerings settle, and the pool, are left to others."""
    mine = (WELL_KNOWN - {NODEPOOL} | labels.INSTANCE_LABELS) - set(spoken_of)
    for key in sorted(mine):
        if key not in _SETTLED_BY_OFFERINGS:
            yield Requirement.of(key, DOES_NOT_EXIST)


_SETTLED_BY_OFFERINGS = frozenset({"topology.kubernetes.io/zone", "karpenter.sh/capacity-type"})


def _system(ec2_type: Ec2InstanceType, shape: NodeClassShape, region: str) -> dict[str, str]:
    return {
        INSTANCE_TYPE: ec2_type.name,
        ARCH: ec2_type.architecture,
        OS: "windows" if shape.windows else "linux",
        WINDOWS_BUILD: WINDOWS_BUILDS.get(shape.family, ""),
        REGION: region,
    }


def _figures(ec2_type: Ec2InstanceType) -> dict[str, str]:
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


def _devices(ec2_type: Ec2InstanceType) -> dict[str, str]:
    said: dict[str, str] = {}
    if ec2_type.gpus:
        gpu = ec2_type.gpus[0]
        said |= {
            labels.INSTANCE_GPU_NAME: gpu.name,
            labels.INSTANCE_GPU_MANUFACTURER: gpu.manufacturer,
            labels.INSTANCE_GPU_COUNT: str(_total(ec2_type.gpus)),
            labels.INSTANCE_GPU_MEMORY: str(gpu.memory_mib),
        }
    if ec2_type.accelerators:
        accelerator = ec2_type.accelerators[0]
        said |= {
            labels.INSTANCE_ACCELERATOR_NAME: accelerator.name,
            labels.INSTANCE_ACCELERATOR_MANUFACTURER: accelerator.manufacturer,
            labels.INSTANCE_ACCELERATOR_COUNT: str(_total(ec2_type.accelerators)),
        }
    return said


def _total(devices: tuple[Device, ...]) -> int:
    return sum(each.count for each in devices)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
