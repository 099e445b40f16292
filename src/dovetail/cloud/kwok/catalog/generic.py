"""Karpenter's own generated catalogue: 144 types by cpu, memory, system and architecture, in four zones.

Names, sizes and prices are Karpenter's, so its examples can be repeated here.
"""

from functools import cache
from itertools import product

from dovetail.cloud.kwok.instance_type import InstanceTypeSpec, build, offering
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import ON_DEMAND, SPOT
from dovetail.model.quantity import Quantity
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

_CPUS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_FAMILY_BY_MEMORY_FACTOR = {2: "c", 4: "s", 8: "m"}
_SYSTEMS = ("linux", "windows")
_ARCHITECTURES = ("amd64", "arm64")
_ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
_SPOT_SHARE = 0.7
_GIBIBYTE = 1 << 30


@cache
def generic_catalog() -> tuple[InstanceType, ...]:
    """The generated types, smallest first."""
    combinations = product(_CPUS, _FAMILY_BY_MEMORY_FACTOR, _SYSTEMS, _ARCHITECTURES)
    return tuple(build(_blueprint(*combination)) for combination in combinations)


def _blueprint(cpu: int, memory_factor: int, system: str, architecture: str) -> InstanceTypeSpec:
    gibibytes = cpu * memory_factor
    price = 0.025 * cpu + 0.001 * (gibibytes * _GIBIBYTE) / 1e9
    return InstanceTypeSpec(
        name=f"{_FAMILY_BY_MEMORY_FACTOR[memory_factor]}-{cpu}x-{architecture}-{system}",
        architecture=architecture,
        operating_systems=(system,),
        resources={
            CPU: Quantity.of(str(cpu)),
            MEMORY: Quantity.of(f"{gibibytes}Gi"),
            PODS: Quantity.of(str(min(16 * cpu, 1024))),
            EPHEMERAL_STORAGE: Quantity.of("20Gi"),
        },
        offerings=tuple(
            offering(zone, capacity_type, price * share)
            for zone in _ZONES
            for capacity_type, share in ((SPOT, _SPOT_SHARE), (ON_DEMAND, 1.0))
        ),
    )
