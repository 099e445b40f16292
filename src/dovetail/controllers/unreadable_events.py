"""Publishes a Warning event on each unreadable object: what is wrong with it, and how it affects disruption.

NodePools are handled by their controller, which also sets their conditions. The event is published again every 30
minutes, because the API server drops events after an hour.
"""

from functools import partial
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.events import unreadable_consequence
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.model.unreadable_objects import UNREADABLE, unread
from dovetail.ports.cluster import Notice
from dovetail.runtime.informer import Informer
from dovetail.runtime.reconciler import Reconciler

REMIND_SECONDS = 1800.0
"""The API server drops an event after an hour; the event is published again before that."""


class UnreadableObjectEvents:
    """Publishes a Warning event for each unreadable object."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._informers: dict[str, Informer[Any]] = {}
        self.reconciler: Reconciler[tuple[str, Key]] = Reconciler("unreadable", self.reconcile)
        for informer in context.state.informers:
            if informer.kind is not NODE_POOL:
                self.follow(informer)

    def follow(self, informer: Informer[Any]) -> None:
        """Also report the objects of this informer's kind."""
        kind = informer.kind.name
        self._informers[kind] = informer
        informer.listen_unreadable(partial(self._changed, kind))

    def _changed(self, kind: str, before: UnreadableObject | None, after: UnreadableObject | None) -> None:
        if after is not None and (before is None or before.faults != after.faults):
            self.reconciler.add((kind, after.key))
        elif after is None and before is not None:
            self.reconciler.forget((kind, before.key))

    async def run(self) -> None:
        """Publish events until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, about: tuple[str, Key]) -> float | None:
        """Publish the event of one object."""
        informer = self._informers[about[0]]
        bad = informer.unreadable.get(about[1])
        if bad is None or not bad.metadata.name:
            return None  # an event must name its object
        message = unreadable_consequence(unread(informer.kind, bad))
        notice = Notice(informer.kind, KubeObject(metadata=bad.metadata), UNREADABLE, message, warning=True)
        self._context.recorder.publish(notice)
        return REMIND_SECONDS
