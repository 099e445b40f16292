"""Keeps on each NodeClaim what its readers ask first: has it been quiet for long enough, and has it drifted.

Also tells on pods what their do-not-disrupt annotation comes to. Runs whether or not anything is disrupted: people and
tools read conditions and events in either case. Disrupts nothing itself.
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
    has_marks_to_come,
    judged_alike,
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
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0
CLAIMS_PER_TURN = 100
"""So many claims are asked about before others get a turn."""
TypesByPool = dict[str, tuple[InstanceType, ...] | None]
"""What each pool can be given, by its name; None where the provider gives no answer."""
REMIND_SECONDS = 1800.0
"""The API server forgets an event after an hour; what still holds is told again before."""


@dataclass(slots=True)
class _Evaluation:
    """A claim that says what it should, and what that was with_conditions by."""

    claim: NodeClaim  # as it is now: what else changed about it is not with_conditions by
    pool_name: str
    spec: NodePoolSpec
    findings: ProviderFindings
    verdicts: NodeClaimVerdicts

    def holds(self, claim: NodeClaim, pool: NodePool, findings: ProviderFindings, now: datetime) -> bool:
        """Whether it would be with_conditions the same: nothing has changed, and no clock has run out."""
        return (
            self.claim is claim
            and self.findings.types is findings.types
            and self.findings.provider_reason == findings.provider_reason
            and self.verdicts.holds(now)
            and (self.spec is pool.spec or self.spec == pool.spec)
        )


class NodeClaimConditionsController:
    """One reconciliation at a time for each NodeClaim: `Consolidatable` and `Drifted`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._evaluations: dict[Key, _Evaluation] = {}
        self._types_by_pool: TypesByPool = {}  # what all claims of a pool were with_conditions by; None if not all by the same
        self._writing: set[Key] = set()  # claims being marked: what is heard of those is looked at when that is done
        self._drift_gate = context.options.drift
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.disruption", self.reconcile)
        context.state.claims.listen(self._claim_changed)
        context.state.nodepools.listen(self._pool_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """What does not concern the marks, as most of what is written on a claim does not, needs no look."""
        if after is None or after.deleting:
            if before is not None:
                self.reconciler.forget(before.key)
                self._evaluations.pop(before.key, None)
            return
        key = after.key
        if key in self._writing:
            return
        evaluation = self._evaluations.get(key)
        if evaluation is not None and evaluation.claim is before and judged_alike(before, after):
            evaluation.claim = after
        elif evaluation is not None or has_marks_to_come(after):
            self.reconciler.add(key)

    def _pool_changed(self, before: NodePool | None, after: NodePool | None) -> None:
        if after is None or (before is not None and before.spec == after.spec):
            return
        for key, claim in self._context.state.claims.items.items():
            if claim.nodepool_name == after.name:
                self.reconciler.add(key)

    def node_class_redefined(self, name: str) -> None:
        """Nodes of a class of that name may have drifted, or no longer."""
        for key, claim in self._context.state.claims.items.items():
            if claim.spec.node_class_ref.name == name:
                self.reconciler.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run(), name=self.reconciler.name)
            tasks.create_task(self._poll_provider(), name=f"{self.reconciler.name}:again")

    async def _poll_provider(self) -> None:
        """What nobody tells us of is asked for from time to time: all claims in one go, most of which are as before."""
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
                self._types_by_pool[pool.name] = types  # who was with_conditions by others is with_conditions anew

    async def _recheck_pool(self, pool: NodePool) -> None:
        """Ask for each claim of a pool."""
        state, clock = self._context.state, self._context.clock
        types_by_pool: TypesByPool = {}
        ours = [(key, each) for key, each in self._evaluations.items() if each.pool_name == pool.name]
        for number, (key, evaluation) in enumerate(ours):
            if number % CLAIMS_PER_TURN == CLAIMS_PER_TURN - 1:
                await asyncio.sleep(0)
            claim = evaluation.claim
            if not evaluation.verdicts.rechecked or state.claims.items.get(key) is not claim:
                continue  # nothing wants to be known, or a change gave it a turn of its own
            if not evaluation.holds(claim, pool, await self._query_provider(claim, pool, types_by_pool), clock.now()):
                self.reconciler.add(key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the conditions of one claim up to date. Without its pool nothing can be said, and all stays."""
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
                self.reconciler.add(key)  # it has changed meanwhile
        wait = (verdicts.changes_at - now).total_seconds() if verdicts.changes_at is not None else None
        unanswered = verdicts.rechecked and (findings.types is None or findings.provider_reason is None)
        return min(wait or RETRY_SECONDS, RETRY_SECONDS) if unanswered else wait

    async def _write_conditions(self, claim: NodeClaim, conditions: tuple[Condition, ...]) -> NodeClaim | None:
        """The claim as it says so now, if it is still there."""
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
        """The claim with the conditions it should have; as it is where nothing can be said. Nothing is written."""
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is None or claim.deleting or not self._context.manages(claim):
            return claim
        now = self._context.clock.now()
        conditions = marked(claim, marks(claim, pool, await self._provider_findings(claim, pool), now), now)
        if conditions == claim.status.conditions:
            return claim
        return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))

    async def _provider_findings(self, claim: NodeClaim, pool: NodePool) -> ProviderFindings:
        """What only the provider knows; nothing is asked of it before launch or when nobody wants to know."""
        if not self._drift_gate or not claim.has(LAUNCHED):
            return ProviderFindings(types=(), provider_reason="", drift_gate=self._drift_gate)
        return await self._query_provider(claim, pool, {})

    async def _query_provider(self, claim: NodeClaim, pool: NodePool, types_by_pool: TypesByPool) -> ProviderFindings:
        """The provider's answer. The types of a pool are asked for once in a round, and kept in `types_by_pool`."""
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
    """Events on pods of managed nodes whose annotation is a duration, or nothing we understand."""

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
        """Work until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Tell what there is to tell about one pod, and again when that changes or is forgotten."""
        pod = self._context.state.pods.items.get(key)
        now = self._context.clock.now()
        notice = pod_notice(pod, now) if pod is not None else None
        if pod is None or notice is None:
            return None
        if self._managed(pod):
            told = Notice(POD, pod, notice.reason, notice.message, warning=notice.warning)
            self._context.recorder.publish(told)
            if notice.until is None and not notice.warning:
                return None
        until = (notice.until - now).total_seconds() if notice.until is not None else REMIND_SECONDS
        return min(until, REMIND_SECONDS)

    def _managed(self, pod: Pod) -> bool:
        node = self._context.state.nodes.items.get(Key("", pod.node_name))
        claim = self._context.state.claim_of(node) if node is not None else None
        return claim is not None and self._context.manages(claim)


def _has_duration(pod: Pod) -> bool:
    """Whether the annotation says anything but a plain yes or no."""
    return pod.metadata.annotations.get(DO_NOT_DISRUPT, "false") not in {"true", "false"}


def _relevant_fields(pod: Pod) -> tuple[str | None, str, bool]:
    return pod.metadata.annotations.get(DO_NOT_DISRUPT), pod.node_name, pod.active
