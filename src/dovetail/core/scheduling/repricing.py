"""Repricing: what stays of earlier results when offerings have other prices and nothing else of the catalogs changed.

Whether a pod fits depends on prices in one way: a draft may become the offerings that cost less than a bound. So the
removal of a node ends as before, with the same pods on the same rows and in the same draft, unless the price of the
node changed or the price of an offering crossed it. A draft is rewritten for the new table, in which the offerings are
sorted by their new prices: it keeps its pods, its requirements, and the offerings that are left.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.core.scheduling.catalog_table import PriceChange, price_changes
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.model.catalog import InstanceType

Catalogs = Mapping[str, tuple[InstanceType, ...]]
"""The instance types of each NodePool."""


def catalog_changes(before: Catalogs, after: Catalogs) -> list[PriceChange] | None:
    """The prices in which the catalogs differ; None if they differ in anything else."""
    if before.keys() != after.keys():
        return None
    # NodePools share their instance types: equal pairs of objects are compared once.
    pairs = {(id(types), id(after[pool])): (types, after[pool]) for pool, types in before.items()}
    found = [price_changes(old, new) for old, new in pairs.values()]
    return None if None in found else [change for changes in found if changes is not None for change in changes]


class Repricing:
    """Judges prices and rewrites drafts after a change of prices. `tables` has the new table for each old one."""

    def __init__(self, changes: Sequence[PriceChange], tables: Mapping[InstanceTypeTable, InstanceTypeTable]) -> None:
        self._before, self._after = np.array(changes, dtype=np.float64).reshape(-1, 2).T
        self._tables = tables
        self._affected: dict[float, bool] = {}
        self._options: dict[DraftOptions, DraftOptions] = {}
        self._rewritten: dict[tuple[DraftOptions, int], tuple[DraftOptions, int]] = {}

    def affects(self, price: float) -> bool:
        """Whether an offering had this price, or is cheaper than it now and was not, or was and no longer is."""
        if price not in self._affected:
            crossed = (self._before < price) != (self._after < price)
            self._affected[price] = bool((crossed | (self._before == price)).any())
        return self._affected[price]

    def rewrite(self, draft: Draft) -> Draft:
        """The draft in the new table. No price has crossed its bound: the type that held its pods still does."""
        key = draft.options, draft.witness
        known = self._rewritten.get(key)
        if known is None:
            known = self._rewritten[key] = self._rewrite(*key)
        return draft.with_options(*known)

    def _rewrite(self, old: DraftOptions, witness: int) -> tuple[DraftOptions, int]:
        options = self._options.get(old)
        if options is None:
            table = self._tables[old.type_table]
            left = np.isin(table.numbers, old.type_table.numbers[old.offerings])
            options = self._options[old] = DraftOptions(table, old.requirements, left)
        return options, int(np.flatnonzero(options.types == old.types[witness])[0])
