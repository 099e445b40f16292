"""Builds a snapshot from one list of every kind, without watches or writes, for commands such as `dovetail plan`.

Referenced kinds are listed after the kinds that refer to them: a pod's Node and a Node's NodeClaim exist before the
binding and the Node, so a later list contains them unless they were deleted in between.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dovetail.controllers.context import read_catalogs
from dovetail.model.catalog import InstanceType
from dovetail.model.kinds import CONFIG_MAP, NODE_POOL, Kind
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.pause import PAUSE, SWITCH
from dovetail.model.snapshot import Snapshot
from dovetail.model.snapshot_builder import INVENTORY, ClusterObjects, build_snapshot
from dovetail.model.unreadable_objects import completed, unread
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, UnusableProvider
from dovetail.ports.cluster import Cluster, Listing, ListOptions
from dovetail.ports.errors import Denied, NotFound

log = logging.getLogger(__name__)
_NO_OFFERING = (
    "no instance type is available; check that its node class is ready, and that the region is that of the cluster"
)
_INSTALL = "install the custom resources with:  dovetail crds | kubectl apply --server-side -f -"


async def list_snapshot(
    cluster: Cluster,
    cloud: CloudProvider,
    clock: Clock,
    namespace: str = "default",
    unusable: Sequence[UnusableProvider] = (),
) -> Snapshot:
    """Return the cluster as it is now. Needs permission to list only. No object is newer than `Snapshot.at`."""
    listings = {kind: await _list(cluster, kind) for kind in INVENTORY}
    inventory = ClusterObjects(
        {kind: completed(kind, listing.items, listing.unreadable) for kind, listing in listings.items()}
    )
    catalogs, missing = await read_catalogs(cloud, inventory.of(NODE_POOL), unusable)
    missing |= {name: _NO_OFFERING for name, types in catalogs.items() if not _is_available(types)}
    catalogs = {name: types for name, types in catalogs.items() if name not in missing}
    built = build_snapshot(inventory, clock.now(), catalogs, WELL_KNOWN | cloud.well_known_labels)
    return replace(
        built,
        missing_catalogs=missing,
        pause=await _pause(cluster, namespace),
        repair_statements=cloud.repair_statements(),
        unreadable=tuple(unread(kind, bad) for kind, listing in listings.items() for bad in listing.unreadable),
    )


def _is_available(types: Iterable[InstanceType]) -> bool:
    return any(offering.available for each in types for offering in each.offerings)


async def _pause(cluster: Cluster, namespace: str) -> str | None:
    """Return the pause annotation, or None without permission to read it: a snapshot disrupts nothing."""
    options = ListOptions(namespace=namespace, field_selector=f"metadata.name={SWITCH}")
    try:
        found = await cluster.list(CONFIG_MAP, options)
    except Denied as error:
        log.warning("no permission to read whether disruption is paused: %s", error)
        return None
    return next((each.metadata.annotations.get(PAUSE) for each in found.items), None)


async def _list(cluster: Cluster, kind: Kind[Any]) -> Listing[Any]:
    try:
        listing = await cluster.list(kind)
    except NotFound:
        raise NotFound(f"the cluster has no {kind.plural}.{kind.group}; {_INSTALL}") from None
    for bad in listing.unreadable:
        log.error("%s %s cannot be read: %s", kind, bad.key, "; ".join(map(str, bad.faults)))
    return listing
