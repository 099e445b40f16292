"""A cluster in which kinds that are not installed have no objects, instead of raising `NotFound`.

Node classes are always optional: the CRDs and the permissions of Karpenter's charts are those of one provider, so a
node class that may not be listed counts as not installed, too. ConfigMaps, which only pause disruption, are optional
for the same reason, as long as listing them was never allowed; once it was, a refusal is an error, so that the cache
becomes stale and disruption stops. Every other kind is optional only for commands that write nothing: a controller must
know that it is missing. Every 30 seconds the informer lists a missing kind again, so it appears once it is installed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from dovetail.model.kinds import CONFIG_MAP, EC2_NODE_CLASS, KWOK_NODE_CLASS, Kind
from dovetail.model.kube_object import KubeObject
from dovetail.ports.cluster import EVERYTHING, Cluster, Listing, ListOptions, WatchEvent
from dovetail.ports.errors import ApiError, Denied, Forbidden, NotFound
from dovetail.runtime.write_gate import GatedCluster, WriteGate

log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeObject)
RECHECK_SECONDS = 30.0
NODE_CLASSES: tuple[Kind[Any], ...] = (KWOK_NODE_CLASS, EC2_NODE_CLASS)


class OptionalKindsCluster(GatedCluster):
    """Reads installed kinds. With `every_kind`, any kind may be missing, and its gate must be closed."""

    def __init__(self, cluster: Cluster, gate: WriteGate, *, every_kind: bool) -> None:
        super().__init__(cluster, gate)
        self._every_kind = every_kind
        self._absent: set[Kind[Any]] = set()
        self._config_maps_allowed = False

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Return every object of the kind; none if the kind is not installed."""
        try:
            listing = await super().list(kind, options)
        except (NotFound, Denied) as error:
            if not self._is_optional(kind, error):
                raise
            if kind not in self._absent:
                self._log_absent(kind, error)
            self._absent.add(kind)
            return Listing((), "")
        self._absent.discard(kind)
        self._config_maps_allowed |= kind is CONFIG_MAP
        return listing

    def _is_optional(self, kind: Kind[Any], error: ApiError) -> bool:
        if kind is CONFIG_MAP and isinstance(error, Forbidden):
            return not self._config_maps_allowed
        return kind in NODE_CLASSES or (self._every_kind and not isinstance(error, Denied))

    def _log_absent(self, kind: Kind[Any], error: ApiError) -> None:
        facts = {"kind": f"{kind.plural}.{kind.group}"}
        if kind in NODE_CLASSES:
            log.info("node classes of a provider are not available", extra={**facts, "error": str(error)})
            return
        if kind is CONFIG_MAP:
            remedy = "allow list and watch of ConfigMaps in the namespace of the Lease, or annotate NodePools instead"
            log.warning("disruption cannot be paused by a ConfigMap", extra={"error": str(error), "remedy": remedy})
            return
        remedy = "install them with:  dovetail crds | kubectl apply --server-side -f -"
        log.warning("kind is not installed", extra={**facts, "remedy": remedy})

    async def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Yield changes; for a kind that is not installed, end the watch after 30 seconds without any."""
        if kind in self._absent:
            await asyncio.sleep(RECHECK_SECONDS)
            return
        async for change in super().watch(kind, since, options):
            yield change
