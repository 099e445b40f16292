"""The catalogs of the kwok provider: two shipped ones, or an instance types file.

`generic` is Karpenter's generated kwok catalog: 144 types by CPU, memory, operating system and architecture, in four
zones. Names, sizes and prices are Karpenter's, so its examples can be reproduced.

`realistic` resembles EC2 in us-east-1: names, sizes, pod limits and on-demand prices are those of EC2, in three zones.
Spot prices and missing offerings are computed from a hash of family, type and zone, so that simulations are
reproducible:

- spot costs 60 to 75 percent less: 60, plus up to 7 by family, up to 5 by type, up to 3 by zone;
- about one spot offering in 16 is missing, and one on-demand offering in 8 of the types with GPUs;
- the first zone offers every type on demand, so every type can be launched.
"""

import csv
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path

from dovetail.cloud.kwok.catalog.instance_types_file import (
    InstanceTypesInvalid,
    InstanceTypeSpec,
    build,
    load_instance_types,
    offering,
)
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import ON_DEMAND, REGION, SPOT
from dovetail.model.requirements import Requirements
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Quantity

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
_REGION = Requirements.from_labels({REGION: "us-east-1"})
_GPU = "nvidia.com/gpu"
_MISSING_SPOT_SHARE = 1 / 16
_MISSING_GPU_SHARE = 1 / 8


@cache
def realistic_catalog() -> tuple[InstanceType, ...]:
    """The realistic catalog, ordered by family."""
    table = resources.files("dovetail.cloud.kwok.catalog").joinpath("ec2.csv").read_text(encoding="utf-8")
    return tuple(build(_realistic_type(row)) for row in csv.DictReader(table.splitlines()))


def _realistic_type(row: dict[str, str]) -> InstanceTypeSpec:
    amounts = {
        CPU: Quantity.of(row["cpu"]),
        MEMORY: Quantity.of(f"{row['memory_mib']}Mi"),
        PODS: Quantity.of(row["pods"]),
        EPHEMERAL_STORAGE: Quantity.of("20Gi"),
    }
    if row["gpus"] != "0":
        amounts[_GPU] = Quantity.of(row["gpus"])
    return InstanceTypeSpec(
        name=row["name"],
        architecture=row["architecture"],
        operating_systems=("linux",),
        resources=amounts,
        offerings=tuple(_offerings(row["name"], float(row["price_usd_per_hour"]), scarce=_GPU in amounts)),
    )


def _offerings(name: str, price: float, *, scarce: bool) -> Iterator[Offering]:
    for zone in ZONES:
        if zone == ZONES[0] or not scarce or _hash_fraction(name, zone, ON_DEMAND) >= _MISSING_GPU_SHARE:
            yield _in_region(offering(zone, ON_DEMAND, price))
        if _hash_fraction(name, zone, SPOT) >= _MISSING_SPOT_SHARE:
            yield _in_region(offering(zone, SPOT, _spot_price(name, zone, price)))


def _in_region(without_region: Offering) -> Offering:
    return Offering(without_region.requirements.add(_REGION), without_region.price)


def _spot_price(name: str, zone: str, price: float) -> float:
    family = name.partition(".")[0]
    discount = 0.60 + 0.07 * _hash_fraction(family) + 0.05 * _hash_fraction(name) + 0.03 * _hash_fraction(name, zone)
    return round(price * (1 - discount), 5)


def _hash_fraction(*words: str) -> float:
    """A pseudo-random number in [0, 1) that depends only on the arguments."""
    return int.from_bytes(hashlib.sha256("/".join(words).encode()).digest()[:6]) / (1 << 48)


_CPUS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_FAMILY_BY_MEMORY_FACTOR = {2: "c", 4: "s", 8: "m"}
_SYSTEMS = ("linux", "windows")
_ARCHITECTURES = ("amd64", "arm64")
_ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
_SPOT_SHARE = 0.7
_GIBIBYTE = 1 << 30


@cache
def generic_catalog() -> tuple[InstanceType, ...]:
    """The generic catalog, smallest types first."""
    combinations = product(_CPUS, _FAMILY_BY_MEMORY_FACTOR, _SYSTEMS, _ARCHITECTURES)
    return tuple(build(_generic_type(*combination)) for combination in combinations)


def _generic_type(cpu: int, memory_factor: int, system: str, architecture: str) -> InstanceTypeSpec:
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


__all__ = [
    "CATALOGS",
    "InstanceTypesInvalid",
    "generic_catalog",
    "load_instance_types",
    "realistic_catalog",
    "select_catalog",
]

CATALOGS: Mapping[str, Callable[[], tuple[InstanceType, ...]]] = {
    "realistic": realistic_catalog,
    "generic": generic_catalog,
}
"""The shipped catalogs by the name for `--catalog`."""


def select_catalog(name: str, file_path: str = "") -> tuple[InstanceType, ...]:
    """The catalog of the settings; a file takes precedence. `InstanceTypesInvalid` if the file is invalid."""
    return load_instance_types(Path(file_path)) if file_path else CATALOGS[name]()
