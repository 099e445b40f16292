"""The cluster looked at once: every kind listed, nothing watched, nothing written.

Kinds are listed one after the other, what is named by others after what names it: a pod's node and a node's claim are
older than the pod's binding and the node, so they are found unless they were deleted in between.
"""

import logging
from typing import Any

from dovetail.controllers.catalogs import find_catalogs
from dovetail.model.inventory import INVENTORY, Inventory, build_snapshot
from dovetail.model.kinds import NODE_POOL, Kind
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import KubeObject
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import NotFound

log = logging.getLogger(__name__)
_INSTALL = "install the custom resources with:  dovetail crds | kubectl apply --server-side -f -"


async def list_snapshot(cluster: Cluster, cloud: CloudProvider, clock: Clock) -> Snapshot:
    """The cluster as it is now. Needs no more than permission to list. Nothing in it is younger than its instant."""
    inventory = Inventory({kind: await _list(cluster, kind) for kind in INVENTORY})
    catalogs = await find_catalogs(cloud, inventory.of(NODE_POOL))
    return build_snapshot(inventory, clock.now(), catalogs, WELL_KNOWN | cloud.well_known_labels)


async def _list(cluster: Cluster, kind: Kind[Any]) -> tuple[KubeObject, ...]:
    try:
        listing = await cluster.list(kind)
    except NotFound:
        raise NotFound(f"the cluster has no {kind.plural}.{kind.group}; {_INSTALL}") from None
    for bad in listing.unreadable:
        log.error("left out %s %s, which cannot be read: %s", kind, bad.key, "; ".join(map(str, bad.faults)))
    return listing.items
