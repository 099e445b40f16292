"""Gauges about instance types and their offerings: CPU, memory, availability and price.

Karpenter reports every type of a region, which is more series than all other metrics together. By default only types
with a node are reported (`--instance-type-metrics`). If NodePools have different values for a type, those of the first
pool by name are reported; an offering is available if it is available to any pool.
"""

from collections.abc import Iterator, Mapping

from dovetail.model.catalog import InstanceType
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import Snapshot

Rows = dict[tuple[str, ...], float]
CORES = "karpenter_cloudprovider_instance_type_cpu_cores"
BYTES = "karpenter_cloudprovider_instance_type_memory_bytes"
AVAILABLE = "karpenter_cloudprovider_instance_type_offering_available"
PRICE = "karpenter_cloudprovider_instance_type_offering_price_estimate"


def offering_metrics(snapshot: Snapshot, mode: str) -> Mapping[str, Rows]:
    """Return the rows of each gauge, for the types in use (`used`), for `all`, or for none (`off`)."""
    shown: dict[str, Rows] = {name: {} for name in (CORES, BYTES, AVAILABLE, PRICE)}
    for each in _types(snapshot, mode):
        shown[CORES].setdefault((each.name,), _amount(each, CPU))
        shown[BYTES].setdefault((each.name,), _amount(each, MEMORY))
        for offering in each.offerings:
            row = (each.name, offering.capacity_type, offering.zone)
            shown[AVAILABLE][row] = max(shown[AVAILABLE].get(row, 0.0), float(offering.available))
            shown[PRICE].setdefault(row, offering.price)
    return shown


def _types(snapshot: Snapshot, mode: str) -> Iterator[InstanceType]:
    if mode == "off":
        return
    used = {node.labels.get(INSTANCE_TYPE, "") for node in snapshot.nodes}
    seen_catalogs: set[int] = set()
    for _, types in sorted(snapshot.types_by_pool.items()):
        if id(types) in seen_catalogs:  # pools may share one catalog
            continue
        seen_catalogs.add(id(types))
        yield from types.values() if mode == "all" else (types[name] for name in sorted(used & types.keys()))


def _amount(instance_type: InstanceType, resource: str) -> float:
    amount = instance_type.capacity.get(resource)
    return amount.number if amount is not None else 0.0
