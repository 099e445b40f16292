"""Takes nodes away without hurting anyone: taint, drain, terminate the instance, let the objects go.

Deleting the Node or the NodeClaim leads here alike, and each takes the other along. Finalizers hold both until the
pods are gone through the eviction API and the instance is gone at the provider.
"""

import asyncio
import logging

from dovetail.controllers.context import Context
from dovetail.core.lifecycle.drain import drain_patch, plan_drain
from dovetail.core.lifecycle.patches import conditions_patch, finalizer_removed
from dovetail.model.conditions import ConditionList, Verdict
from dovetail.model.kinds import NODE
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DEPENDENTS, INSTANCE_TERMINATING, REGISTERED, NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.wire import Key
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import Conflict, EvictionBlocked, EvictionImpossible, InstanceNotFound, NotFound
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
DRAIN_SECONDS = 1.0
INSTANCE_SECONDS = 5.0


class Termination:
    """Finalizes NodeClaims and the nodes that belong to them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.claims: Reconciler[Key] = Reconciler("nodeclaim.termination", self.finalize_claim, workers=100)
        self.nodes: Reconciler[Key] = Reconciler(
            "node.termination", self.finalize_node, workers=100, first_backoff=0.1, backoff_limit=10.0
        )
        self._evicted: set[str] = set()
        context.state.pods.listen(self._pod_changed)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or after.deleting):
            self._evicted.discard(before.metadata.uid)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is not None and after.deleting:
            self.claims.add(after.key)
        elif after is None and before is not None:
            self.claims.forget(before.key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        for claim in self._context.state.claims_of(node) if node is not None else ():
            if claim.deleting:
                self.claims.add(claim.key)
        if after is not None and after.deleting:
            self.nodes.add(after.key)
        elif after is None and before is not None:
            self.nodes.forget(before.key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.claims.run())
            tasks.create_task(self.nodes.run())

    async def finalize_claim(self, key: Key) -> float | None:
        """Delete the claim's node, wait for it, terminate the instance, let the claim go."""
        context = self._context
        claim = context.state.claims.items.get(key)
        if claim is None or TERMINATION_FINALIZER not in claim.metadata.finalizers or not context.manages(claim):
            return None
        if claim.has(REGISTERED):
            nodes = context.state.nodes_of(claim)
            for node in nodes:
                if not node.deleting:
                    await context.delete_node(node)
            if nodes:
                return None  # the node's own end wakes us
        if claim.provider_id and not await self._terminate(claim):
            return INSTANCE_SECONDS
        log.info("deleted nodeclaim", extra={"nodeclaim": claim.name, "provider_id": claim.provider_id})
        try:
            current = context.state.claims.items.get(key, claim)
            await context.patch_claim(current, finalizer_removed(current, TERMINATION_FINALIZER))
        except NotFound:
            return None
        return None

    async def _terminate(self, claim: NodeClaim) -> bool:
        """Ask for the end of the instance; True once it is gone."""
        try:
            await self._context.cloud.terminate(claim)
        except InstanceNotFound:
            return True
        if not claim.has(INSTANCE_TERMINATING):
            await self._mark_terminating(claim)
        return False

    async def _mark_terminating(self, claim: NodeClaim) -> None:
        created_at = claim.metadata.creation_timestamp
        assert created_at is not None, "an object of the API has a creation timestamp"
        conditions = ConditionList(
            claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, self._context.clock.now()
        ).set(Verdict(INSTANCE_TERMINATING))
        await self._context.patch_claim(claim, conditions_patch(conditions), status=True)

    async def finalize_node(self, key: Key) -> float | None:
        """Drain the node, terminate its instance, let it go."""
        context = self._context
        node = context.state.nodes.items.get(key)
        if node is None or TERMINATION_FINALIZER not in node.metadata.finalizers:
            return None
        claim = context.state.claim_of(node)
        if context.cloud.node_class_label not in node.metadata.labels or (claim and not context.manages(claim)):
            return None
        if claim is None and context.state.claims_of(node):
            return None  # two claims for one instance: a person has to look
        if claim is not None and not claim.deleting:
            await context.delete_claim(claim)
        if await self._instance_is_gone(node):
            await self._let_go(node)
            return None
        patch = drain_patch(node)
        if patch:
            node = await context.patch_node(node, patch)
        if not await self._drained(node):
            return DRAIN_SECONDS
        if claim is not None and not await self._terminate(claim):
            return INSTANCE_SECONDS
        await self._let_go(context.state.nodes.items.get(key, node))
        return None

    async def _instance_is_gone(self, node: Node) -> bool:
        """A node that still reports Ready is drained whatever the provider says."""
        if node.ready or not node.provider_id:
            return False
        try:
            await self._context.cloud.get(node.provider_id)
        except InstanceNotFound:
            return True
        return False

    async def _let_go(self, node: Node) -> None:
        log.info("deleted node", extra={"node": node.name})
        try:
            await self._context.patch_node(node, finalizer_removed(node, TERMINATION_FINALIZER))
        except NotFound:
            return

    async def _drained(self, node: Node) -> bool:
        joined = self._context.state.cluster_node(node)
        drain = plan_drain(joined, self._context.clock.now())
        for pod in drain.evict:
            if pod.metadata.uid not in self._evicted:  # accepted already; the watch has not told yet
                await self._evict(pod, node)
        if not drain.done:
            waiting = len(drain.evict) + len(drain.waiting)
            message = f"Failed to drain node, {waiting} pod{'s' * (waiting > 1)} waiting to be evicted"
            self._context.recorder.publish(
                Notice(NODE, node, "FailedDraining", message, warning=True, dedupe=(node.metadata.uid,))
            )
        return drain.done

    async def _evict(self, pod: Pod, node: Node) -> None:
        try:
            await self._context.cluster.evict(pod)
        except (NotFound, Conflict):
            return  # gone already, or another pod by now
        except (EvictionBlocked, EvictionImpossible) as error:
            log.debug("eviction refused", extra={"pod": str(pod.key), "node": node.name, "why": str(error)})
            return
        self._evicted.add(pod.metadata.uid)
        log.info("evicted pod", extra={"pod": str(pod.key), "node": node.name})
