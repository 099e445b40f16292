"""Launches NodeClaims for pending pods.

Triggers are batched (`--batch-idle-duration`, `--batch-max-duration`), so that one plan serves a whole Deployment. The
provisioner never binds pods: kube-scheduler does that once the nodes are ready, and `node_opening` nominates the pods
that each node was planned for. Pods that cannot be scheduled get a `FailedScheduling` event, and planning is triggered
again every ten seconds while any pod is pending.

Failed launches are recorded in an annotation of the NodePool, which `core.provisioning.launch_backoff` reads to decide
when the next launch may be tried. The record is written before the failed claim is deleted, and a failure that is
recorded repeatedly counts once.
"""

import asyncio
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.ledger_entries import considered_for_launch, launch_entry, launch_id, refused_pods
from dovetail.controllers.metrics.disruption import count_created
from dovetail.controllers.metrics.provisioning import measure_provisioning
from dovetail.controllers.traces import launch_span, provisioning_facts
from dovetail.core.lifecycle.opening import with_planned_pods
from dovetail.core.lifecycle.termination import read_deadline
from dovetail.core.provisioning.eligible_pods import AHEAD
from dovetail.core.provisioning.launch_backoff import (
    BACKOFF_ANNOTATION,
    FailedLaunch,
    LaunchBackoff,
    LaunchFailureCause,
    after_failure,
    annotation,
    launched_for,
    record_of,
)
from dovetail.core.provisioning.node_sizing import WITHOUT_HIGHS
from dovetail.core.provisioning.plan import PlannedLaunch, ProvisioningPlan, plan_provisioning
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.wording import message
from dovetail.model.instants import subtract
from dovetail.model.kinds import NODE_POOL, POD
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import RefusalCode
from dovetail.model.snapshot import Snapshot
from dovetail.ports.cluster import Notice, Patch
from dovetail.ports.errors import Conflict, WorldError
from dovetail.ports.ledger import Considered
from dovetail.runtime.concurrency import guarded, timed

log = logging.getLogger(__name__)


async def record_given_up(context: ControllerContext, claim: NodeClaim, why: str) -> None:
    """Record that a claim is deleted because it did not become a node."""
    message = f"nodeclaim {claim.name} was given up, {why}"
    await record_launch_failures(
        context, [FailedLaunch(claim, kind, LaunchFailureCause.LAUNCH_FAILED, message) for kind in launched_for(claim)]
    )


async def record_launch_failures(context: ControllerContext, failures: Iterable[FailedLaunch]) -> None:
    """Record failures on their NodePools; a NodePool that cannot be patched is logged."""
    by_pool: dict[str, list[FailedLaunch]] = {}
    for failure in failures:
        by_pool.setdefault(failure.claim.nodepool_name, []).append(failure)
    for name, failed in by_pool.items():
        try:
            async with context.backoff_lock:
                await _record_on_pool(context, name, failed)
        except WorldError as error:
            log.warning("failed launch not recorded", extra={"nodepool": name, "error": str(error)})


async def _record_on_pool(context: ControllerContext, name: str, failures: list[FailedLaunch]) -> None:
    pool = context.state.pool(name)
    if pool is None:
        return
    try:
        await _write_backoffs(context, pool, failures)
    except Conflict:
        await _write_backoffs(context, await context.cluster.get(NODE_POOL, Key("", name)), failures)


async def _write_backoffs(context: ControllerContext, pool: NodePool, failures: list[FailedLaunch]) -> None:
    now = context.clock.now()
    before = record_of(pool, context.state.snapshot(now, {}))
    after = {failure.kind: (after_failure(pool, failure, before, now), failure) for failure in failures}
    new = {kind: entry for kind, entry in after.items() if before.get(kind) != entry[0]}
    text = annotation({**before, **{kind: backoff for kind, (backoff, _) in new.items()}}, now)
    if not new or text == pool.metadata.annotations.get(BACKOFF_ANNOTATION):  # equal if the record is full
        return
    patch = Patch({"metadata": {"annotations": {BACKOFF_ANNOTATION: text}}}, pool.metadata.resource_version)
    pool = context.state.observe(NODE_POOL, await context.cluster.patch(NODE_POOL, pool.key, patch))
    for backoff, failure in new.values():
        context.metrics.count("dovetail_launches_failed_total", nodepool=pool.name, cause=str(failure.cause))
        if backoff.until > now:
            context.recorder.publish(
                Notice(NODE_POOL, pool, RefusalCode.LAUNCH_BACKOFF, _backoff_message(backoff), warning=True)
            )


