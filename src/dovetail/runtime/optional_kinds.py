"""A read-only cluster in which kinds that are not installed have no objects, instead of raising `NotFound`.

Only for commands that write nothing: a controller must know that a kind is missing. Every 30 seconds the informer lists
a missing kind again, so it appears once it is installed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import KubeObject
from dovetail.ports.cluster import EVERYTHING, Cluster, Listing, ListOptions, WatchEvent
from dovetail.ports.errors import NotFound
from dovetail.runtime.write_gate import GatedCluster, WriteGate

log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeObject)
RECHECK_SECONDS = 30.0


class OptionalKindsCluster(GatedCluster):
    """Reads installed kinds; its gate must be closed, so that nothing is written."""

    def __init__(self, cluster: Cluster, gate: WriteGate) -> None:
        super().__init__(cluster, gate)
        self._absent: set[Kind[Any]] = set()

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Return every object of the kind; none if the kind is not installed."""
        try:
            listing = await super().list(kind, options)
        except NotFound:
            if kind not in self._absent:
                remedy = "install them with:  dovetail crds | kubectl apply --server-side -f -"
                log.warning("kind is not installed", extra={"kind": f"{kind.plural}.{kind.group}", "remedy": remedy})
            self._absent.add(kind)
            return Listing((), "")
        self._absent.discard(kind)
        return listing

    async def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Yield changes; for a kind that is not installed, end the watch after 30 seconds without any."""
        if kind in self._absent:
            await asyncio.sleep(RECHECK_SECONDS)
            return
        async for change in super().watch(kind, since, options):
            yield change
