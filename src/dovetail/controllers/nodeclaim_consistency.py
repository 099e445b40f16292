"""Compares the capacity of each node with what was expected of its instance type (`ConsistentStateFound`).

A node with less than 90% of a requested resource gets the event `FailedConsistencyCheck` every ten minutes until it is
corrected. The condition is informational: no decision depends on it. A claim is checked when its node is initialized
or changes its capacity, so nothing runs for nodes that are as expected.
"""

import logging

from dovetail.controllers.context import ControllerContext
from dovetail.core.lifecycle.registration import find_inconsistencies, judge_consistency
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.conditions import ConditionList
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DEPENDENTS, INITIALIZED, NodeClaim
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import NotFound
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
REPEAT_SECONDS = 600.0


class NodeClaimConsistency:
    """Checks one NodeClaim at a time."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.consistency", self.reconcile)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None or after.deleting:
            if before is not None:
                self.reconciler.forget(before.key)
        elif after.has(INITIALIZED) and (before is None or not before.has(INITIALIZED)):
            self.reconciler.add(after.key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None and before is not None and before.status.capacity != after.status.capacity:
            for claim in self._context.state.claims_of(after):
                self.reconciler.add(claim.key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Check one claim, and write its condition if that changed."""
        claim = self._context.state.claims.items.get(key)
        if claim is None or claim.deleting or not claim.has(INITIALIZED) or not self._context.manages(claim):
            return None
        nodes = self._context.state.nodes_of(claim)
        if len(nodes) != 1:
            return None
        faults = find_inconsistencies(claim, nodes[0])
        for fault in faults:
            log.warning(
                "consistency check failed", extra={"nodeclaim": claim.name, "node": nodes[0].name, "why": fault}
            )
            self._context.recorder.publish(Notice(NODE_CLAIM, claim, "FailedConsistencyCheck", fault, warning=True))
        await self._write(claim, nodes[0])
        return REPEAT_SECONDS if faults else None

    async def _write(self, claim: NodeClaim, node: Node) -> None:
        now, created_at = self._context.clock.now(), claim.metadata.creation_timestamp
        listed = ConditionList(claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, now)
        conditions = listed.set(judge_consistency(claim, node))
        if conditions != claim.status.conditions:
            try:
                await self._context.patch_claim(claim, conditions_patch(conditions), status=True)
            except NotFound:
                return
