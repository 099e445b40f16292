"""Terminates deleted nodes: taint, drain, wait for volume detachment, terminate the instance, remove the finalizers.

Two reconcilers share the work, one keyed by NodeClaim and one keyed by Node; deleting either object deletes the other.
`karpenter.sh/termination` finalizers keep both objects until the pods are gone, their volumes are detached and the
provider no longer has the instance. Changes of pods, volume attachments and claims requeue the node they belong to, so
there is little polling. `core.lifecycle` decides; `termination_steps` executes the steps of one node.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Any, Literal

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.eviction_queue import EvictionQueue
from dovetail.controllers.termination_steps import NodeTermination
from dovetail.controllers.traces import record_removal
from dovetail.core.lifecycle.drain import drain_patch
from dovetail.core.lifecycle.termination import grace_period_patch, manual_deletion_patch, read_deadline
from dovetail.core.merge_patches import finalizer_removed
from dovetail.model.conditions import find
from dovetail.model.instants import stamp
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.labels import CAPACITY_TYPE, NODEPOOL, TERMINATION_FINALIZER, ZONE
from dovetail.model.labels import REGISTERED as REGISTERED_LABEL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import INSTANCE_TERMINATING, REGISTERED, NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.storage import VolumeAttachment
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import InstanceNotFound, NotFound
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0
EXPIRING = "TerminationGracePeriodExpiring"


class TerminationController:
    """Finalizes NodeClaims and the nodes that belong to them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.claims: Reconciler[Key] = Reconciler("nodeclaim.termination", self.finalize_claim, workers=100)
        self.nodes: Reconciler[Key] = Reconciler(
            "node.termination", self.finalize_node, workers=100, first_backoff=0.1, backoff_limit=10.0
        )
        self.evictions = EvictionQueue(context)
        self._steps = NodeTermination(context, self.evictions)
        self._deleted_node_uids: set[str] = set()  # until the watch shows the deletion
        self._deleted_provider_ids: set[str] = set()  # of claims whose Node was seen to be deleted
        context.state.pods.listen(self._pod_changed)
        context.state.attachments.listen(self._attachment_changed)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        name = after.node_name if after is not None else ""
        if name:
            self._enqueue_node(name)
        if before is not None and before.node_name and before.node_name != name:
            self._enqueue_node(before.node_name)

    def _attachment_changed(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        changed = after or before
        if changed is not None:
            self._enqueue_node(changed.spec.node_name)

    def _enqueue_node(self, node: str) -> None:
        found = self._context.state.nodes.items.get(Key("", node))
        if found is not None and found.deleting:
            self.nodes.add(found.key)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is not None and after is not None and _claims_terminate_equally(before, after):
            return  # usually one of our own writes
        claim = after or before
        for node in self._context.state.nodes_of(claim) if claim is not None else ():
            self._enqueue_node(node.name)
        if after is not None and after.deleting:
            self.claims.add(after.key)
        elif after is None and before is not None:
            self.claims.forget(before.key)
            self._steps.forget(before)
            self._deleted_provider_ids.discard(before.provider_id)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and _nodes_terminate_equally(before, after):
            return
        node = after or before
        if before is not None and (after is None or after.deleting):
            self._deleted_node_uids.discard(before.metadata.uid)
        if before is not None and after is None and self._context.state.claims_of(before):
            self._deleted_provider_ids.add(before.provider_id)
        if before is None or after is None or _changes_claim_steps(before, after):
            for claim in self._context.state.claims_of(node) if node is not None else ():
                if claim.deleting:
                    self.claims.add(claim.key)
        if after is not None and after.deleting:
            self.nodes.add(after.key)
        elif after is None and before is not None:
            self.nodes.forget(before.key)

    async def run(self) -> None:
        """Reconcile claims, nodes and evictions until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.claims.run())
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.evictions.run())

    async def finalize_claim(self, key: Key) -> float | None:
        """Set the drain deadline, delete the node and wait for it, terminate the instance, remove the finalizer."""
        context = self._context
        claim = context.state.claims.items.get(key)
        if claim is None or not claim.deleting or not self._has_finalizer(claim) or not context.manages(claim):
            return None
        patch = grace_period_patch(claim) or self._manual_patch(claim, "NodeClaim")
        if patch:
            claim = await context.patch_claim(claim, patch)
        self._announce_deadline(claim)
        nodes = context.state.nodes_of(claim)
        if claim.has(REGISTERED) or any(map(_is_registered, nodes)):
            for node in nodes:
                if not node.deleting and node.metadata.uid not in self._deleted_node_uids:
                    await context.delete_node(node)
                    self._deleted_node_uids.add(node.metadata.uid)
            if nodes:
                return None  # the deletion of the node requeues the claim
            if self._node_is_unreadable(claim) or await self._node_exists(claim):
                return RETRY_SECONDS
        wait = await self._steps.terminate_instance(claim) if claim.provider_id else None
        if wait is not None:
            return wait
        await self._remove_claim_finalizer(context.state.claims.items.get(key, claim))
        self.claims.drop_requeue(key)
        return None

    def _has_finalizer(self, item: KubeObject) -> bool:
        return TERMINATION_FINALIZER in item.metadata.finalizers

    def _node_is_unreadable(self, claim: NodeClaim) -> bool:
        """Whether the claim's node is unreadable: its pods are unknown, so its instance runs until the deadline."""
        deadline, key = read_deadline(claim), Key("", claim.status.node_name)
        if key not in self._context.state.nodes.unreadable or (deadline and self._context.clock.now() >= deadline):
            return False
        message = f"Failed to drain node, {key} cannot be read: correct it, or delete it if nothing runs there"
        self._context.recorder.publish(Notice(NODE_CLAIM, claim, "FailedDraining", message, warning=True))
        return True

    async def _node_exists(self, claim: NodeClaim) -> bool:
        """Whether the API server has the node although the cache does not: it must be drained first."""
        if not claim.status.node_name or claim.provider_id in self._deleted_provider_ids:
            return False
        try:
            node = await self._context.cluster.get(NODE, Key("", claim.status.node_name))
        except NotFound:
            return False
        if node.provider_id != claim.provider_id:
            return False
        self._context.state.observe(NODE, node)
        return True

    def _manual_patch(self, claim: NodeClaim, deleted: Literal["Node", "NodeClaim"]) -> dict[str, Any]:
        return manual_deletion_patch(claim, deleted, self._context.options.manual_deletion)

    def _announce_deadline(self, claim: NodeClaim) -> None:
        deadline = read_deadline(claim)
        if deadline is None:
            return
        message = f"All pods will be deleted by {stamp(deadline)}"
        notices = [Notice(NODE, node, EXPIRING, message, warning=True) for node in self._context.state.nodes_of(claim)]
        for notice in (Notice(NODE_CLAIM, claim, EXPIRING, message, warning=True), *notices):
            self._context.recorder.publish(notice)

    async def _remove_claim_finalizer(self, claim: NodeClaim) -> None:
        try:
            await self._context.patch_claim(claim, finalizer_removed(claim, TERMINATION_FINALIZER))
        except NotFound:
            return
        log.info("deleted nodeclaim", extra={"nodeclaim": claim.name, "provider_id": claim.provider_id})
        record_removal(self._context, claim)
        metrics, labels, pool = self._context.metrics, claim.metadata.labels, claim.nodepool_name
        terminating = find(claim.status.conditions, INSTANCE_TERMINATING)
        if terminating is not None and terminating.last_transition_time is not None:
            took = (self._context.clock.now() - terminating.last_transition_time).total_seconds()
            metrics.observe("karpenter_nodeclaims_instance_termination_duration_seconds", took, nodepool=pool)
        metrics.observe(
            "karpenter_nodeclaims_termination_duration_seconds", self._seconds_since_deletion(claim), nodepool=pool
        )
        metrics.count(
            "karpenter_nodeclaims_terminated_total",
            nodepool=pool,
            capacity_type=labels.get(CAPACITY_TYPE, ""),
            zone=labels.get(ZONE, ""),
        )

    def _seconds_since_deletion(self, item: KubeObject) -> float:
        deleted_at = item.metadata.deletion_timestamp
        now = self._context.clock.now()
        return (now - (deleted_at or now)).total_seconds()

    async def finalize_node(self, key: Key) -> float | None:
        """Drain the node, wait for its volumes, terminate its instance, remove its finalizer."""
        context = self._context
        node = context.state.nodes.items.get(key)
        if node is None or not node.deleting or not self._has_finalizer(node):
            return None
        claim = context.state.claim_of(node)  # None as well if several claims have the same instance
        if context.cloud.node_class_labels.isdisjoint(node.metadata.labels) or (claim and not context.manages(claim)):
            return None
        if claim is None and context.state.unreadable.claims_of(node):
            return RETRY_SECONDS  # without its claim its instance would leak
        if claim is None and await self._has_no_claim(node):
            await self._remove_node_finalizer(node)  # garbage collection terminates the instance
            return None
        if claim is not None and not claim.deleting:
            await self._delete_claim_of(claim)
        if await self._instance_is_gone(node):
            await self._remove_node_finalizer(node)
            return None
        node = await self._taint(node)
        if claim is not None:
            claim = context.state.claims.items.get(claim.key)
            if claim is not None and (not claim.deleting or grace_period_patch(claim)):
                return None  # the claim is reconciled first, and its change requeues the node
        wait = await self._steps.step(node, claim)
        if wait is not None:
            return wait
        await self._remove_node_finalizer(context.state.nodes.items.get(key, node))
        self.nodes.drop_requeue(key)
        return None

    async def _has_no_claim(self, node: Node) -> bool:
        """Whether the API server has no claim for the node; several claims for one node count as claims."""
        if not self._context.state.claims_of(node):
            await self._context.refresh_claims()
        return not self._context.state.claims_of(node)

    async def _delete_claim_of(self, claim: NodeClaim) -> None:
        """Delete the claim of a node that a user deleted; first write how its protected pods are treated."""
        patch = self._manual_patch(claim, "Node")
        if patch:
            claim = await self._context.patch_claim(claim, patch)
        await self._context.delete_claim(claim)

    async def _taint(self, node: Node) -> Node:
        """Add the disruption taint and the label that excludes the node from load balancers."""
        patch = drain_patch(node)
        if not patch:
            return node
        tainted = await self._context.patch_node(node, patch)
        if self._context.state.nodes.items.get(node.key) is tainted:
            self.nodes.drop_requeue(node.key)  # the steps that follow see all changes so far
        return tainted

    async def _instance_is_gone(self, node: Node) -> bool:
        """Whether the provider has no instance for a node that is not ready; a Ready node is always drained."""
        if node.ready or not node.provider_id:
            return False
        try:
            await self._context.cloud.get(node.provider_id)
        except InstanceNotFound:
            return True
        return False

    async def _remove_node_finalizer(self, node: Node) -> None:
        try:
            await self._context.patch_node(node, finalizer_removed(node, TERMINATION_FINALIZER))
        except NotFound:
            return
        log.info("deleted node", extra={"node": node.name})
        metrics, labels = self._context.metrics, node.metadata.labels
        pool = labels.get(NODEPOOL, "")
        metrics.count("karpenter_nodes_terminated_total", nodepool=pool, zone=labels.get(ZONE, ""))
        metrics.observe(
            "karpenter_nodes_termination_duration_seconds", self._seconds_since_deletion(node), nodepool=pool
        )
        created_at = node.metadata.creation_timestamp
        if created_at is not None:
            lifetime: timedelta = self._context.clock.now() - created_at
            metrics.observe("karpenter_nodes_lifetime_duration_seconds", lifetime.total_seconds(), nodepool=pool)


def _is_registered(node: Node) -> bool:
    """Whether the node was registered, even if the process died before it wrote this to the claim."""
    return node.metadata.labels.get(REGISTERED_LABEL) == "true"


def _claims_terminate_equally(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether two versions of a claim lead to the same termination steps."""
    return (
        _metadata_equal(before, after)
        and before.status.provider_id == after.status.provider_id
        and before.has(REGISTERED) == after.has(REGISTERED)
    )


def _changes_claim_steps(before: Node, after: Node) -> bool:
    """Whether the node's provider id or registration changed, which its claim's termination depends on."""
    return before.provider_id != after.provider_id or _is_registered(before) != _is_registered(after)


def _nodes_terminate_equally(before: Node, after: Node) -> bool:
    return _metadata_equal(before, after) and before.spec == after.spec and before.ready == after.ready


def _metadata_equal(before: KubeObject, after: KubeObject) -> bool:
    old, new = before.metadata, after.metadata
    return (
        old.deletion_timestamp == new.deletion_timestamp
        and old.finalizers == new.finalizers
        and old.labels == new.labels
        and old.annotations == new.annotations
    )
