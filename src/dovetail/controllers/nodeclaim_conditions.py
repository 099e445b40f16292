"""Maintains the `Consolidatable` and `Drifted` conditions of NodeClaims, and events about do-not-disrupt annotations.

Runs whether or not disruption is enabled, because users and tools read the conditions. It disrupts nothing.

For each claim it stores the last evaluation and its inputs (claim, NodePool spec, instance types, the provider's drift
reason) in `_evaluations`. A change that leaves the inputs equal costs no evaluation and no write. Drift at the provider
sends no watch event, so all claims are rechecked every `RECHECK`; a provider that cannot drift is only asked for the
instance types of each pool, and its claims are rechecked when those changed.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.nodeclaim_conditions import (
    RECHECK,
    NodeClaimVerdicts,
    ProviderFindings,
    conditions_apply,
    equal_condition_inputs,
    marked,
    marks,
    pod_notice,
)
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.catalog import InstanceType
from dovetail.model.kinds import POD
from dovetail.model.kube_object import Condition, Key
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodeclaim import LAUNCHED, NodeClaim
from dovetail.model.nodepool import NodePool, NodePoolSpec
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import InstanceNotFound, NotFound, WorldError
from dovetail.runtime.concurrency import in_turns
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0
TypesByPool = dict[str, tuple[InstanceType, ...] | None]
"""Instance types by NodePool name; None where the provider did not answer."""
REMIND_SECONDS = 1800.0
"""The API server drops an event after an hour; an event that still applies is published again before that."""


@dataclass(slots=True)
class _Evaluation:
    """The last evaluation of a claim, and its inputs."""

    claim: NodeClaim  # the newest version; replaced when it changes in ways that the verdicts do not depend on
    pool_name: str
    spec: NodePoolSpec
    findings: ProviderFindings
    verdicts: NodeClaimVerdicts

    def holds(self, claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> bool:
        """Whether another evaluation would return the same: no input has changed, and no timer has run out."""
        return (
            self.claim is claim
            and self.findings.types is findings.types
            and self.findings.provider_reason == findings.provider_reason
            and self.verdicts.holds(now)
            and (self.spec is pool.spec or self.spec == pool.spec)
        )


class NodeClaimConditionsController:
    """Writes `Consolidatable` and `Drifted`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._evaluations: dict[Key, _Evaluation] = {}
        self._types_by_pool: TypesByPool = {}  # the types all claims were evaluated with; None if they differ
        self._writing: set[Key] = set()  # claims being patched: `reconcile` handles changes of those afterwards
        self._drift_gate = context.options.drift
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.disruption", self.reconcile)
        context.state.claims.listen(self._claim_changed)
        context.state.nodepools.listen(self._pool_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """Requeue the claim if the change may alter its conditions; most changes do not."""
        if after is None or after.deleting:
            if before is not None:
                self.reconciler.forget(before.key)
                self._evaluations.pop(before.key, None)
            return
        key = after.key
        if key in self._writing:
            return
        evaluation = self._evaluations.get(key)
        if evaluation is not None and evaluation.claim is before and equal_condition_inputs(before, after):
            evaluation.claim = after
        elif evaluation is not None or conditions_apply(after):
            self.reconciler.add(key)

    def _pool_changed(self, before: NodePool | None, after: NodePool | None) -> None:
        if after is None or (before is not None and before.spec == after.spec):
            return
        for key, claim in self._context.state.claims.items.items():
            if claim.nodepool_name == after.name:
                self.reconciler.add(key)

    def node_class_redefined(self, name: str) -> None:
        """Requeue the claims of a node class whose definition changed."""
        for key, claim in self._context.state.claims.items.items():
            if claim.spec.node_class_ref.name == name:
                self.reconciler.add(key)

    async def run(self) -> None:
        """Reconcile claims and recheck drift until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run(), name=self.reconciler.name)
            tasks.create_task(self._poll_provider(), name=f"{self.reconciler.name}:again")

    async def _poll_provider(self) -> None:
        """Recheck all claims periodically: drift at the provider sends no watch event."""
        while True:
            await asyncio.sleep(RECHECK.total_seconds())
            await self._recheck_all()

    async def _recheck_all(self) -> None:
        for pool in list(self._context.state.nodepools.items.values()):
            if self._context.cloud.can_drift:
                await self._recheck_pool(pool)
                continue
            types = await self._instance_types(pool)
            if types is None or types is not self._types_by_pool.get(pool.name):
                await self._recheck_pool(pool)
                self._types_by_pool[pool.name] = types

    async def _recheck_pool(self, pool: NodePool) -> None:
        """Requeue the claims of a pool whose provider findings changed."""
        state, clock = self._context.state, self._context.clock
        types_by_pool: TypesByPool = {}
        ours = [(key, each) for key, each in self._evaluations.items() if each.pool_name == pool.name]
        async for key, evaluation in in_turns(ours):
            claim = evaluation.claim
            if not evaluation.verdicts.rechecked or state.claims.items.get(key) is not claim:
                continue  # needs no recheck, or was requeued by a change
            if not evaluation.holds(claim, pool, await self._query_provider(claim, pool, types_by_pool), clock.now()):
                self.reconciler.add(key)

    async def reconcile(self, key: Key) -> float | None:
        """Update the conditions of one claim; without its NodePool they stay as they are."""
        state = self._context.state
        claim = state.claims.items.get(key)
        pool = state.pool(claim.nodepool_name) if claim is not None else None
        if claim is None or pool is None or claim.deleting or not self._context.manages(claim):
            return None
        findings = await self._provider_findings(claim, pool)
        now = self._context.clock.now()
        evaluation = self._evaluations.get(key)
        if evaluation is not None and evaluation.holds(claim, pool, findings, now):
            verdicts = evaluation.verdicts
        else:
            verdicts = marks(claim, pool, findings, now)
            written = await self._write_conditions(claim, marked(claim, verdicts, now))
            if written is None:
                return None
            self._evaluations[key] = _Evaluation(written, pool.name, pool.spec, findings, verdicts)
            if verdicts.rechecked and findings.types is not self._types_by_pool.setdefault(pool.name, findings.types):
                self._types_by_pool[pool.name] = None
            if state.claims.items.get(key) is not written:
                self.reconciler.add(key)  # it changed during the patch
        wait = (verdicts.changes_at - now).total_seconds() if verdicts.changes_at is not None else None
        unanswered = verdicts.rechecked and (findings.types is None or findings.provider_reason is None)
        return min(wait or RETRY_SECONDS, RETRY_SECONDS) if unanswered else wait

    async def _write_conditions(self, claim: NodeClaim, conditions: tuple[Condition, ...]) -> NodeClaim | None:
        """Write the conditions if they changed; return the claim as written, or None if it is gone."""
        if conditions == claim.status.conditions:
            return claim
        self._writing.add(claim.key)
        try:
            return await self._context.patch_claim(claim, conditions_patch(conditions), status=True)
        except NotFound:
            return None
        finally:
            self._writing.discard(claim.key)

    async def with_conditions(self, claim: NodeClaim) -> NodeClaim:
        """Return the claim with the conditions it should have, without writing them."""
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is None or claim.deleting or not self._context.manages(claim):
            return claim
        now = self._context.clock.now()
        conditions = marked(claim, marks(claim, pool, await self._provider_findings(claim, pool), now), now)
        if conditions == claim.status.conditions:
            return claim
        return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))

    async def _provider_findings(self, claim: NodeClaim, pool: NodePool) -> ProviderFindings:
        """Return what the provider knows; it is not asked before the launch, or if drift is disabled."""
        if not self._drift_gate or not claim.has(LAUNCHED):
            return ProviderFindings(types=(), provider_reason="", drift_gate=self._drift_gate)
        return await self._query_provider(claim, pool, {})

    async def _query_provider(self, claim: NodeClaim, pool: NodePool, types_by_pool: TypesByPool) -> ProviderFindings:
        """Ask the provider. `types_by_pool` caches the instance types of each pool during one recheck."""
        if pool.name not in types_by_pool:
            types_by_pool[pool.name] = await self._instance_types(pool)
        types, cloud = types_by_pool[pool.name], self._context.cloud
        if types is None or not cloud.can_drift:
            return ProviderFindings(types=types, provider_reason=None if types is None else "")
        try:
            return ProviderFindings(types=types, provider_reason=await cloud.drift(claim))
        except InstanceNotFound:
            log.debug("no instance to ask about", extra={"nodeclaim": claim.name})
        except WorldError as error:
            log.warning("drift is unknown", extra={"nodeclaim": claim.name, "error": str(error)})
        return ProviderFindings(types=None, provider_reason=None)

    async def _instance_types(self, pool: NodePool) -> tuple[InstanceType, ...] | None:
        try:
            return await self._context.cloud.instance_types(pool)
        except WorldError as error:
            log.warning("drift is unknown", extra={"nodepool": pool.name, "error": str(error)})
            return None


class DoNotDisruptEvents:
    """Publishes events on pods whose do-not-disrupt annotation is a duration, or invalid."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[Key] = Reconciler("pod.protection", self.reconcile)
        context.state.pods.listen(self._pod_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self.reconciler.forget(before.key)
        elif (
            _has_duration(after)
            and after.node_name
            and (before is None or _relevant_fields(before) != _relevant_fields(after))
        ):
            self.reconciler.add(after.key)

    async def run(self) -> None:
        """Publish events until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Publish the event of one pod; requeue it for when the protection ends or the event expires."""
        pod = self._context.state.pods.items.get(key)
        now = self._context.clock.now()
        notice = pod_notice(pod, now) if pod is not None else None
        if pod is None or notice is None:
            return None
        if self._managed(pod):
            event = Notice(POD, pod, notice.reason, notice.message, warning=notice.warning)
            self._context.recorder.publish(event)
            if notice.until is None and not notice.warning:
                return None
        until = (notice.until - now).total_seconds() if notice.until is not None else REMIND_SECONDS
        return min(until, REMIND_SECONDS)

    def _managed(self, pod: Pod) -> bool:
        node = self._context.state.nodes.items.get(Key("", pod.node_name))
        claim = self._context.state.claim_of(node) if node is not None else None
        return claim is not None and self._context.manages(claim)


def _has_duration(pod: Pod) -> bool:
    """Whether the annotation is neither true nor false."""
    return pod.metadata.annotations.get(DO_NOT_DISRUPT, "false") not in {"true", "false"}


def _relevant_fields(pod: Pod) -> tuple[str | None, str, bool]:
    return pod.metadata.annotations.get(DO_NOT_DISRUPT), pod.node_name, pod.active
