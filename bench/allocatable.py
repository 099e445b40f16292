"""How many EC2 instance types have exactly the room that Karpenter publishes for them, and why the others have not.

`python bench/allocatable.py` compares cpu, memory and pods of every type, from what EC2 says of it (as moto ships it),
with Karpenter's table, and prints one line for each difference.
"""

import csv
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dovetail.cloud.aws.catalog.capacity import Margins, capacity_of, overhead_of
from dovetail.cloud.aws.catalog.ec2_instance_type import Ec2InstanceType, facts_by_type, parse_instance_type
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape
from dovetail.model.catalog import InstanceType
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Quantity

PUBLISHED = Path(__file__).parents[1] / "tests" / "data" / "ec2_allocatable.csv.gz"
RESOURCES = ("cpu", "memory", "pods")
NOT_DESCRIBED = "EC2's description of the type is not at hand"
DOCUMENTED = {
    "g4ad.xlarge": (4, 16, 2, 4),
    "g4ad.2xlarge": (8, 32, 2, 4),
    "g4ad.4xlarge": (16, 64, 3, 10),
    "g4ad.8xlarge": (32, 128, 4, 15),
    "g4ad.16xlarge": (64, 256, 8, 30),
}
"""Types that moto does not ship: cores, GiB, interfaces and addresses of each, as EC2 documents them."""
UNEXPLAINED = "unexplained"
CARDS_CHANGED = "published from a description in which both network cards counted; EC2 now tells the default card apart"


@dataclass(frozen=True)
class Difference:
    """A type whose room is not what is published."""

    name: str
    published: tuple[str, ...]
    ours: tuple[str, ...]
    why: str


def described() -> dict[str, Any]:
    """What EC2 says of its instance types, by name."""
    packed = resources.files("moto.ec2.resources").joinpath("instance_types.json.gz").read_bytes()
    said: dict[str, Any] = json.loads(gzip.decompress(packed))
    return said | {name: _documented(name, *figures) for name, figures in DOCUMENTED.items() if name not in said}


def _documented(name: str, cores: int, gib: int, interfaces: int, addresses: int) -> dict[str, Any]:
    return {
        "InstanceType": name,
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": cores},
        "MemoryInfo": {"SizeInMiB": gib * 1024},
        "NetworkInfo": {"MaximumNetworkInterfaces": interfaces, "Ipv4AddressesPerInterface": addresses},
    }


def published() -> dict[str, tuple[str, ...]]:
    """Cpu, memory and pods by name of type."""
    with gzip.open(PUBLISHED, "rt", encoding="utf-8") as table:
        return {row["type"]: tuple(row[name] for name in RESOURCES) for row in csv.DictReader(table)}


def differences() -> Iterator[Difference]:
    """Every type whose room differs, and why."""
    said = described()
    for name, wanted in published().items():
        ec2_type = parse_instance_type(said[name], facts_by_type()) if name in said else None
        if ec2_type is None:
            yield Difference(name, wanted, (), NOT_DESCRIBED)
            continue
        room = allocatable(ec2_type)
        if any(room[resource] != Quantity.parse(amount) for resource, amount in zip(RESOURCES, wanted, strict=True)):
            ours = tuple(str(room[resource]) for resource in RESOURCES)
            yield Difference(name, wanted, ours, _why(said[name], wanted))


def allocatable(ec2_type: Ec2InstanceType) -> dict[str, Quantity]:
    """What is left for pods with the settings the table was made with."""
    shape, margins = NodeClassShape(family="AL2023"), Margins()
    made = InstanceType(
        ec2_type.name,
        Requirements({}),
        (),
        capacity_of(ec2_type, shape, margins),
        overhead_of(ec2_type, shape, margins),
    )
    return dict(made.allocatable)


def _why(said: dict[str, Any], wanted: tuple[str, ...]) -> str:
    network = said["NetworkInfo"]
    all_cards = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
    return CARDS_CHANGED if int(wanted[2]) == all_cards and len(network["NetworkCards"]) > 1 else UNEXPLAINED


def main() -> int:
    """Print the figures; fail if a difference has no explanation."""
    found, total = list(differences()), len(published())
    print(f"{total - len(found)} of {total} instance types agree exactly on {', '.join(RESOURCES)}")
    for each in found:
        print(f"  {each.name}: published {each.published}, ours {each.ours or '-'}: {each.why}")
    return 1 if any(each.why == UNEXPLAINED for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
