"""How much room a node of an instance type has: its capacity, and what the system keeps of it.

Pods are limited by the addresses of the default network card; memory is less than advertised, because the hypervisor
and the firmware keep some; kube-reserved grows with cores and pods. All of it is Karpenter's arithmetic, to the MiB.

The memory that nodes turned out to have: what an operating system sees of a machine nobody publishes.

Learned from the first nodes of an instance type with an image, and from then on in place of the estimate. Of several
figures the least counts: a pod that was promised more would wait for ever. Nothing of it needs to outlive the process:
the nodes that are there tell it again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.ec2_instance_type import Ec2InstanceType
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape, beyond, reserved
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Quantity, Resources, add
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import NotFound

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


def capacity_of(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    """What the node will report as its capacity."""
    amounts = {
        CPU: Quantity.of(ec2_type.vcpus),
        MEMORY: memory(ec2_type, margins),
        EPHEMERAL_STORAGE: _storage(ec2_type, shape),
        PODS: Quantity.of(pods(ec2_type, shape, margins)),
        labels.POD_ENI: Quantity.of(0 if shape.windows else ec2_type.facts.branch_interfaces or 0),
        labels.EFA: Quantity.of(ec2_type.efa_interfaces),
        labels.PRIVATE_IPV4: Quantity.of(ec2_type.addresses_per_interface - 1 if shape.windows else 0),
        **_devices(ec2_type),
    }
    return {name: amount for name, amount in amounts.items() if amount or name == PODS}


def overhead_of(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    """What is kept of it: kube-reserved, system-reserved, and what eviction holds free."""
    return add(
        kube_reserved(ec2_type, shape, margins), reserved(shape.system_reserved), _eviction(ec2_type, shape, margins)
    )


def memory(ec2_type: Ec2InstanceType, margins: Margins) -> Quantity:
    """The memory the operating system will see: as nodes had it, or as far as can be told before there was one."""
    if ec2_type.seen_memory is not None:
        return ec2_type.seen_memory
    there = ec2_type.memory_mib - (_GRAVITON_FIRMWARE_MIB if ec2_type.architecture == "arm64" else 0)
    return _mib(there - ceil(there * margins.memory_overhead))


def pods(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> int:
    """How many pods the kubelet will admit."""
    if shape.max_pods is not None:
        count = shape.max_pods
    else:
        count = _WINDOWS_PODS if shape.windows else pods_by_addresses(ec2_type, shape, margins)
    if shape.pods_per_core and shape.family != "Bottlerocket":
        count = min(count, shape.pods_per_core * ec2_type.vcpus)
    return count


def pods_by_addresses(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> int:
    """One address of each interface is its own; two pods use the host's network."""
    interfaces = ec2_type.interfaces - margins.reserved_interfaces - shape.efa_only_interfaces
    return interfaces * (ec2_type.addresses_per_interface - 1) + 2 if interfaces > 0 else 0


def kube_reserved(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    """What the kubelet and the container runtime keep; the class may say otherwise resource by resource."""
    count = (
        pods_by_addresses(ec2_type, shape, margins) if shape.family in _ENI_LIMITED else pods(ec2_type, shape, margins)
    )
    usual = {
        CPU: Quantity.parse(f"{_reserved_millicores(ec2_type.vcpus)}m"),
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


def _eviction(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    return {
        MEMORY: beyond(shape.memory_threshold, _EVICTION_MEMORY, memory(ec2_type, margins)),
        EPHEMERAL_STORAGE: beyond(shape.disk_threshold, _EVICTION_DISK, _storage(ec2_type, shape)),
    }


def _storage(ec2_type: Ec2InstanceType, shape: NodeClassShape) -> Quantity:
    if shape.local_disks and ec2_type.nvme_gb:
        return Quantity.parse(f"{ec2_type.nvme_gb}G")
    return shape.volume


def _devices(ec2_type: Ec2InstanceType) -> dict[str, Quantity]:
    by_maker = {"nvidia": labels.NVIDIA_GPU, "amd": labels.AMD_GPU, "habana": labels.GAUDI}
    counts = dict.fromkeys(by_maker.values(), 0)
    for gpu in ec2_type.gpus:
        if gpu.manufacturer in by_maker:
            counts[by_maker[gpu.manufacturer]] += gpu.count
    neuron = [each for each in ec2_type.accelerators if each.manufacturer == "aws"]
    counts[labels.NEURON] = sum(each.count for each in neuron)
    counts[labels.NEURON_CORE] = sum(each.count * each.cores for each in neuron)
    return {name: Quantity.of(count) for name, count in counts.items()}


def _mib(count: int) -> Quantity:
    return Quantity(count * _MI * _NANO, binary=True)


AT_ONCE = 10  # nodes looked at each time, so that a large cluster is learned little by little
Kind = tuple[str, str]
"""An instance type and an image."""


class ObservedMemory:
    """Memory by instance type and image. `version` grows with every change; `types` are those anything is known of."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._least: dict[Kind, Quantity] = {}
        self._looked_at: dict[str, set[str]] = {}  # claims, by node class
        self.types: frozenset[str] = frozenset()
        self.version = 0

    def of(self, instance_type: str, image_id: str) -> Quantity | None:
        """What nodes of this kind have, or None if there was none yet."""
        return self._least.get((instance_type, image_id))

    async def __call__(self, claims: Sequence[NodeClaim]) -> None:
        """Learn from nodes of one class that registered and were not looked at before; from unknown kinds first."""
        if not claims:
            return
        name = claims[0].spec.node_class_ref.name
        known = self._looked_at.get(name, set()) & {claim.metadata.uid for claim in claims}
        fresh = [claim for claim in claims if claim.metadata.uid not in known and _tells(claim)]
        fresh.sort(key=lambda claim: _kind(claim) in self._least)
        seen: dict[Kind, Quantity] = {}
        for claim in fresh[:AT_ONCE]:
            memory, kind = await self._memory(claim), _kind(claim)
            if memory:
                seen[kind] = min(memory, seen.get(kind, memory))
                known.add(claim.metadata.uid)
        self._looked_at[name] = known
        self._take(seen)

    async def _memory(self, claim: NodeClaim) -> Quantity | None:
        with suppress(NotFound):
            node = await self._cluster.get(NODE, Key("", claim.status.node_name))
            return node.status.capacity.get(MEMORY)
        return None

    def _take(self, seen: Mapping[Kind, Quantity]) -> None:
        less = {kind: memory for kind, memory in seen.items() if kind not in self._least or memory < self._least[kind]}
        if less:
            self._least.update(less)
            self.types |= {instance_type for instance_type, _ in less}
            self.version += 1


def _tells(claim: NodeClaim) -> bool:
    return claim.has(REGISTERED) and all((claim.status.node_name, *_kind(claim)))


def _kind(claim: NodeClaim) -> Kind:
    return claim.metadata.labels.get(INSTANCE_TYPE, ""), claim.status.image_id
