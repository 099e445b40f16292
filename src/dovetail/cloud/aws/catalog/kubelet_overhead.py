"""What of an EC2NodeClass changes how much room a node has: the family, the kubelet's settings, the disks."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from dovetail.model.ec2nodeclass import EC2NodeClassSpec
from dovetail.model.resources import Quantity, Resources

_DEFAULT_VOLUME = Quantity.parse("20Gi")
_WINDOWS_VOLUME = Quantity.parse("50Gi")
_POD_DEVICES = {"Bottlerocket": "/dev/xvdb", "AL2": "/dev/xvda", "AL2023": "/dev/xvda"}
_WINDOWS_DEVICE = "/dev/sda1"

Threshold = Quantity | float
"""An amount, or a share of the whole as a fraction."""


@dataclass(frozen=True)
class NodeClassShape:
    """Equal shapes make equal nodes of one instance type."""

    family: str
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: tuple[tuple[str, Quantity], ...] = ()
    system_reserved: tuple[tuple[str, Quantity], ...] = ()
    memory_threshold: Threshold | None = None
    disk_threshold: Threshold | None = None
    volume: Quantity = _DEFAULT_VOLUME
    local_disks: bool = False
    efa_only_interfaces: int = 0
    nitro_only: bool = False  # it asks for what other hypervisors cannot do

    @property
    def windows(self) -> bool:
        """Whether nodes run Windows."""
        return self.family.startswith("Windows")


def shape_of(spec: EC2NodeClassSpec) -> NodeClassShape:
    """The shape of a class that passed validation."""
    kubelet: Mapping[str, Any] = spec.kubelet or {}
    hard = kubelet.get("evictionHard") or {}
    return NodeClassShape(
        family=spec.family,
        max_pods=kubelet.get("maxPods"),
        pods_per_core=kubelet.get("podsPerCore"),
        kube_reserved=_amounts(kubelet.get("kubeReserved")),
        system_reserved=_amounts(kubelet.get("systemReserved")),
        memory_threshold=_threshold(hard.get("memory.available")),
        disk_threshold=_threshold(hard.get("nodefs.available")),
        volume=_volume(spec),
        local_disks=spec.instance_store_policy == "RAID0",
        efa_only_interfaces=sum(each.interface_type == "efa-only" for each in spec.network_interfaces),
        nitro_only=bool(spec.connection_tracking),
    )


def beyond(threshold: Threshold | None, otherwise: Threshold, capacity: Quantity) -> Quantity:
    """What an eviction threshold keeps free of `capacity`. All of it means that the threshold is off."""
    value = otherwise if threshold is None else threshold
    if isinstance(value, Quantity):
        return value
    return Quantity.of(0) if value >= 1 else Quantity(ceil(capacity.units * value) * 1_000_000_000, binary=True)


def reserved(pairs: tuple[tuple[str, Quantity], ...]) -> Resources:
    """Reserved amounts by resource."""
    return dict(pairs)


def _amounts(said: Any) -> tuple[tuple[str, Quantity], ...]:
    return tuple(sorted(((name, Quantity.parse(amount)) for name, amount in (said or {}).items()), key=lambda x: x[0]))


def _threshold(said: Any) -> Threshold | None:
    if said is None:
        return None
    return float(said[:-1]) / 100 if said.endswith("%") else Quantity.parse(said)


def _volume(spec: EC2NodeClassSpec) -> Quantity:
    """The volume the kubelet keeps pods' storage on: the one marked, else the family's own device, else its default."""
    windows = spec.family.startswith("Windows")
    device = _WINDOWS_DEVICE if windows else _POD_DEVICES.get(spec.family, "")
    mappings = spec.block_device_mappings
    chosen = [each for each in mappings if each.root_volume] or [
        each for each in mappings if each.device_name == device
    ]
    if not chosen and spec.family == "Custom":
        chosen = list(mappings[-1:])
    sizes = [each.ebs.volume_size for each in chosen if each.ebs is not None and each.ebs.volume_size]
    return Quantity.parse(sizes[0]) if sizes else _WINDOWS_VOLUME if windows else _DEFAULT_VOLUME
