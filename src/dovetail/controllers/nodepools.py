"""Maintains each NodePool: the hash of its template, its conditions, and the resources and nodes in its status.

Conditions: `ValidationSucceeded`, `NodeClassReady`, `NodeRegistrationHealthy`, and `Ready` from all three. The hash
annotation lets drift detection compare a NodeClaim with its pool; when the version of the hash changes, the claims of
the pool get the new version first, and the new hash unless they have drifted.

Usage is counted incrementally: each claim, joined with its node, is subtracted and added again only when one of them
changes, so a pass over a pool costs O(changed claims). Watch events requeue a pool after a second, to batch changes.
"""

import contextlib
import logging
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.core.lifecycle.nodepool_hash import HASH_ANNOTATIONS, HASH_VERSION, hash_annotations
from dovetail.core.lifecycle.nodepool_status import (
    DEPENDENTS,
    VALIDATION_SUCCEEDED,
    NodePoolUsage,
    RegistrationHealth,
    judge_node_class,
    judge_validation,
)
from dovetail.core.merge_patches import amounts, conditions_patch
from dovetail.manifest.validation import validate_nodepool
from dovetail.model.annotated_fields import dropped_fields
from dovetail.model.conditions import ConditionList, ConditionVerdict, find
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Condition, Key, UnreadableObject
from dovetail.model.labels import INITIALIZED as INITIALIZED_LABEL
from dovetail.model.labels import NODE_CLASS_STATE, NODEPOOL, NODEPOOL_HASH_VERSION
from dovetail.model.labels import REGISTERED as REGISTERED_LABEL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, REGISTERED, NodeClaim
from dovetail.model.nodepool import NodePool, NodePoolSpec
from dovetail.model.repair import policies_without_effect
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cloud import NodeClassState
from dovetail.ports.cluster import Notice, Patch
from dovetail.ports.errors import Invalid
from dovetail.runtime.concurrency import for_each
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
PROVIDER_UNUSABLE = "ProviderUnusable"
COUNT_SECONDS = 1.0
FIELD_DROPPED = "FieldDropped"
RECHECK_SECONDS = 600.0
"""A safety net: every change that matters should requeue the pool through a watch event."""
UserFields = tuple[NodePoolSpec, Mapping[str, str], Mapping[str, str]]
"""The parts of a NodePool that validation depends on: spec, labels and annotations."""


