"""Lists of resources: adding, taking away, and whether a request fits.

Pure arithmetic by resource name. A name that is missing counts as zero. Nothing here knows which resources exist or
how a pod's request is put together.
"""

from collections.abc import Mapping

from dovetail.model.quantity import ZERO, Quantity

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
NODES = "nodes"

Resources = Mapping[str, Quantity]


def add(*many: Resources) -> dict[str, Quantity]:
    """The sum, over every name that occurs."""
    total: dict[str, Quantity] = {}
    for resources in many:
        for name, amount in resources.items():
            known = total.get(name)
            total[name] = amount if known is None else known + amount
    return total


def subtract(a: Resources, b: Resources) -> dict[str, Quantity]:
    """`a` less `b`, over the names of both; may go below zero."""
    rest = dict(a)
    for name, amount in b.items():
        rest[name] = rest.get(name, ZERO) - amount
    return rest


def maximum(a: Resources, b: Resources) -> dict[str, Quantity]:
    """The larger amount of each name that occurs; an absent one never wins against a negative amount."""
    larger = dict(a)
    for name, amount in b.items():
        known = larger.get(name)
        if known is None or known < amount:
            larger[name] = amount
    return larger


def fits(request: Resources, free: Resources) -> bool:
    """Whether every requested amount is free. Nothing fits where any resource is already overdrawn."""
    for amount in free.values():
        if amount.nano < 0:
            return False
    return all(amount.nano <= free.get(name, ZERO).nano for name, amount in request.items())


def shortfall(request: Resources, free: Resources) -> tuple[str, ...]:
    """The names, sorted, that keep `request` from fitting: asked for beyond what is free, or already overdrawn."""
    short = {name for name, amount in request.items() if amount.nano > free.get(name, ZERO).nano}
    short.update(name for name, amount in free.items() if amount.nano < 0)
    return tuple(sorted(short))
