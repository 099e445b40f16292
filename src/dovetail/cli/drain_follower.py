"""Polls a draining node once a second and reports what it waits for, until Node and NodeClaim are gone. Read-only."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dovetail.core.explain.drain import DrainView, explain_drain
from dovetail.model.kinds import NODE, NODE_CLAIM, POD, POD_DISRUPTION_BUDGET, Kind
from dovetail.model.kube_object import KubeObject
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster, ListOptions
from dovetail.ports.errors import NotFound, Throttled, Unavailable

POLL_SECONDS = 1.0
T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True)
class DrainingNode:
    """The Node and the NodeClaim at the time of the deletion; their UIDs identify them."""

    node: Node
    claim: NodeClaim


async def follow(cluster: Cluster, clock: Clock, draining: DrainingNode, report: Callable[[DrainView], None]) -> None:
    """Report the drain once a second until Node and NodeClaim are gone."""
    while True:
        try:
            view = await read_drain(cluster, clock, draining)
        except (Throttled, Unavailable):
            pass  # the API server does not answer; the drain continues without this command
        else:
            if view is None:
                return
            report(view)
        await asyncio.sleep(POLL_SECONDS)


async def read_drain(cluster: Cluster, clock: Clock, draining: DrainingNode) -> DrainView | None:
    """Read what the node waits for; None if Node and NodeClaim are gone."""
    node = await _get_same(cluster, NODE, draining.node)
    claim = await _get_same(cluster, NODE_CLAIM, draining.claim)
    if node is None and claim is None:
        return None
    pods = await cluster.list(POD, ListOptions(field_selector=f"spec.nodeName={draining.node.name}"))
    budgets = await cluster.list(POD_DISRUPTION_BUDGET)
    return explain_drain(ClusterNode(node, claim, pods.items), budgets.items, clock.now())


async def _get_same(cluster: Cluster, kind: Kind[T], known: T) -> T | None:
    """Return the object if it still exists with the same UID."""
    try:
        found = await cluster.get(kind, known.key)
    except NotFound:
        return None
    return found if found.metadata.uid == known.metadata.uid else None
