"""The instance types that a run may launch: for each NodePool the draft options that its limits leave.

The root options of a NodePool are computed once, and again after each new draft, because a new draft spends limits at
the size of its largest type. Option subsets are shared by all runs on one problem.

`without(nodes)` is the same for a command that removes nodes: they do not count against the limits of its
replacements. Equal remaining limits give the same object, so that its cached options are shared.
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
"""Root options by table and the mask of types that limits leave. Expensive, so shared by all runs on one problem."""


class Purchasable:
    """The options that a new draft of each NodePool starts from, cached until a draft of it is opened."""

    def __init__(self, problem: Problem, limits: RemainingLimits | None = None, subsets: Subsets | None = None) -> None:
        self._problem = problem
        self._limits: RemainingLimits = (problem.limits if limits is None else limits).copy()
        self._roots: dict[InstanceTypeTable, DraftOptions | str] = {}
        self._subsets: Subsets = {} if subsets is None else subsets
        self._without: dict[tuple[tuple[str, str, int], ...], Purchasable] = {}

    def without(self, nodes: Sequence[ClusterNode]) -> "Purchasable":
        """The same with these nodes not counted against limits."""
        if not self._limits.remaining or not any(self._limits.limited(node.managed_by) for node in nodes):
            return self
        limits = self._limits.without(nodes)
        left = [(pool, name, each.nano) for pool, amounts in limits.remaining.items() for name, each in amounts.items()]
        if (known := tuple(left)) not in self._without:
            self._without[known] = Purchasable(self._problem, limits, self._subsets)
        return self._without[known]

    def copy(self) -> "Purchasable":
        """A copy for a run that opens several drafts and spends limits."""
        return Purchasable(self._problem, self._limits, self._subsets)

    def unlimited(self) -> "Purchasable":
        """A copy without limits."""
        return Purchasable(self._problem, RemainingLimits({}), self._subsets)

    @property
    def restricted(self) -> bool:
        """Whether limits exclude some type of some NodePool."""
        return bool(self._limits.remaining) and any(
            self.root(type_table) is not self._problem.root(type_table) for type_table in self._problem.type_tables
        )

    def root(self, type_table: InstanceTypeTable) -> DraftOptions | str:
        """The options of a new draft of this NodePool, or why its limits allow none."""
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
            return self._problem.root(type_table)
        if not allowed.any():
            return f"{EXCEEDED}; {self._describe(type_table)}"
        key = (type_table, allowed.tobytes())
        if key not in self._subsets:
            self._subsets[key] = root_options(type_table, allowed)
        return self._subsets[key]

    def _describe(self, type_table: InstanceTypeTable) -> str:
        return self._limits.describe(
            [(type_table.template.pool.name, [each.type.capacity for each in type_table.choices])]
        )

    def describe_blocking_limits(self, drafts: Iterable[Draft]) -> str:
        """Which limits exclude these drafts, which a run without limits opened."""
        return self._limits.describe(
            (each.pool_name, [choice.type.capacity for choice in each.choices]) for each in drafts
        )

    def spend(self, draft: Draft) -> None:
        """Count a new draft against the limits of its NodePool."""
        if self._limits.limited(draft.pool_name):
            options = draft.options
            self._limits.spend(options.type_table, options.types[options.left(draft.total, draft.below, draft.ports)])
            self._roots.pop(draft.options.type_table, None)


class PurchaseTerms(msgspec.Struct, frozen=True, eq=False):
    """What may replace a removed node: one node cheaper than `below`; nothing if `below` is None."""

    below: float | None
    purchasable: Purchasable
