"""What each NodePool can buy, as its provider says now."""

import logging
from collections.abc import Iterable

from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.errors import WorldError

log = logging.getLogger(__name__)


async def find_catalogs(cloud: CloudProvider, pools: Iterable[NodePool]) -> dict[str, tuple[InstanceType, ...]]:
    """The catalogue of each pool of this provider. One that cannot be had now is left out, and so told."""
    catalogs: dict[str, tuple[InstanceType, ...]] = {}
    for pool in tuple(pools):  # they may change while the provider answers
        if not cloud.supports(pool.node_class_ref):
            continue
        try:
            catalogs[pool.name] = await cloud.instance_types(pool)
        except WorldError as error:
            log.warning("no catalogue for nodepool", extra={"nodepool": pool.name, "error": str(error)})
        except AssertionError:
            raise
        except Exception:
            log.exception("no catalogue for nodepool", extra={"nodepool": pool.name})
    return catalogs
