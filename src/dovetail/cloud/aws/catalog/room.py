"""How much room a node of an instance type has: its capacity, and what the system keeps of it.

Pods are limited by the addresses of the default network card; memory is less than advertised, because the hypervisor
and the firmware keep some; kube-reserved grows with cores and pods. All of it is Karpenter's arithmetic, to the MiB.
"""

from dataclasses import dataclass
from math import ceil

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.machine import Machine
from dovetail.cloud.aws.catalog.shape import Shape, beyond, reserved
from dovetail.model.quantity import Quantity
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, add

_MI = 1 << 20
_NANO = 1_000_000_000
_GRAVITON_FIRMWARE_MIB = 64
_WINDOWS_PODS = 110
_EVICTION_MEMORY = Quantity.parse("100Mi")
_EVICTION_DISK = 0.1
_ENI_LIMITED = ("AL2", "AL2023", "Custom")
"""Families whose bootstrap reserves memory by the pods the network allows, whatever maxPods says."""


@dataclass(frozen=True, slots=True)
class Margins:
    """What the operator says about every node."""

    memory_overhead: float = 0.075  # share of the advertised memory that never reaches the operating system
    reserved_interfaces: int = 0  # taken by something else, such as custom networking


def capacity_of(machine: Machine, shape: Shape, margins: Margins) -> Resources:
    """What the node will report as its capacity."""
    amounts = {
        CPU: Quantity.of(machine.vcpus),
        MEMORY: memory(machine, margins),
        EPHEMERAL_STORAGE: _storage(machine, shape),
        PODS: Quantity.of(pods(machine, shape, margins)),
        labels.POD_ENI: Quantity.of(0 if shape.windows else machine.facts.branch_interfaces or 0),
        labels.EFA: Quantity.of(machine.efa_interfaces),
        labels.PRIVATE_IPV4: Quantity.of(machine.addresses_per_interface - 1 if shape.windows else 0),
        **_devices(machine),
    }
    return {name: amount for name, amount in amounts.items() if amount or name == PODS}


def overhead_of(machine: Machine, shape: Shape, margins: Margins) -> Resources:
    """What is kept of it: kube-reserved, system-reserved, and what eviction holds free."""
    return add(
        kube_reserved(machine, shape, margins), reserved(shape.system_reserved), _eviction(machine, shape, margins)
    )


def memory(machine: Machine, margins: Margins) -> Quantity:
    """The memory the operating system will see: as nodes had it, or as far as can be told before there was one."""
    if machine.seen_memory is not None:
        return machine.seen_memory
    there = machine.memory_mib - (_GRAVITON_FIRMWARE_MIB if machine.architecture == "arm64" else 0)
    return _mib(there - ceil(there * margins.memory_overhead))


def pods(machine: Machine, shape: Shape, margins: Margins) -> int:
    """How many pods the kubelet will admit."""
    if shape.max_pods is not None:
        count = shape.max_pods
    else:
        count = _WINDOWS_PODS if shape.windows else pods_by_addresses(machine, shape, margins)
    if shape.pods_per_core and shape.family != "Bottlerocket":
        count = min(count, shape.pods_per_core * machine.vcpus)
    return count


def pods_by_addresses(machine: Machine, shape: Shape, margins: Margins) -> int:
    """One address of each interface is its own; two pods use the host's network."""
    interfaces = machine.interfaces - margins.reserved_interfaces - shape.efa_only_interfaces
    return interfaces * (machine.addresses_per_interface - 1) + 2 if interfaces > 0 else 0


def kube_reserved(machine: Machine, shape: Shape, margins: Margins) -> Resources:
    """What the kubelet and the container runtime keep; the class may say otherwise resource by resource."""
    count = (
        pods_by_addresses(machine, shape, margins) if shape.family in _ENI_LIMITED else pods(machine, shape, margins)
    )
    usual = {
        CPU: Quantity.parse(f"{_reserved_millicores(machine.vcpus)}m"),
        MEMORY: _mib(11 * count + 255),
        EPHEMERAL_STORAGE: Quantity.parse("1Gi"),
    }
    return {**usual, **reserved(shape.kube_reserved)}


def _reserved_millicores(cores: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of all others."""
    shares = ((1, 60.0), (1, 10.0), (2, 5.0), (cores, 2.5))
    total, left = 0.0, cores
    for width, millicores in shares:
        total += min(width, left) * millicores
        left -= min(width, left)
    return int(total)


def _eviction(machine: Machine, shape: Shape, margins: Margins) -> Resources:
    return {
        MEMORY: beyond(shape.memory_threshold, _EVICTION_MEMORY, memory(machine, margins)),
        EPHEMERAL_STORAGE: beyond(shape.disk_threshold, _EVICTION_DISK, _storage(machine, shape)),
    }


def _storage(machine: Machine, shape: Shape) -> Quantity:
    if shape.local_disks and machine.nvme_gb:
        return Quantity.parse(f"{machine.nvme_gb}G")
    return shape.volume


def _devices(machine: Machine) -> dict[str, Quantity]:
    by_maker = {"nvidia": labels.NVIDIA_GPU, "amd": labels.AMD_GPU, "habana": labels.GAUDI}
    counts = dict.fromkeys(by_maker.values(), 0)
    for gpu in machine.gpus:
        if gpu.manufacturer in by_maker:
            counts[by_maker[gpu.manufacturer]] += gpu.count
    neuron = [each for each in machine.accelerators if each.manufacturer == "aws"]
    counts[labels.NEURON] = sum(each.count for each in neuron)
    counts[labels.NEURON_CORE] = sum(each.count * each.cores for each in neuron)
    return {name: Quantity.of(count) for name, count in counts.items()}


def _mib(count: int) -> Quantity:
    return Quantity(count * _MI * _NANO, binary=True)