def _backoff_message(backoff: LaunchBackoff) -> str:
    failures = f"{backoff.failures} launch{'es' * (backoff.failures > 1)} in a row failed"
    return f"No node is launched before {backoff.until:%Y-%m-%dT%H:%M:%SZ} for some pods, {failures}: {backoff.why}"


RETRIGGER_SECONDS = 10.0
MAX_REMEMBERED = 100_000
LAUNCHES_AT_ONCE = 100
"""NodeClaims created concurrently, so that thousands of them delay neither the event loop nor other requests."""
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass
class Batch:
    """Collects triggers until none is new for `idle` seconds, or `longest` seconds have passed."""

    idle: float
    longest: float
    _seen: set[str] = field(default_factory=set)
    _triggered: asyncio.Event = field(default_factory=asyncio.Event)

    def trigger(self, identity: str) -> None:
        """Add a trigger; a known identity does not extend the batch."""
        if identity not in self._seen:
            if len(self._seen) >= MAX_REMEMBERED:  # a dry run never gathers
                self._seen.clear()
            self._seen.add(identity)
            self._triggered.set()

    async def gather(self) -> None:
        """Wait for the first trigger, then for the end of the batch."""
        await self._triggered.wait()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.longest
        while self._triggered.is_set() and loop.time() < deadline:
            self._triggered.clear()
            try:
                async with asyncio.timeout_at(min(loop.time() + self.idle, deadline)):
                    await self._triggered.wait()
            except TimeoutError:
                break
        self._triggered.clear()
        self._seen.clear()


