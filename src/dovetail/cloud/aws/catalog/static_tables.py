"""Shipped tables: what EC2's API does not tell of an instance type, and prices for when nobody can be asked.

`facts` has the baseline network bandwidth and how many branch interfaces a trunk takes, which only documentation and
the VPC CNI publish. `prices` are on-demand prices by region. `renewing` writes the prices anew.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FALLBACK_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class InstanceTypeFacts:
    """What is published about an instance type outside the API; None where nothing is."""

    network_mbps: int | None = None
    branch_interfaces: int | None = None


UNKNOWN = InstanceTypeFacts()


@cache
def facts_by_type() -> Mapping[str, InstanceTypeFacts]:
    """By instance type."""
    return {
        name: InstanceTypeFacts(said.get("mbps"), said.get("branches"))
        for name, said in _table("facts.json.gz").items()
    }


def shipped_prices(region: str) -> Mapping[str, float]:
    """On-demand prices per hour by instance type; those of one well-known region if this one is not in the table."""
    table = _table("prices.json.gz")
    prices: Mapping[str, float] = table.get(region) or table[FALLBACK_REGION]
    return prices


@cache
def _table(name: str) -> dict[str, Any]:
    packed = resources.files("dovetail.cloud.aws.catalog").joinpath(name).read_bytes()
    table: dict[str, Any] = json.loads(gzip.decompress(packed))
    return table
