"""Simulated interruptions: a label on a Node triggers an interruption notice for its instance.

    kubectl label node NAME dovetail.sh/interrupt=spot_interrupted

It is a label and not an annotation, so that the API server can select the labeled nodes. Acknowledging a notice removes
the label. A label with an unknown value is logged and removed, and causes no interruption.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta

from dovetail.cloud.kwok.node import PROVIDER_PREFIX
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key
from dovetail.model.labels import INTERRUPT
from dovetail.model.node import Node
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster, ListOptions, Patch
from dovetail.ports.errors import Gone, NotFound
from dovetail.ports.interruption import Delivery, Interruption, InterruptionKind

SPOT_NOTICE = timedelta(minutes=2)
_MIN_PAUSE, _MAX_PAUSE = 1.0, 30.0  # seconds
_LABELED = ListOptions(label_selector=INTERRUPT)
_WITH_NOTICE = frozenset({InterruptionKind.SPOT_INTERRUPTED, InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED})
_KINDS = {str(kind): kind for kind in InterruptionKind}

log = logging.getLogger(__name__)


class StagedInterruptions:
    """The labeled Nodes as an interruption source."""

    shared = True

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nodes: AsyncIterator[Node] | None = None

    async def receive(self) -> Sequence[Delivery]:
        """The next labeled node. After a failure every node that is still labeled is returned again."""
        if self._nodes is None:
            self._nodes = self._labeled_nodes()
        try:
            node = await anext(self._nodes)
        except BaseException:
            self._nodes = None
            raise
        return [self._delivery(node)]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Remove the labels; a node that no longer exists is skipped."""
        for delivery in deliveries:
            try:
                patch = Patch({"metadata": {"labels": {INTERRUPT: None}}})
                await self._cluster.patch(NODE, Key("", delivery.id), patch)
            except NotFound:
                continue

    async def _labeled_nodes(self) -> AsyncIterator[Node]:
        """Yield every labeled node; yield those that are still labeled again whenever a watch ends.

        A watch that ends at once without an event is followed by a pause that doubles each time, so that an API server
        that answers every watch with 410 is not flooded with requests.
        """
        pause = 0.0
        while True:
            listing = await self._cluster.list(NODE, _LABELED)
            for node in listing.items:
                yield node
            received, started_at = False, self._clock.now()
            with suppress(Gone):
                async for change in self._cluster.watch(NODE, listing.resource_version, _LABELED):
                    received = True
                    if change.type == "ADDED" and isinstance(change.object, Node):
                        yield change.object
            lasted = (self._clock.now() - started_at).total_seconds() >= _MAX_PAUSE
            pause = 0.0 if received or lasted else min(max(_MIN_PAUSE, pause * 2), _MAX_PAUSE)
            await asyncio.sleep(pause)

    def _delivery(self, node: Node) -> Delivery:
        value = node.metadata.labels.get(INTERRUPT, "")
        kind = _KINDS.get(value)
        if kind is None or not node.provider_id.startswith(PROVIDER_PREFIX):
            known = ", ".join(_KINDS)
            log.warning("unknown interruption label ignored", extra={"node": node.name, "label": value, "known": known})
            return Delivery(node.name, None)
        at = self._clock.now() + SPOT_NOTICE if kind in _WITH_NOTICE else None
        return Delivery(node.name, Interruption(kind, (node.provider_id.removeprefix(PROVIDER_PREFIX),), at))
