"""What the pods of a story could not have cost less than, from look to look.

Pods may be on whatever can be bought at the time, and on whatever runs although it can be bought no more: a NodePool
that allowed it has changed or is gone, it is sold out, or it came with a snapshot. So no story is below its floor.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dovetail.core.cost_floor.discontinued_types import is_sold, kind_of, with_past
from dovetail.core.cost_floor.floor import BoundUnavailable, Floor
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider
from dovetail.sim.scenario.meter import BilledInstance


class SimulationFloor:
    """The floor of what pods can cost, looked up with the pools and prices of the moment."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider

    async def of(self, pods: Sequence[tuple[Pod, float]], machines: Iterable[BilledInstance]) -> float | None:
        """Dollars an hour for pods that were there for a share of the time, as were these machines."""
        pools = {key.name: pool for key, pool in sorted(self._state.nodepools.items.items())}
        catalogs = {name: await self._provider.instance_types(pool) for name, pool in pools.items()}
        kinds = {(each.pool, kind_of(each)): each for each in machines}  # many machines, few kinds
        past = [each for each in kinds.values() if not is_sold(each, pools, catalogs)]
        try:
            return Floor(*with_past(pools, catalogs, past)).on_average(pods)
        except BoundUnavailable:
            return None