class Provisioner:
    """Watches for pending pods and launches NodeClaims for them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pod_index = PodIndex()  # used by computations only
        settings = context.settings
        self._batch = Batch(settings.batch_idle_duration.total_seconds(), settings.batch_max_duration.total_seconds())
        self._replan_at: dict[str, datetime] = {}  # by claim uid: when to plan for its protected pods
        self._retrigger_needed = asyncio.Event()  # set while `_retrigger` may have something to trigger
        self._launch_slots = asyncio.Semaphore(LAUNCHES_AT_ONCE)
        self._nomination = max(2 * settings.batch_max_duration, timedelta(seconds=10))
        context.state.pods.listen(self._pod_changed)
        context.state.claims.listen(self._claim_changed)
        context.state.nodepools.listen(self._pool_changed)

    def _pod_changed(self, _before: Pod | None, after: Pod | None) -> None:
        if after is not None and after.provisionable:
            self._batch.trigger(after.metadata.uid)
            self._retrigger_needed.set()

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is not None and not before.deleting and (after is None or after.deleting):
            self._batch.trigger(before.metadata.uid)
        known, deadline = _drain_deadline(before), _drain_deadline(after)
        if after is not None and deadline is not None and deadline != known:
            self._replan_at[after.metadata.uid] = subtract(deadline, AHEAD)
            self._retrigger_needed.set()
        elif before is not None and deadline is None:
            self._replan_at.pop(before.metadata.uid, None)

    def _pool_changed(self, before: NodePool | None, after: NodePool | None) -> None:
        changed = after is not None and (before is None or before.status.conditions != after.status.conditions)
        if changed and after is not None and self._has_pending_pods():
            self._batch.trigger(after.metadata.uid)

    def _has_pending_pods(self) -> bool:
        return any(pod.unschedulable for pod in self._context.state.unbound_pods)

    async def run(self) -> None:
        """Provision until cancelled."""
        if self._context.options.sizes_by_price and WITHOUT_HIGHS:
            log.warning(WITHOUT_HIGHS)
        await self._context.state.synced()
        while True:
            async with asyncio.TaskGroup() as waits:
                reminder = waits.create_task(self._retrigger())
                await self._batch.gather()
                reminder.cancel()
            await guarded("provisioner", self.provision)

    async def _retrigger(self) -> None:
        """Trigger every ten seconds while pods are pending, and when a claim's drain deadline is near."""
        loop = asyncio.get_running_loop()
        at = loop.time()
        while True:
            if not self._has_pending_pods() and not any(due < NEVER for due in self._replan_at.values()):
                self._retrigger_needed.clear()
                await self._retrigger_needed.wait()
            at += RETRIGGER_SECONDS * max(1, math.ceil((loop.time() - at) / RETRIGGER_SECONDS))
            await asyncio.sleep(at - loop.time())
            if self._has_pending_pods():
                self._batch.trigger("still waiting")
            now = self._context.clock.now()
            for uid in [uid for uid, at in self._replan_at.items() if at <= now]:
                self._replan_at[uid] = NEVER
                self._batch.trigger(uid)

    async def provision(self) -> ProvisioningPlan:
        """Plan once, create the planned NodeClaims, and publish events."""
        with self._context.tracer.span("provisioning pass") as span:
            async with self._context.launch_lock:
                plan = await self._provision()
            if self._context.tracer.enabled:
                span.set(**provisioning_facts(plan))
        return plan

    async def _provision(self) -> ProvisioningPlan:
        context, span = self._context, self._context.tracer.span
        pools = [pool for _, pool in sorted(context.state.nodepools.items.items())]
        with span("snapshot"):
            snapshot = context.state.snapshot(context.clock.now(), await find_catalogs(context.cloud, pools))
        with span("schedule pods"):
            work = partial(plan_provisioning, snapshot, context.options, register=self._pod_index)
            plan, seconds = await context.compute.run(partial(timed, work, asyncio.get_running_loop().time))
        await measure_provisioning(context, snapshot, plan, seconds)
        await record_launch_failures(context, plan.failures)
        self._publish(plan)
        pods = refused_pods(plan.refusals)
        launches = [self._with_planned_pods(launch, snapshot) for launch in plan.launches]
        await asyncio.gather(*(self._launch(launch, pods) for launch in launches))
        return plan

    def _with_planned_pods(self, launch: PlannedLaunch, snapshot: Snapshot) -> PlannedLaunch:
        if not self._context.settings.nominate_pods:
            return launch
        return replace(launch, claim=with_planned_pods(launch.claim, launch.pods, snapshot.daemon_sets))

    async def _launch(self, launch: PlannedLaunch, pods: Considered) -> None:
        async with self._launch_slots:
            claim = await self._create(launch)
        if claim is not None:
            self._report(claim, launch, pods)

    async def _create(self, launch: PlannedLaunch) -> NodeClaim | None:
        context, pool = self._context, launch.claim.nodepool_name
        try:
            with context.tracer.span("create nodeclaim", None, nodepool=pool, pods=len(launch.pods)) as span:
                claim = await context.create_claim(launch.claim)
                span.set(nodeclaim=claim.name)
                span.link(launch_span(claim))
        except WorldError as error:
            log.warning("nodeclaim not created", extra={"nodepool": pool, "error": str(error)})
            return None
        return claim

    def _report(self, claim: NodeClaim, launch: PlannedLaunch, pods: Considered) -> None:
        context = self._context
        count_created(context.metrics, claim, "provisioned")
        context.ledger.open(launch_entry(claim, launch.pods, context.clock.now(), considered_for_launch(claim, pods)))
        types = claim.spec.requirements[-1].values
        log.info(
            "created nodeclaim",
            extra={
                "nodeclaim": claim.name,
                "decision": launch_id(claim),
                **context.tracer.log_fields(launch_id(claim)),
                "nodepool": claim.nodepool_name,
                "pods": len(launch.pods),
                "requests": {name: str(amount) for name, amount in sorted(claim.spec.resources.requests.items())},
                "instance_types": f"{', '.join(types[:5])}{f' and {len(types) - 5} others' if len(types) > 5 else ''}",
            },
        )
        for pod in launch.pods:
            self._nominate(pod, f"nodeclaim/{claim.name}")

    def _nominate(self, pod: Pod, where: str) -> None:
        message = f"Pod should schedule on: {where}"
        self._context.recorder.publish(Notice(POD, pod, "Nominated", message, dedupe=(pod.metadata.uid,)))

    def _publish(self, plan: ProvisioningPlan) -> None:
        state, recorder = self._context.state, self._context.recorder
        until = self._context.clock.now() + self._nomination
        for key, where in plan.node_by_pod:
            state.nominate(where, until)
            pod = state.pods.items.get(key)
            if pod is not None and pod.provisionable:
                self._nominate(pod, f"node/{where}")
        for refusal in plan.refusals:
            pod = state.pods.items.get(refusal.object.key)
            if pod is not None and refusal.code is not RefusalCode.CONFIGURED_ELSEWHERE:
                text = f"Failed to schedule pod, {message(refusal)}"
                notice = Notice(POD, pod, "FailedScheduling", text, warning=True, dedupe=(pod.metadata.uid,))
                recorder.publish(notice)
        for refusal in plan.pool_refusals:
            pool = state.pool(refusal.object.name)
            if pool is not None:
                recorder.publish(Notice(NODE_POOL, pool, str(refusal.code), message(refusal), warning=True))


def _drain_deadline(claim: NodeClaim | None) -> datetime | None:
    """Return the drain deadline of a deleted claim."""
    return read_deadline(claim) if claim is not None and claim.deleting else None
