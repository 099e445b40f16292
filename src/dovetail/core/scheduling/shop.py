"""What each NodePool lets a run buy: the options its limits leave, and what buying costs them."""

from collections.abc import Iterable, Sequence

import msgspec

from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.limits import EXCEEDED, EXHAUSTED, Limits
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options, root_options
from dovetail.model.snapshot import ClusterNode

Subsets = dict[tuple[Market, bytes], Options]
"""Options by the types that limits leave. Expensive, so shared by every shop of a base."""


class Shop:
    """Options to start a draft from. Worked out once and kept until something is bought from that NodePool."""

    def __init__(self, base: Base, limits: Limits | None = None, subsets: Subsets | None = None) -> None:
        self._base = base
        self._limits: Limits = (base.limits if limits is None else limits).copy()
        self._roots: dict[Market, Options | str] = {}
        self._subsets: Subsets = {} if subsets is None else subsets
        self._without: dict[tuple[tuple[str, str, int], ...], Shop] = {}

    def without(self, nodes: Sequence[ClusterNode]) -> "Shop":
        """What may be bought in exchange for these nodes: they do not count. Equal answers are one object."""
        if not self._limits.remaining or not any(self._limits.limited(node.managed_by) for node in nodes):
            return self
        limits = self._limits.without(nodes)
        left = [(pool, name, each.nano) for pool, amounts in limits.remaining.items() for name, each in amounts.items()]
        if (known := tuple(left)) not in self._without:
            self._without[known] = Shop(self._base, limits, self._subsets)
        return self._without[known]

    def fresh(self) -> "Shop":
        """The same for a run of its own, which spends what is left."""
        return Shop(self._base, self._limits, self._subsets)

    def unlimited(self) -> "Shop":
        """The same without limits."""
        return Shop(self._base, Limits({}), self._subsets)

    @property
    def restricted(self) -> bool:
        """Whether limits leave out some type of some NodePool."""
        return bool(self._limits.remaining) and any(
            self.root(market) is not self._base.root(market) for market in self._base.markets
        )

    def root(self, market: Market) -> Options | str:
        """Where a draft of this NodePool starts, or why its limits allow none."""
        known = self._roots.get(market)
        if known is None:
            known = self._roots[market] = self._root(market)
        return known

    def _root(self, market: Market) -> Options | str:
        pool = market.template.pool.name
        if self._limits.exhausted(pool):
            return f"{EXHAUSTED}; {self._describe(market)}"
        allowed = self._limits.allowed(market)
        if allowed.all():
            return self._base.root(market)
        if not allowed.any():
            return f"{EXCEEDED}; {self._describe(market)}"
        asked = (market, allowed.tobytes())
        if asked not in self._subsets:
            self._subsets[asked] = root_options(market, allowed)
        return self._subsets[asked]

    def _describe(self, market: Market) -> str:
        return self._limits.describe([(market.template.pool.name, [each.type.capacity for each in market.choices])])

    def blocking(self, drafts: Iterable[Draft]) -> str:
        """The limits that keep drafts from being bought which a run without limits found."""
        return self._limits.describe(
            (each.pool_name, [choice.type.capacity for choice in each.choices]) for each in drafts
        )

    def buy(self, draft: Draft) -> None:
        """Count a draft that was opened against the limits of its NodePool."""
        if self._limits.limited(draft.pool_name):
            options = draft.options
            self._limits.spend(options.market, options.types[options.left(draft.total, draft.below, draft.ports)])
            self._roots.pop(draft.options.market, None)


class Purchase(msgspec.Struct, frozen=True, eq=False):
    """What may be bought for the pods of nodes that go: a node cheaper than `below`; nothing if that is None."""

    below: float | None
    shop: Shop
