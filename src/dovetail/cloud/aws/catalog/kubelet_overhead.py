"""The fields of an EC2NodeClass that change how much capacity a node has for pods.

`NodeClassShape` is hashable: classes with equal shapes share the computed capacity of all instance types.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from dovetail.model.ec2nodeclass import EC2NodeClassSpec
from dovetail.model.resources import Quantity

_DEFAULT_VOLUME = Quantity.parse("20Gi")
_WINDOWS_VOLUME = Quantity.parse("50Gi")
_POD_DEVICES = {"Bottlerocket": "/dev/xvdb", "AL2": "/dev/xvda", "AL2023": "/dev/xvda"}
_WINDOWS_DEVICE = "/dev/sda1"

Threshold = Quantity | float
"""An absolute amount, or a fraction of the capacity."""


@dataclass(frozen=True)
class NodeClassShape:
    """AMI family, kubelet settings and disks of a class. Equal shapes give equal capacity."""

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
    nitro_only: bool = False  # has settings that only Nitro instances support

    @property
    def windows(self) -> bool:
        """Whether nodes run Windows."""
        return self.family.startswith("Windows")


def shape_of(spec: EC2NodeClassSpec) -> NodeClassShape:
    """The shape of a validated class."""
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


def eviction_reserve(threshold: Threshold | None, default: Threshold, capacity: Quantity) -> Quantity:
    """The amount of `capacity` that an eviction threshold keeps free. A threshold of 100 % disables it."""
    value = default if threshold is None else threshold
    if isinstance(value, Quantity):
        return value
    return Quantity.of(0) if value >= 1 else Quantity(ceil(capacity.units * value) * 1_000_000_000, binary=True)


def _amounts(amounts: Any) -> tuple[tuple[str, Quantity], ...]:
    parsed = ((name, Quantity.parse(amount)) for name, amount in (amounts or {}).items())
    return tuple(sorted(parsed, key=lambda pair: pair[0]))


def _threshold(text: Any) -> Threshold | None:
    if text is None:
        return None
    return float(text[:-1]) / 100 if text.endswith("%") else Quantity.parse(text)


def _volume(spec: EC2NodeClassSpec) -> Quantity:
    """The size of the volume with pod storage: the marked root volume, else the family's device, else the default."""
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
