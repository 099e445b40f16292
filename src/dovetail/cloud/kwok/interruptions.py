"""Interruptions staged by hand: a label on a Node says what is about to happen to its instance.

    kubectl label node NAME dovetail.sh/interrupt=spot_interrupted

A label and not an annotation, so that the API server picks out the few nodes that carry it. Acknowledging takes the
label off again. What the label says and nobody knows is told in the log and taken off: it asks for nothing.
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
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds
_LABELLED = ListOptions(label_selector=INTERRUPT)
_WITH_NOTICE = frozenset({InterruptionKind.SPOT_INTERRUPTED, InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED})
_KINDS = {str(kind): kind for kind in InterruptionKind}

log = logging.getLogger(__name__)


class StagedInterruptions:
    """The labels of Nodes as a source of warnings."""

    shared = True

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nodes: AsyncIterator[Node] | None = None

    async def receive(self) -> Sequence[Delivery]:
        """The next node that is labelled. After a failure everything that is still labelled comes again."""
        if self._nodes is None:
            self._nodes = self._labelled()
        try:
            node = await anext(self._nodes)
        except BaseException:
            self._nodes = None
            raise
        return [self._delivery(node)]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Take the labels off; a node that is gone needs none."""
        for delivery in deliveries:
            try:
                patch = Patch({"metadata": {"labels": {INTERRUPT: None}}})
                await self._cluster.patch(NODE, Key("", delivery.id), patch)
            except NotFound:
                continue

    async def _labelled(self) -> AsyncIterator[Node]:
        """Every labelled node, once; those that still are come again whenever a watch ends.

        A watch that ends at once and told nothing is followed by a pause, twice as long each time: an API server that
        answers every watch with 410 is not asked without end.
        """
        pause = 0.0
        while True:
            listing = await self._cluster.list(NODE, _LABELLED)
            for node in listing.items:
                yield node
            told, began_at = False, self._clock.now()
            with suppress(Gone):
                async for change in self._cluster.watch(NODE, listing.resource_version, _LABELLED):
                    told = True
                    if change.type == "ADDED" and isinstance(change.object, Node):
                        yield change.object
            lasted = (self._clock.now() - began_at).total_seconds() >= _LONGEST_PAUSE
            pause = 0.0 if told or lasted else min(max(_FIRST_PAUSE, pause * 2), _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    def _delivery(self, node: Node) -> Delivery:
        written = node.metadata.labels.get(INTERRUPT, "")
        kind = _KINDS.get(written)
        if kind is None or not node.provider_id.startswith(PROVIDER_PREFIX):
            known = ", ".join(_KINDS)
            log.warning("interruption not understood", extra={"node": node.name, "label": written, "known": known})
            return Delivery(node.name, None)
        at = self._clock.now() + SPOT_NOTICE if kind in _WITH_NOTICE else None
        return Delivery(node.name, Interruption(kind, (node.provider_id.removeprefix(PROVIDER_PREFIX),), at))
