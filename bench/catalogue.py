"""A catalogue like a large cloud's: 700 instance types in three zones, on demand and spot, a few offerings missing.

Families differ in memory for each cpu, variants in price and architecture, newer generations cost a little less.
"""

import random
from collections.abc import Iterator

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, SPOT, WELL_KNOWN, ZONE
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity

FAMILY, GENERATION, SIZE = "cloud.example/family", "cloud.example/generation", "cloud.example/size"
KNOWN = WELL_KNOWN | {FAMILY, GENERATION, SIZE}
ZONES = ("zone-a", "zone-b", "zone-c")
COUNT = 700
MISSING = 0.06

_GIB_BY_FAMILY = {"c": 2, "m": 4, "r": 8, "x": 16}
_VARIANTS = {"": 1.0, "a": 0.9, "g": 0.8, "i": 1.05, "n": 1.2, "d": 1.15, "gd": 0.92, "z": 1.3}
_CPU_BY_SIZE = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "16xlarge": 64}
_ARM = ("g", "gd")


def catalogue(seed: int = 7) -> tuple[InstanceType, ...]:
    """The same 700 types for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    every = [
        (family, generation, variant, size)
        for generation in (8, 7, 6, 5)
        for family in _GIB_BY_FAMILY
        for variant in _VARIANTS
        for size in _CPU_BY_SIZE
    ]
    return tuple(_instance_type(rng, *each) for each in sorted(rng.sample(every, COUNT)))


def _instance_type(rng: random.Random, family: str, generation: int, variant: str, size: str) -> InstanceType:
    cpu = _CPU_BY_SIZE[size]
    gib = cpu * _GIB_BY_FAMILY[family]
    price = (0.03 * cpu + 0.003 * gib) * _VARIANTS[variant] * (1.4 - 0.05 * generation)
    name = f"{family}{generation}{variant}.{size}"
    pods = min(29 * cpu, 234)
    labels = {INSTANCE_TYPE: [name], ARCH: ["arm64" if variant in _ARM else "amd64"], OS: ["linux"]}
    labels |= {ZONE: [*ZONES], CAPACITY_TYPE: [ON_DEMAND, SPOT]}
    labels |= {FAMILY: [f"{family}{generation}{variant}"], GENERATION: [str(generation)], SIZE: [size]}
    return InstanceType(
        name,
        Requirements.of(Requirement.of(key, "In", values) for key, values in labels.items()),
        tuple(_offerings(rng, price)),
        {"cpu": Quantity.of(cpu), "memory": Quantity.of(f"{gib}Gi"), "pods": Quantity.of(pods)},
        {"cpu": Quantity.of(f"{60 + 3 * cpu}m"), "memory": Quantity.of(f"{355 + 11 * pods}Mi")},
    )


def _offerings(rng: random.Random, price: float) -> Iterator[Offering]:
    for zone in ZONES:
        for sold, share in ((ON_DEMAND, 1.0), (SPOT, rng.uniform(0.3, 0.45))):
            if rng.random() >= MISSING:
                where = Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: sold})
                yield Offering(where, round(price * share, 6))
