"""Nodes that are promised and not there yet: the registration delay of a KWOKNodeClass, waited for in the background.

A wait ends in a Node, or in nothing if the claim is gone by then. Failures of the API are tried again; an object the
API will never take is reported and given up, which the claim's registration deadline then cleans up.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import AlreadyExists, ApiError, Denied, Invalid, NotFound

_FIRST_PAUSE = 1.0  # seconds
_LONGEST_PAUSE = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    node: Node
    task: asyncio.Task[None]


class DelayedRegistrations:
    """The nodes on their way, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, _Waiting] = {}

    def schedule(self, claim: NodeClaim, node: Node, delay: timedelta) -> None:
        """Create the node after the delay; one that is on its way already stays as it is."""
        if node.name in self._waiting:
            return
        task = asyncio.create_task(self._register(claim, node, delay), name=f"register {node.name}")
        self._waiting[node.name] = _Waiting(node, task)
        task.add_done_callback(lambda done: self._forget(node.name, done))

    def waiting(self, name: str) -> Node | None:
        """The node of that name, while it is on its way."""
        found = self._waiting.get(name)
        return found.node if found else None

    def all_waiting(self) -> tuple[Node, ...]:
        """Every node on its way."""
        return tuple(each.node for each in self._waiting.values())

    def cancel(self, name: str) -> bool:
        """Give up a node that is on its way; whether there was one."""
        found = self._waiting.pop(name, None)
        return found is not None and found.task.cancel()

    async def aclose(self) -> None:
        """Give up all of them and wait until none is left running."""
        tasks = [each.task for each in self._waiting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.clear()

    def _forget(self, name: str, done: asyncio.Task[None]) -> None:
        found = self._waiting.get(name)
        if found is not None and found.task is done:
            del self._waiting[name]

    async def _register(self, claim: NodeClaim, node: Node, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._create(claim, node)
            except (Invalid, Denied) as error:
                return _log.error("node refused", extra={"node": node.name, "error": str(error)})
            except ApiError as error:
                _log.warning("node not created yet", extra={"node": node.name, "error": str(error)})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _create(self, claim: NodeClaim, node: Node) -> None:
        try:
            current = await self._cluster.get(NODE_CLAIM, claim.key)
        except NotFound:
            return
        if current.metadata.uid != claim.metadata.uid:
            return
        try:
            await self._cluster.create(NODE, node)
        except AlreadyExists:
            return
