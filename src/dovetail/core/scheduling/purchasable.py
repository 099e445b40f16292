"""What a run may launch: for each NodePool the draft options that its limits leave.

The root options of a NodePool are computed once, and again after a draft was opened, because a new draft spends
limits at the size of its largest type. Option subsets are shared by all runs on one problem.

`without(nodes)` is the same for a command that removes nodes: they do not count against the limits of its
replacements. Equal remaining limits give the same object, which is part of the key of cached answers.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import DraftOptions, root_options
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.nodepool_limits import EXCEEDED, EXHAUSTED, RemainingLimits
from dovetail.core.scheduling.problem import Problem
from dovetail.model.snapshot import ClusterNode

Subsets = dict[tuple[InstanceTypeTable, bytes], DraftOptions]
"""Options by the types that limits leave. Expensive, so shared by all runs on one problem."""


class Purchasable:
    """The options that a new draft starts from, for each NodePool; kept until a draft of it is opened."""

    def __init__(self, base: Problem, limits: RemainingLimits | None = None, subsets: Subsets | None = None) -> None:
        self._base = base
        self._limits: RemainingLimits = (base.limits if limits is None else limits).copy()
        self._roots: dict[InstanceTypeTable, DraftOptions | str] = {}
        self._subsets: Subsets = {} if subsets is None else subsets
        self._without: dict[tuple[tuple[str, str, int], ...], Purchasable] = {}

    def without(self, nodes: Sequence[ClusterNode]) -> "Purchasable":
        """The same with these nodes not counted against limits. Equal answers are one object."""
        if not self._limits.remaining or not any(self._limits.limited(node.managed_by) for node in nodes):
            return self
        limits = self._limits.without(nodes)
        left = [(pool, name, each.nano) for pool, amounts in limits.remaining.items() for name, each in amounts.items()]
        if (known := tuple(left)) not in self._without:
            self._without[known] = Purchasable(self._base, limits, self._subsets)
        return self._without[known]

    def fresh(self) -> "Purchasable":
        """The same for a run of its own, which spends what is left."""
        return Purchasable(self._base, self._limits, self._subsets)

    def unlimited(self) -> "Purchasable":
        """The same without limits."""
        return Purchasable(self._base, RemainingLimits({}), self._subsets)

    @property
    def restricted(self) -> bool:
        """Whether limits leave out some type of some NodePool."""
        return bool(self._limits.remaining) and any(
            self.root(type_table) is not self._base.root(type_table) for type_table in self._base.type_tables
        )

    def root(self, type_table: InstanceTypeTable) -> DraftOptions | str:
        """Where a draft of this NodePool starts, or why its limits allow none."""
        known = self._roots.get(type_table)
        if known is None:
            known = self._roots[type_table] = self._root(type_table)
        return known

    def _root(self, type_table: InstanceTypeTable) -> DraftOptions | str:
        pool = type_table.template.pool.name
        if self._limits.exhausted(pool):
            return f"{EXHAUSTED}; {self._describe(type_table)}"
        allowed = self._limits.allowed(type_table)
        if allowed.all():
            return self._base.root(type_table)
        if not allowed.any():
            return f"{EXCEEDED}; {self._describe(type_table)}"
        asked = (type_table, allowed.tobytes())
        if asked not in self._subsets:
            self._subsets[asked] = root_options(type_table, allowed)
        return self._subsets[asked]

    def _describe(self, type_table: InstanceTypeTable) -> str:
        return self._limits.describe(
            [(type_table.template.pool.name, [each.type.capacity for each in type_table.choices])]
        )

    def blocking(self, drafts: Iterable[Draft]) -> str:
        """The limits that block drafts which a run without limits found."""
        return self._limits.describe(
            (each.pool_name, [choice.type.capacity for choice in each.choices]) for each in drafts
        )

    def buy(self, draft: Draft) -> None:
        """Count a draft that was opened against the limits of its NodePool."""
        if self._limits.limited(draft.pool_name):
            options = draft.options
            self._limits.spend(options.type_table, options.types[options.left(draft.total, draft.below, draft.ports)])
            self._roots.pop(draft.options.type_table, None)


class PurchaseTerms(msgspec.Struct, frozen=True, eq=False):
    """What may replace nodes: one node cheaper than `below`; nothing if that is None."""

    below: float | None
    purchasable: Purchasable
