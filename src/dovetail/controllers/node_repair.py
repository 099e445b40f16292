"""Node repair: forcefully replaces nodes that stay unhealthy longer than the toleration of their NodePool.

A node is checked when its conditions change, and again when its toleration ends. "Forcefully" means that the drain
deadline is now: PodDisruptionBudgets, do-not-disrupt, grace periods and volumes that do not detach cannot delay it. A
circuit breaker stops all repairs of a NodePool while more than 20% of its nodes are unhealthy, as in Karpenter.
"""

import logging
import re
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import decision_id
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.core.lifecycle.repair import (
    Breaker,
    RepairTerms,
    UnhealthyCondition,
    find_unhealthy_conditions,
    read_breaker,
    symptoms,
)
from dovetail.core.lifecycle.termination import deadline_patch
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import NotFound
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
BLOCKED_SECONDS = 300.0
STALE_SECONDS = 10.0


class NodeRepair:
    """Repairs managed nodes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._policies = RepairTerms(context.cloud.repair_statements(), context.options)
        self._blocked: dict[str, set[Key]] = {}  # nodes blocked by the circuit breaker, by NodePool
        self.reconciler: Reconciler[Key] = Reconciler("node.health", self.reconcile, first_backoff=0.1)
        context.state.nodes.listen(self._node_changed)
        context.state.claims.listen(self._claim_changed)
        context.state.nodepools.listen(self._pool_changed)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        assert node is not None, "a change has at least one version"
        unhealthy = after is not None and bool(symptoms(after, self._policies.statements))
        if after is None:
            self.reconciler.forget(node.key)
        elif unhealthy:
            self.reconciler.add(node.key)
        if before is not None and not unhealthy:  # recovered or gone: the breaker may allow others now
            for key in self._blocked.pop(node.metadata.labels.get(NODEPOOL, ""), ()):
                self.reconciler.add(key)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """Check the node again: its watch event may arrive before the claim has its provider id."""
        if after is not None and (before is None or before.provider_id != after.provider_id):
            for node in self._context.state.nodes_of(after):
                self._node_changed(None, node)

    def _pool_changed(self, before: NodePool | None, after: NodePool | None) -> None:
        if after is None or (before is not None and before.spec.repair == after.spec.repair):
            return
        for node in self._peers(after.name):
            self._node_changed(None, node)

    async def run(self) -> None:
        """Repair nodes until cancelled, if node repair is enabled."""
        if self._policies.options.node_repair and self._policies.statements:
            await self._context.state.synced()
            await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Repair one node if its toleration is over and the circuit breaker is closed."""
        context = self._context
        node = context.state.nodes.items.get(key)
        claim = context.state.claim_of(node) if node is not None else None
        if node is None or claim is None or not context.manages(claim):
            return None
        repair = self._policies.of(context.state.pool(claim.nodepool_name))
        unhealthy_conditions = (
            find_unhealthy_conditions(node, repair, self._policies.statements) if repair is not None else ()
        )
        if not unhealthy_conditions:
            return None
        wait = (unhealthy_conditions[0].due_at - context.clock.now()).total_seconds()
        if wait > 0:
            return wait
        if context.state.stale():
            return STALE_SECONDS  # it may have recovered since
        breaker = read_breaker(self._peers(claim.nodepool_name), self._policies.statements)
        if breaker.open:
            self._publish_blocked(node, claim, breaker)
            self._blocked.setdefault(claim.nodepool_name, set()).add(key)
            return BLOCKED_SECONDS
        await self._repair(node, claim, unhealthy_conditions[0])
        return None

    def _peers(self, pool: str) -> list[Node]:
        """Return the nodes of a pool; all nodes for a claim without a pool."""
        nodes = self._context.state.nodes.items.values()
        return [node for node in nodes if not pool or node.metadata.labels.get(NODEPOOL) == pool]

    async def _repair(self, node: Node, claim: NodeClaim, unhealthy_condition: UnhealthyCondition) -> None:
        """Delete the claim, then set its deadline: on a claim that is not deleted it would force a later drain."""
        if not claim.deleting:
            await self._context.delete_claim(claim)
            self._publish(node, claim, unhealthy_condition)
            try:
                claim = await self._context.cluster.get(NODE_CLAIM, claim.key)
            except NotFound:
                return
        patch = deadline_patch(claim, self._context.clock.now())
        if patch and claim.deleting:
            await self._context.patch_claim(claim, patch)

    def _publish(self, node: Node, claim: NodeClaim, unhealthy_condition: UnhealthyCondition) -> None:
        context = self._context
        condition = unhealthy_condition.condition
        why = f"{condition.type} is {condition.status} since {unhealthy_condition.since:%Y-%m-%dT%H:%M:%SZ}"
        decision = decision_id(claim)
        log.warning(
            "repairing node", extra={"node": node.name, "nodeclaim": claim.name, "decision": decision, "why": why}
        )
        for kind, about in ((NODE, node), (NODE_CLAIM, claim)):
            message = f"Replacing the node forcefully: {why}"
            context.recorder.publish(Notice(kind, about, "NodeRepair", message, warning=True, decision=decision))
        self._count(claim, unhealthy_condition)

    def _count(self, claim: NodeClaim, unhealthy_condition: UnhealthyCondition) -> None:
        count_removal(self._context, claim, Reason.UNHEALTHY.lower())
        self._context.metrics.count(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            condition=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unhealthy_condition.condition.type).lower(),
            nodepool=claim.nodepool_name,
            capacity_type=claim.metadata.labels.get(CAPACITY_TYPE, ""),
            image_id=claim.status.image_id,
        )

    def _publish_blocked(self, node: Node, claim: NodeClaim, breaker: Breaker) -> None:
        context = self._context
        pool = context.state.pool(claim.nodepool_name)
        where = f"nodepool {claim.nodepool_name}" if claim.nodepool_name else "cluster"
        message = (
            f"More than 20% of the nodes are unhealthy in the {where}: {breaker.unhealthy} of {breaker.total},"
            f" {breaker.allowed} allowed; none is repaired until that changes"
        )
        log.warning("repair blocked", extra={"node": node.name, "nodepool": claim.nodepool_name, "why": message})
        objects: list[tuple[Kind[Any], KubeObject]] = [(NODE, node), (NODE_CLAIM, claim)]
        if pool is not None:
            objects.append((NODE_POOL, pool))
        for kind, about in objects:
            context.recorder.publish(
                Notice(kind, about, "NodeRepairBlocked", message, warning=True, dedupe=(about.metadata.uid,))
            )
