"""Resource vectors: resources as whole numbers in fixed columns.

CPU is counted in thousandths, everything else in whole units, both rounded up, as kube-scheduler does. There are
columns only for resources that some pod or daemon requests; others cannot decide anything. A need is the sparse form,
(column, amount) pairs without zeros, since most pods request two or three resources.

Needs are grouped into size classes, so that what is kept for each of them does not grow with the number of pods where
every pod has requests of its own.

Invariant: amounts are between 0 and `MOST`, so sums of them fit into 64 bits.
"""

from collections.abc import Iterable, Sequence

from dovetail.model.resources import CPU, Resources

Need = tuple[tuple[int, int], ...]
"""Requested amounts as (column, amount) pairs, without zeros."""

SIZE_CLASS_BITS = 4
"""Needs whose amounts have the same first bits are one size class: they differ by less than an eighth."""

MOST = 1 << 56
"""Larger amounts are cut to this, so that sums of them fit into the 64 bits of an array element."""


class ResourceUnits:
    """The resources that pods request, as columns."""

    __slots__ = ("_least", "column", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted({*names}))
        self.column = {name: index for index, name in enumerate(self.names)}
        self._least: dict[Need, Need] = {}

    def amounts(self, resources: Resources) -> list[int]:
        """One number for each column; resources without a column are left out."""
        row = [0] * len(self.names)
        for name, quantity in resources.items():
            index = self.column.get(name)
            if index is not None:
                amount = quantity.milli if name == CPU else quantity.units
                row[index] = min(max(amount, 0), MOST)
        return row

    def need(self, resources: Resources) -> Need:
        """The requested amounts, without zeros."""
        return tuple([(index, amount) for index, amount in enumerate(self.amounts(resources)) if amount])

    def least(self, need: Need) -> Need:
        """The least need of its size class; equal ones are one object."""
        least = tuple([(column, _round_down(amount)) for column, amount in need])
        return self._least.setdefault(least, least)


def _round_down(amount: int) -> int:
    """The amount with its first `SIZE_CLASS_BITS` bits."""
    dropped = max(amount.bit_length() - SIZE_CLASS_BITS, 0)
    return amount >> dropped << dropped


def fits(free: Sequence[int], need: Need) -> bool:
    """Whether so much is free."""
    for column, amount in need:  # noqa: SIM110 - twice as fast as all(), in the innermost loops
        if free[column] < amount:
            return False
    return True


def any_negative(resources: Resources) -> bool:
    """Whether any amount is below zero."""
    return any(quantity.nano < 0 for quantity in resources.values())
