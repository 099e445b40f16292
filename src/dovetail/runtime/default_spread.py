"""A cluster whose pods have the default topology spread of kube-scheduler, where they have no constraints."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeVar, cast

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.pod import Pod
from dovetail.ports.cluster import EVERYTHING, Cluster, Listing, ListOptions, WatchEvent
from dovetail.runtime.write_gate import GatedCluster, WriteGate
from dovetail.scheduler_config import Constraints, parse_scheduler_config, with_default_spread

T = TypeVar("T", bound=KubeObject)


class DefaultSpreadCluster(GatedCluster):
    """Adds the constraints to pods that are read; its own gate is always open."""

    def __init__(self, cluster: Cluster, constraints: Constraints) -> None:
        gate = WriteGate()
        gate.open()
        super().__init__(cluster, gate)
        self._constraints = constraints

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Return every object of the kind."""
        listing = await super().list(kind, options)
        return replace(listing, items=tuple(map(self._spread, listing.items)))

    async def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Yield changes."""
        async for change in super().watch(kind, since, options):
            yield replace(change, object=self._spread(change.object)) if isinstance(change.object, Pod) else change

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Return one object."""
        return self._spread(await super().get(kind, key))

    def _spread(self, value: T) -> T:
        return cast("T", with_default_spread(value, self._constraints)) if isinstance(value, Pod) else value


def spread_by_default(cluster: Cluster, scheduler_config: str) -> Cluster:
    """The cluster with the default constraints of a configuration, or the cluster itself if there are none."""
    constraints = parse_scheduler_config(scheduler_config)
    return DefaultSpreadCluster(cluster, constraints) if constraints else cluster
