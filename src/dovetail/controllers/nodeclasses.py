"""Reconciles node classes (such as EC2NodeClass) through the provider's `NodeClassReconciler`.

The provider resolves what a class selects, writes its status and removes its finalizer; this controller only decides
when: after a change by a user, after the wait that the provider returned, and when the last claims of a deleted class
go. It notifies the NodePool controller of every change of a class, and the drift controller of changes of its
definition. There is one for each provider that has a `NodeClassReconciler`.
"""

import asyncio
from collections.abc import Callable, Mapping

from dovetail.controllers.context import ControllerContext
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.labels import ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cloud import CloudProvider, Kept, NodeClassReconciler
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import CloudAccessFailed
from dovetail.runtime.informer import Informer
from dovetail.runtime.reconciler import Reconciler

UNREADABLE_RETRY_SECONDS = 60.0
NodeClassListener = Callable[[str], None]
"""Called with the name of a node class."""


class NodeClassController:
    """Reconciles each node class, one call at a time per class."""

    def __init__(
        self,
        context: ControllerContext,
        cloud: CloudProvider,
        nodeclass_reconciler: NodeClassReconciler,
        changed: NodeClassListener,
        redefined: NodeClassListener,
    ) -> None:
        self._context = context
        self._cloud = cloud
        self._nodeclass_reconciler = nodeclass_reconciler
        self._changed = changed
        self._redefined = redefined
        self.informer: Informer[KubeObject] = Informer(
            context.cluster, nodeclass_reconciler.node_class_kind, stale_after=context.state.stale_after.total_seconds()
        )
        context.state.caches.append(self.informer)
        self._shifted_zones: dict[Key, Mapping[str, str]] = {}  # as last reported, by node class
        self.reconciler: Reconciler[Key] = Reconciler("nodeclass", self.reconcile)
        self.informer.listen(self._class_changed)
        context.state.claims.listen(self._claim_changed)

    def _class_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        self._changed((after or before or KubeObject()).name)
        if after is not None:
            if before is None or _user_fields(before) != _user_fields(after):
                self.reconciler.add(after.key)
            if before is None or self._nodeclass_reconciler.definition(before) != self._nodeclass_reconciler.definition(
                after
            ):
                self._redefined(after.name)
        elif before is not None:
            self.reconciler.forget(before.key)
            self._shifted_zones.pop(before.key, None)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None and before is not None and self._cloud.supports(before.spec.node_class_ref):
            found = self.informer.items.get(Key("", before.spec.node_class_ref.name))
            if found is not None and found.deleting:  # it may wait for this claim
                self.reconciler.add(found.key)

    async def run(self) -> None:
        """Watch and reconcile node classes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.informer.run(), name=f"informer:{self.informer.kind.plural}")
            tasks.create_task(self._run_reconciler(), name="nodeclasses")

    async def _run_reconciler(self) -> None:
        await self._context.state.synced()
        await self.informer.synced.wait()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one class; an event names the claims that a deleted class waits for."""
        node_class = self.informer.items.get(key)
        if node_class is None:
            return None
        if node_class.deleting and self._may_be_used(node_class):
            return UNREADABLE_RETRY_SECONDS
        result = await self._keep(node_class)
        if result.waiting_for:
            reason = "WaitingOnNodeClaimTermination"
            self._context.recorder.publish(Notice(self.informer.kind, node_class, reason, result.waiting_for))
        self._publish_shifts(node_class, result.shifted_zones)
        return result.after

    async def _keep(self, node_class: KubeObject) -> Kept:
        """Reconcile through the provider; an event tells what an operator must change if the cloud refuses."""
        try:
            kept: Kept = await self._nodeclass_reconciler.keep(node_class, self._claims_of(node_class))
        except CloudAccessFailed as error:
            same = (node_class.name, error.reason)  # the message may contain the time
            notice = Notice(self.informer.kind, node_class, "CloudAccessFailed", str(error), warning=True, dedupe=same)
            self._context.recorder.publish(notice)
            raise
        return kept

    def _publish_shifts(self, node_class: KubeObject, shifted: Mapping[str, str]) -> None:
        """Publish which zones NodePools of the class may no longer, or may again, launch nodes in."""
        known = self._shifted_zones.get(node_class.key, {})
        self._shifted_zones[node_class.key] = shifted
        began = [("ZonalShiftActive", zone, shifted[zone]) for zone in sorted(shifted.keys() - known.keys())]
        ended = [("ZonalShiftCleared", zone, known[zone]) for zone in sorted(known.keys() - shifted.keys())]
        for pool in self._context.state.nodepools.items.values():
            ref = pool.node_class_ref
            if ref.name != node_class.name or not self._cloud.supports(ref):
                continue
            for reason, zone, zone_id in (*began, *ended):
                if pool.requirements.get(ZONE).has(zone):
                    active = reason == "ZonalShiftActive"
                    effect = "no node is launched there" if active else "nodes are launched there again"
                    message = f"Zonal shift {'away from' if active else 'ended in'} zone {zone} ({zone_id}): {effect}"
                    self._context.recorder.publish(Notice(NODE_POOL, pool, reason, message, warning=active))

    def _may_be_used(self, node_class: KubeObject) -> bool:
        """Whether an unreadable claim refers, or may refer, to the class."""
        return any(
            not bad.knows("spec.nodeClassRef.name")
            or not isinstance(bad.partial, NodeClaim)
            or bad.partial.spec.node_class_ref.name == node_class.name
            for bad in self._context.state.claims.unreadable.values()
        )

    def _claims_of(self, node_class: KubeObject) -> tuple[NodeClaim, ...]:
        claims = self._context.state.claims.items.values()
        return tuple(
            claim
            for claim in claims
            if claim.spec.node_class_ref.name == node_class.name and self._cloud.supports(claim.spec.node_class_ref)
        )


def _user_fields(node_class: KubeObject) -> tuple[object, ...]:
    """Return the fields that users change, without the status that the provider writes."""
    metadata = node_class.metadata
    return metadata.generation, metadata.deletion_timestamp, metadata.finalizers, dict(metadata.annotations)
