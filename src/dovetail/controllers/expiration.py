"""Deletes NodeClaims at the end of their `spec.expireAfter`; the termination controller drains their nodes.

This is Karpenter's forceful expiration: it respects no disruption budget, and waits for no replacement.
"""

import logging
from datetime import timedelta
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import decision_id
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.model.kinds import NODE, NODE_CLAIM, Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cluster import Notice
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)


class ExpirationController:
    """Requeues each NodeClaim for the instant at which it expires."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.expiration", self.reconcile, workers=10)
        context.state.claims.listen(self._claim_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None and before is not None:
            self.reconciler.forget(before.key)
        elif before is None and after is not None and not after.deleting:  # the lifetime of a claim never changes
            self.reconciler.add(after.key)

    async def run(self) -> None:
        """Delete expired claims until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Delete the claim if it has expired, or requeue it until it does."""
        claim = self._context.state.claims.items.get(key)
        if claim is None or claim.deleting or not self._context.manages(claim):
            return None
        due_at = expires_at(claim, self._context.state.pool(claim.nodepool_name))
        if due_at is None:
            return None
        left = due_at - self._context.clock.now()
        if left > timedelta():
            return left.total_seconds()
        await self._context.delete_claim(claim)
        self._publish(claim)
        return None

    def _publish(self, claim: NodeClaim) -> None:
        context = self._context
        decision = decision_id(claim)
        log.info("deleting expired nodeclaim", extra={"nodeclaim": claim.name, "decision": decision})
        nodes = context.state.nodes_of(claim)
        objects: list[tuple[Kind[Any], KubeObject]] = [(NODE_CLAIM, claim), *((NODE, node) for node in nodes)]
        for kind, about in objects:
            message = f"Disrupting {kind.name}: Expired"
            context.recorder.publish(Notice(kind, about, "DisruptionTerminating", message, decision=decision))
        count_removal(context, claim, "expired")
