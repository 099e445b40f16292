"""Sizes: what a container requests and may use at most, and what a whole pod or a node has."""

from collections.abc import Iterator, Mapping

from dovetail.model.kube_object import Fault
from dovetail.model.quantity import Quantity
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.names import is_key

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_NANO = 1_000_000_000

Amounts = Mapping[str, int | float | str]


def container_size_faults(resources: Plain, path: str) -> Iterator[Fault]:
    """Everything wrong with the size of one container."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{path}.{part}[{name}]"
            if not _is_container_resource(name):
                yield Fault(here, "is not a resource of containers; others need a domain, as example.com/gpu", name)
            yield from _amount_faults(name, amount, here)
    yield from _pair_faults(requests, limits, path)
    names = {*requests, *limits}
    if any(map(_is_huge, names)) and not names & _OF_PODS:
        yield Fault(path, "huge pages also need cpu or memory")


def pod_size_faults(resources: Plain, containers: list[Plain], path: str) -> Iterator[Fault]:
    """Everything wrong with the size of a whole pod."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in _OF_PODS and not _is_huge(name):
                yield Fault(f"{path}.{part}[{name}]", "is not a resource of whole pods", name)
            yield from _amount_faults(name, amount, f"{path}.{part}[{name}]")
    yield from _pair_faults(requests, limits, path)
    asked = [(each.get("resources") or {}).get("requests") or {} for each in containers]
    for name, amount in requests.items():
        if sum(Quantity.of(each.get(name, 0)).nano for each in asked) > Quantity.of(amount).nano:
            yield Fault(f"{path}.requests[{name}]", "must be at least what the containers request together", amount)


def capacity_faults(status: Plain) -> Iterator[Fault]:
    """Everything wrong with what a node has."""
    for part in ("capacity", "allocatable"):
        for name, amount in (status.get(part) or {}).items():
            yield from _amount_faults(name, amount, f"status.{part}.{name}")


def _is_huge(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _is_container_resource(name: str) -> bool:
    return name in _OF_CONTAINERS or _is_huge(name) or ("/" in name and is_key(name))


def _amount_faults(name: str, amount: int | float | str, path: str) -> Iterator[Fault]:  # noqa: PYI041 - as in JSON
    quantity = Quantity.of(amount)
    if quantity.nano < 0:
        yield Fault(path, "must not be negative", amount)
    elif _is_extended(name) and quantity.nano % _NANO:
        yield Fault(path, "must be a whole number", amount)


def _pair_faults(requests: Amounts, limits: Amounts, path: str) -> Iterator[Fault]:
    for name, amount in requests.items():
        exact = _is_huge(name) or _is_extended(name)
        if name not in limits:
            if exact:
                yield Fault(f"{path}.limits", f"must be set for {name}, which cannot be overcommitted")
            continue
        asked, most = Quantity.of(amount).nano, Quantity.of(limits[name]).nano
        if asked > most:
            yield Fault(f"{path}.requests", f"must not be above the limit of {limits[name]} for {name}", amount)
        elif exact and asked != most:
            yield Fault(f"{path}.requests", f"must be equal to the limit of {limits[name]} for {name}", amount)
