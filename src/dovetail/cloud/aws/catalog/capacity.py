"""The capacity of a node of an EC2 instance type, and the overhead that is not allocatable for pods.

The arithmetic is Karpenter's, to the MiB. Pods are limited by the addresses of the default network card. Memory is less
than EC2 advertises, because hypervisor and firmware use some. kube-reserved grows with cores and pods.

`ObservedMemory` replaces the memory estimate once a node with the same instance type and AMI has registered: AWS does
not publish how much memory the operating system sees. Of several observations the minimum counts, because a pod
scheduled by a larger value may not fit. Nothing is persisted: a restarted process observes the existing nodes again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.ec2_instance_type import Ec2InstanceType
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape, eviction_reserve
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
"""AMI families whose bootstrap script reserves memory for the pods that the network allows, whatever maxPods is."""


@dataclass(frozen=True, slots=True)
class Margins:
    """Settings of the operator that apply to every node."""

    memory_overhead: float = 0.075  # share of the advertised memory that the operating system does not see
    reserved_interfaces: int = 0  # used by something other than pods, for example custom networking


def capacity_of(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    """The capacity that the node will report."""
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
    """The part of the capacity that is not allocatable: kube-reserved, system-reserved, eviction threshold."""
    return add(
        kube_reserved(ec2_type, shape, margins), dict(shape.system_reserved), _eviction(ec2_type, shape, margins)
    )


def memory(ec2_type: Ec2InstanceType, margins: Margins) -> Quantity:
    """The memory that the operating system sees: as observed on a node, or else estimated."""
    if ec2_type.observed_memory is not None:
        return ec2_type.observed_memory
    available = ec2_type.memory_mib - (_GRAVITON_FIRMWARE_MIB if ec2_type.architecture == "arm64" else 0)
    return _mib(available - ceil(available * margins.memory_overhead))


def pods(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> int:
    """The maximum number of pods on the node."""
    if shape.max_pods is not None:
        count = shape.max_pods
    else:
        count = _WINDOWS_PODS if shape.windows else pods_by_addresses(ec2_type, shape, margins)
    if shape.pods_per_core and shape.family != "Bottlerocket":
        count = min(count, shape.pods_per_core * ec2_type.vcpus)
    return count


def pods_by_addresses(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> int:
    """The pods that have an address: one address of each interface is its own; two pods use the host network."""
    interfaces = ec2_type.interfaces - margins.reserved_interfaces - shape.efa_only_interfaces
    return interfaces * (ec2_type.addresses_per_interface - 1) + 2 if interfaces > 0 else 0


def kube_reserved(ec2_type: Ec2InstanceType, shape: NodeClassShape, margins: Margins) -> Resources:
    """kube-reserved: computed, unless the kubelet settings of the class specify the resource."""
    count = (
        pods_by_addresses(ec2_type, shape, margins) if shape.family in _ENI_LIMITED else pods(ec2_type, shape, margins)
    )
    computed = {
        CPU: Quantity.parse(f"{_reserved_millicores(ec2_type.vcpus)}m"),
        MEMORY: _mib(11 * count + 255),
        EPHEMERAL_STORAGE: Quantity.parse("1Gi"),
    }
    return {**computed, **dict(shape.kube_reserved)}


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
        MEMORY: eviction_reserve(shape.memory_threshold, _EVICTION_MEMORY, memory(ec2_type, margins)),
        EPHEMERAL_STORAGE: eviction_reserve(shape.disk_threshold, _EVICTION_DISK, _storage(ec2_type, shape)),
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


MAX_NODES_PER_PASS = 10  # limits the reads in a large cluster
TypeAndImage = tuple[str, str]
"""The name of an instance type and the id of an AMI."""


class ObservedMemory:
    """Observed memory by instance type and AMI. `version` grows with every change; `types` have observations."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._minimum: dict[TypeAndImage, Quantity] = {}
        self._read_claims: dict[str, set[str]] = {}  # uids of claims whose node was read, by node class
        self.types: frozenset[str] = frozenset()
        self.version = 0

    def of(self, instance_type: str, image_id: str) -> Quantity | None:
        """The observed memory, or None."""
        return self._minimum.get((instance_type, image_id))

    async def __call__(self, claims: Sequence[NodeClaim]) -> None:
        """Read the memory of newly registered nodes of one class, types without an observation first."""
        if not claims:
            return
        name = claims[0].spec.node_class_ref.name
        read = self._read_claims.get(name, set()) & {claim.metadata.uid for claim in claims}
        unread = [claim for claim in claims if claim.metadata.uid not in read and _is_observable(claim)]
        unread.sort(key=lambda claim: _type_and_image(claim) in self._minimum)
        observed: dict[TypeAndImage, Quantity] = {}
        for claim in unread[:MAX_NODES_PER_PASS]:
            memory, key = await self._read_memory(claim), _type_and_image(claim)
            if memory:
                observed[key] = min(memory, observed.get(key, memory))
                read.add(claim.metadata.uid)
        self._read_claims[name] = read
        self._record(observed)

    async def _read_memory(self, claim: NodeClaim) -> Quantity | None:
        with suppress(NotFound):
            node = await self._cluster.get(NODE, Key("", claim.status.node_name))
            return node.status.capacity.get(MEMORY)
        return None

    def _record(self, observed: Mapping[TypeAndImage, Quantity]) -> None:
        lower = {
            key: memory for key, memory in observed.items() if key not in self._minimum or memory < self._minimum[key]
        }
        if lower:
            self._minimum.update(lower)
            self.types |= {instance_type for instance_type, _ in lower}
            self.version += 1


def _is_observable(claim: NodeClaim) -> bool:
    return claim.has(REGISTERED) and all((claim.status.node_name, *_type_and_image(claim)))


def _type_and_image(claim: NodeClaim) -> TypeAndImage:
    return claim.metadata.labels.get(INSTANCE_TYPE, ""), claim.status.image_id
