"""What each NodePool lets a run buy: the options its limits leave, and what buying costs them."""

from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.limits import EXCEEDED, EXHAUSTED, Limits
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options, root_options


class Shop:
    """Options to start a draft from. Worked out once and kept until something is bought from that NodePool."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._limits: Limits = base.limits.copy()
        self._roots: dict[Market, Options | str] = {}
        self._subsets: dict[tuple[Market, bytes], Options] = {}

    def root(self, market: Market) -> Options | str:
        """Where a draft of this NodePool starts, or why its limits allow none."""
        known = self._roots.get(market)
        if known is None:
            known = self._roots[market] = self._root(market)
        return known

    def _root(self, market: Market) -> Options | str:
        pool = market.template.pool.name
        if self._limits.exhausted(pool):
            return EXHAUSTED
        allowed = self._limits.allowed(market)
        if allowed.all():
            return self._base.root(market)
        if not allowed.any():
            return EXCEEDED
        asked = (market, allowed.tobytes())
        if asked not in self._subsets:
            self._subsets[asked] = root_options(market, allowed)
        return self._subsets[asked]

    def buy(self, draft: Draft) -> None:
        """Count a draft that was opened against the limits of its NodePool."""
        if self._limits.limited(draft.pool_name):
            options = draft.options
            self._limits.spend(options.market, options.types[options.left(draft.total, draft.below, draft.ports)])
            self._roots.pop(draft.options.market, None)
