"""The lower bound of the cost of a simulation, sample by sample.

`SimulationFloor` keeps the `Floor` of the last sample: a simulation takes 60 or more samples, and NodePools and prices
hardly ever change in between. It compares what the floor is read from by value, so a NodePool that was edited, a price
that changed or an instance that is no longer offered gives another floor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.core.cost_floor.discontinued_types import add_discontinued, is_still_offered, kind_of
from dovetail.core.cost_floor.floor import Floor
from dovetail.core.cost_floor.linear_program import BoundUnavailable
from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider
from dovetail.sim.scenario.meter import BilledInstance


@dataclass(frozen=True)
class FloorInputs:
    """What a `Floor` is read from."""

    pools: Mapping[str, NodePool]
    catalogs: Mapping[str, tuple[InstanceType, ...]]
    past: Sequence[BilledInstance]  # those that are no longer offered

    def equivalent_to(self, other: "FloorInputs") -> bool:
        """Whether both have the same offers. The counts of a NodePool do not matter."""
        return (
            self.pools.keys() == other.pools.keys()
            and all(pool.equal_ignoring_counts(other.pools[name]) for name, pool in self.pools.items())
            and self.catalogs == other.catalogs
            and self.terms() == other.terms()
        )

    def terms(self) -> list[Any]:
        """What `add_discontinued` reads of an instance."""
        return [(kind_of(each), each.claim.name, each.claim.status.allocatable) for each in self.past]


class SimulationFloor:
    """Computes the lower bound of the cost of pods, with the current NodePools and prices."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider
        self._inputs: FloorInputs | None = None
        self._floor: Floor | None = None

    async def of(self, pods: Sequence[tuple[Pod, float]], instances: Iterable[BilledInstance]) -> float | None:
        """Return dollars per hour for pods, each with the fraction of the time that it ran; None if unknown."""
        pools = {key.name: pool for key, pool in sorted(self._state.nodepools.items.items())}
        catalogs = {name: await self._provider.instance_types(pool) for name, pool in pools.items()}
        kinds = {(each.pool, kind_of(each)): each for each in instances}  # many instances, few kinds
        past = [each for each in kinds.values() if not is_still_offered(each, pools, catalogs)]
        inputs = FloorInputs(pools, catalogs, past)
        if self._floor is None or self._inputs is None or not inputs.equivalent_to(self._inputs):
            self._inputs, self._floor = inputs, Floor(*add_discontinued(pools, catalogs, past))
        try:
            return self._floor.on_average(pods)
        except BoundUnavailable:
            return None
