"""What the pods of a story could not have cost less than, from look to look.

Pods may be on whatever can be bought at the time, and on whatever runs although it can be bought no more: a NodePool
that allowed it has changed or is gone, it is sold out, or it came with a snapshot. So no story is below its floor.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dovetail.core.cost_floor.discontinued_types import Catalogs, Pools, is_sold, kind_of, with_past
from dovetail.core.cost_floor.floor import BoundUnavailable, Floor
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider
from dovetail.sim.scenario.meter import BilledInstance


class SimulationFloor:
    """The floor of what pods can cost, made anew only when pools, prices or machines of the past change."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider
        self._market: Any = None
        self._on_sale: dict[str, bool] = {}  # by the uid of a claim: whether its like can be bought now
        self._of: Any = None
        self._floor: Floor | None = None

    async def of(self, pods: Sequence[tuple[Pod, float]], machines: Iterable[BilledInstance]) -> float | None:
        """Dollars an hour for pods that were there for a share of the time, as were these machines."""
        pools = {key.name: pool for key, pool in sorted(self._state.nodepools.items.items())}
        catalogs = {name: await self._provider.instance_types(pool) for name, pool in pools.items()}
        market = tuple((name, pool.metadata.generation, id(catalogs[name])) for name, pool in pools.items())
        if market != self._market:
            self._market, self._on_sale = market, {}
        past = {kind_of(each): each for each in self._sold_no_more(machines, pools, catalogs)}
        if self._floor is None or (market, frozenset(past)) != self._of:
            self._of = (market, frozenset(past))
            self._floor = Floor(*with_past(pools, catalogs, past.values()))
        try:
            return self._floor.on_average(pods)
        except BoundUnavailable:
            return None

    def _sold_no_more(
        self, machines: Iterable[BilledInstance], pools: Pools, catalogs: Catalogs
    ) -> Iterator[BilledInstance]:
        on_sale = self._on_sale
        for machine in machines:
            uid = machine.claim.metadata.uid
            if uid not in on_sale:
                on_sale[uid] = is_sold(machine, pools, catalogs)
            if not on_sale[uid]:
                yield machine