class NodePoolController:
    """One reconciliation at a time for each NodePool."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._health: defaultdict[str, RegistrationHealth] = defaultdict(RegistrationHealth)
        self._usage_by_pool: defaultdict[str, NodePoolUsage] = defaultdict(NodePoolUsage)  # sums of `_counted_nodes`
        self._counted_nodes: dict[str, tuple[ClusterNode, ...]] = {}  # by claim name
        self._changed_claims: set[str] = set()  # names of claims to join and count again
        self._reported_unusable: set[str] = set()  # names of pools whose provider cannot run
        self._validation_by_key: dict[Key, tuple[UserFields, ConditionVerdict]] = {}
        self.reconciler: Reconciler[Key] = Reconciler("nodepool", self.reconcile)
        context.state.nodepools.listen(self._pool_changed)
        context.state.nodepools.listen_unreadable(self._pool_unreadable)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _pool_changed(self, before: NodePool | None, after: NodePool | None) -> None:
        if after is not None:
            self.reconciler.add(after.key)
        elif before is not None:
            self.reconciler.forget(before.key)
            self._validation_by_key.pop(before.key, None)

    def _pool_unreadable(self, before: UnreadableObject | None, after: UnreadableObject | None) -> None:
        if after is not None and (before is None or before.faults != after.faults):
            self.reconciler.add(after.key)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is not None and after is not None and _claims_counted_equally(before, after):
            return
        sides = [each for each in (before, after) if each is not None]
        for each in sides:
            self._changed_claims.add(each.name)
            for node in self._context.state.nodes_of(each):  # another claim may have the same node
                self._mark_changed(node)
        self._requeue_pools({each.nodepool_name for each in sides})

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and _nodes_counted_equally(before, after):
            return
        sides = [each for each in (before, after) if each is not None]
        for each in sides:
            self._mark_changed(each)
        self._requeue_pools({each.metadata.labels.get(NODEPOOL, "") for each in sides})

    def _requeue_pools(self, pools: set[str]) -> None:
        for pool in sorted(pools - {""}):
            self.reconciler.add(Key("", pool), COUNT_SECONDS)

    def _mark_changed(self, node: Node) -> None:
        self._changed_claims.update(claim.name for claim in self._context.state.claims_of(node))

    def registration_ended(self, claim: NodeClaim, *, succeeded: bool) -> None:
        """Record the registration of a claim in the pool's health, and requeue the pool if its verdict changed."""
        health = self._health[claim.nodepool_name]
        verdict = health.verdict()
        health.note(succeeded=succeeded)
        if health.verdict() != verdict:
            self.reconciler.add(Key("", claim.nodepool_name))

    def node_class_changed(self, name: str) -> None:
        """Requeue the pools that refer to a changed node class."""
        for pool in self._context.state.nodepools.items.values():
            if pool.node_class_ref.name == name:
                self.reconciler.add(pool.key)

    async def run(self) -> None:
        """Reconcile pools until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Update the annotations and status of one pool."""
        bad = self._context.state.nodepools.unreadable.get(key)
        if bad is not None:
            await self._report_unreadable(bad)
        pool = self._context.state.nodepools.items.get(key)
        if pool is None:
            return None
        if not self._context.cloud.supports(pool.node_class_ref):
            return self._report_unusable(pool)
        node_class = await self._context.cloud.node_class(pool.node_class_ref)
        pool = await self._write_hash(pool, node_class)
        for fault in policies_without_effect(pool, self._context.cloud.repair_statements()):
            notice = Notice(NODE_POOL, pool, "RepairPolicyWithoutEffect", str(fault), warning=True)
            self._context.recorder.publish(notice)
        await self._write_status(pool, node_class)
        return RECHECK_SECONDS

    def _report_unusable(self, pool: NodePool) -> float | None:
        """Publish why the provider of the pool cannot run. Nothing is written on the pool: another controller may."""
        for provider in self._context.unusable:
            if provider.supports(pool.node_class_ref):
                message = f"NodePool and its nodes are left alone: {provider.why}"
                self._context.recorder.publish(Notice(NODE_POOL, pool, PROVIDER_UNUSABLE, message, warning=True))
                if pool.name not in self._reported_unusable:
                    log.error("nodepool left alone", extra={"nodepool": pool.name, "error": provider.why})
                    self._reported_unusable.add(pool.name)
                return RECHECK_SECONDS
        return None

    async def _report_unreadable(self, bad: UnreadableObject) -> None:
        """Set `ValidationSucceeded` to False on an unreadable pool, which launches and disrupts no nodes."""
        pool = bad.partial if isinstance(bad.partial, NodePool) else NodePool(metadata=bad.metadata)
        verdict = judge_validation(bad.faults)
        conditions = self._condition_list(pool).set(verdict)
        self._context.recorder.publish(Notice(NODE_POOL, pool, verdict.reason, verdict.message, warning=True))
        if conditions == pool.status.conditions:
            return
        patch = Patch(conditions_patch(conditions), bad.metadata.resource_version, "status")
        with contextlib.suppress(Invalid):  # the write succeeded, but its answer is unreadable as well
            await self._context.cluster.patch(NODE_POOL, bad.key, patch)

    async def _write_hash(self, pool: NodePool, node_class: NodeClassState | None) -> NodePool:
        """Write the template hashes and the state of the node class as annotations.

        Hashes of another version cannot be compared: claims get the present ones first, unless they have drifted.
        """
        current = hash_annotations(pool)
        pool_hash = {name: current.get(name) for name in HASH_ANNOTATIONS}
        state = {NODE_CLASS_STATE: node_class.state} if node_class is not None and node_class.state else {}
        present = pool.metadata.annotations
        if all(present.get(name) == value for name, value in (pool_hash | state).items()):
            return pool
        if present.get(NODEPOOL_HASH_VERSION) != HASH_VERSION:
            await self._rewrite_claim_hashes(pool.name, current)
        patch = Patch({"metadata": {"annotations": pool_hash | state}}, pool.metadata.resource_version)
        written = await self._context.cluster.patch(NODE_POOL, pool.key, patch)
        return self._context.state.observe(NODE_POOL, written)

    async def _rewrite_claim_hashes(self, pool_name: str, current: dict[str, str]) -> None:
        async def rewrite(claim: NodeClaim) -> None:
            drifted = find(claim.status.conditions, DRIFTED) is not None
            annotations = {NODEPOOL_HASH_VERSION: HASH_VERSION} if drifted else current
            await self._context.patch_claim(claim, {"metadata": {"annotations": annotations}})

        claims = sorted(self._context.state.claims.items.values(), key=lambda claim: claim.name)
        await for_each(
            rewrite, [each for each in claims if each.nodepool_name == pool_name and not _has_current_hash(each)]
        )

    async def with_conditions(self, pool: NodePool) -> NodePool:
        """Return the pool with the conditions it should have, without writing them."""
        if not self._context.cloud.supports(pool.node_class_ref):
            return pool
        _, conditions = self._judge(pool, await self._context.cloud.node_class(pool.node_class_ref))
        return msgspec.structs.replace(pool, status=msgspec.structs.replace(pool.status, conditions=conditions))

    def _judge(self, pool: NodePool, node_class: NodeClassState | None) -> tuple[int, tuple[Condition, ...]]:
        """Return the generation of the node class, and the conditions of the pool."""
        generation = node_class.generation if node_class is not None else 0
        verdict = judge_node_class(
            found=node_class is not None,
            deleting=node_class is not None and node_class.deleting,
            ready=node_class.ready if node_class is not None else None,
        )
        return generation, self._conditions(pool, generation, verdict)

    async def _write_status(self, pool: NodePool, node_class: NodeClassState | None) -> None:
        generation, conditions = self._judge(pool, node_class)
        usage = self._usage(pool.name)
        written, number = amounts(usage.resources), usage.nodes
        unchanged = (
            conditions == pool.status.conditions
            and written == amounts(pool.status.resources)
            and number == pool.status.nodes
            and generation == pool.status.node_class_observed_generation
        )
        verdict = find(conditions, VALIDATION_SUCCEEDED)
        if verdict is not None and verdict.message:
            reason = verdict.reason if verdict.status == "False" else FIELD_DROPPED
            self._context.recorder.publish(Notice(NODE_POOL, pool, reason, verdict.message, warning=True))
        if unchanged:
            return
        resources = {**dict.fromkeys(pool.status.resources), **written}  # null removes resources that no node has
        body = conditions_patch(conditions, resources=resources, nodes=number, nodeClassObservedGeneration=generation)
        patch = Patch(body, pool.metadata.resource_version, "status")
        self._context.state.observe(NODE_POOL, await self._context.cluster.patch(NODE_POOL, pool.key, patch))

    def _usage(self, pool: str) -> NodePoolUsage:
        """Return the usage of the pool, after joining and counting the changed claims again."""
        state = self._context.state
        for name in self._changed_claims:
            for each in self._counted_nodes.pop(name, ()):
                self._usage_by_pool[each.nodepool_name].take(each)
            claim = state.claims.items.get(Key("", name))
            if claim is None:
                continue
            nodes = state.nodes_of(claim)
            own = [node for node in nodes if state.claim_of(node) is claim]  # a node with several claims is not counted
            self._counted_nodes[name] = tuple(ClusterNode(node, claim) for node in (own if nodes else (None,)))
            for each in self._counted_nodes[name]:
                self._usage_by_pool[each.nodepool_name].add(each)
        self._changed_claims.clear()
        return self._usage_by_pool[pool]

    def _conditions(
        self, pool: NodePool, class_generation: int, class_verdict: ConditionVerdict
    ) -> tuple[Condition, ...]:
        health = self._health[pool.name]
        health.restart((pool.metadata.generation, class_generation))
        return self._condition_list(pool).set(self._validation_verdict(pool), class_verdict, health.verdict())

    def _condition_list(self, pool: NodePool) -> ConditionList:
        created_at, generation = pool.metadata.creation_timestamp, pool.metadata.generation
        return ConditionList(pool.status.conditions, DEPENDENTS, created_at, generation, self._context.clock.now())

    def _validation_verdict(self, pool: NodePool) -> ConditionVerdict:
        """Return the validation verdict, cached by the fields it depends on: status writes do not validate again."""
        written = (pool.spec, pool.metadata.labels, pool.metadata.annotations)
        known = self._validation_by_key.get(pool.key)
        if known is None or known[0] != written:
            verdict = judge_validation(validate_nodepool(pool), dropped_fields(pool))
            known = self._validation_by_key[pool.key] = (written, verdict)
        return known[1]


def _has_current_hash(claim: NodeClaim) -> bool:
    return claim.metadata.annotations.get(NODEPOOL_HASH_VERSION) == HASH_VERSION


def _claims_counted_equally(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether two versions of a claim, and its node, count the same in the pool's status."""
    old, new = before.status, after.status
    if before.deleting != after.deleting or before.nodepool_name != after.nodepool_name:
        return False
    if old.provider_id != new.provider_id or old.capacity != new.capacity:
        return False
    if old.conditions == new.conditions:
        return True
    return all(before.has(each) == after.has(each) for each in (REGISTERED, INITIALIZED, INSTANCE_TERMINATING))


def _nodes_counted_equally(before: Node, after: Node) -> bool:
    old, new = before.metadata.labels, after.metadata.labels
    return (
        before.spec.provider_id == after.spec.provider_id
        and before.status.capacity == after.status.capacity
        and all(old.get(each) == new.get(each) for each in (NODEPOOL, REGISTERED_LABEL, INITIALIZED_LABEL))
    )
