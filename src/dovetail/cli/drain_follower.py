"""Follows a node to its end and tells each time something changed about what it waits for. Reads only."""

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

LOOK_SECONDS = 1.0
T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True)
class Watched:
    """The node that goes, with its claim as it was when it was told to."""

    node: Node
    claim: NodeClaim


async def follow(cluster: Cluster, clock: Clock, watched: Watched, tell: Callable[[DrainView], None]) -> None:
    """Look once a second until neither node nor claim is there."""
    while True:
        try:
            view = await look(cluster, clock, watched)
        except (Throttled, Unavailable):
            pass  # the API server is away for a moment; the drain goes on without us
        else:
            if view is None:
                return
            tell(view)
        await asyncio.sleep(LOOK_SECONDS)


async def look(cluster: Cluster, clock: Clock, watched: Watched) -> DrainView | None:
    """What the node waits for now, or None when it is gone."""
    node = await _same(cluster, NODE, watched.node)
    claim = await _same(cluster, NODE_CLAIM, watched.claim)
    if node is None and claim is None:
        return None
    pods = await cluster.list(POD, ListOptions(field_selector=f"spec.nodeName={watched.node.name}"))
    budgets = await cluster.list(POD_DISRUPTION_BUDGET)
    return explain_drain(ClusterNode(node, claim, pods.items), budgets.items, clock.now())


async def _same(cluster: Cluster, kind: Kind[T], known: T) -> T | None:
    try:
        found = await cluster.get(kind, known.key)
    except NotFound:
        return None
    return found if found.metadata.uid == known.metadata.uid else None
