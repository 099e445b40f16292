"""A cluster of which some kinds are not installed: they have no objects, instead of being an error.

For looking only. Whoever acts must know that a kind is missing. Whether it was installed since is seen now and then.
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
    """Reads what there is; writes nothing while its gate is closed."""

    def __init__(self, cluster: Cluster, gate: WriteGate) -> None:
        super().__init__(cluster, gate)
        self._absent: set[Kind[Any]] = set()

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Every object of the kind; none where it is not installed."""
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
        """Changes; none for a while where it is not installed, and then the end of the watch."""
        if kind in self._absent:
            await asyncio.sleep(RECHECK_SECONDS)
            return
        async for change in super().watch(kind, since, options):
            yield change
