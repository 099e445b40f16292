"""Moves each NodeClaim through its lifecycle: finalizer, launch, registration, initialization, or deletion on failure.

Each step is derived from the API objects, so a restarted process continues where the last one stopped. The termination
finalizer is written before the launch, so no instance leaks when the claim is deleted. A claim that is not launched
within 5 minutes, or not registered within 15, is deleted, whatever error occurs.

`Hydration` adds the node class label to claims and nodes that older versions created without it.
"""

import logging
from typing import Any, Protocol

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.controllers.provisioner import record_given_up
from dovetail.controllers.traces import launch_span, record_launch
from dovetail.core.lifecycle.opening import is_closed, is_openable
from dovetail.core.lifecycle.registration import (
    judge_consistency,
    judge_initialization,
    judge_liveness,
    plan_registration,
)
from dovetail.core.merge_patches import amounts, conditions_patch, finalizer_added, missing
from dovetail.model.catalog import Instance
from dovetail.model.conditions import ConditionList, ConditionVerdict, find, is_unknown
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.labels import INITIALIZED as INITIALIZED_LABEL
from dovetail.model.labels import TERMINATION_FINALIZER, ZONE
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DEPENDENTS, INITIALIZED, LAUNCHED, REGISTERED, NodeClaim
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import InsufficientCapacity, LaunchFailed, NodeClassNotReady, OutcomeUnknown, WorldError
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
MESSAGE_LIMIT = 300


class RegistrationListener(Protocol):
    """Called when the registration of a claim succeeded or failed."""

    def __call__(self, claim: NodeClaim, *, succeeded: bool) -> None:
        """Record the outcome."""
        ...


class NodeClaimLifecycle:
    """One reconciliation at a time for each NodeClaim."""

    def __init__(self, context: ControllerContext, on_registration: RegistrationListener) -> None:
        self._context = context
        self._on_registration = on_registration
        self._given_up: set[str] = set()  # uids of deleted claims that the watch may not show as deleting yet
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.lifecycle", self.reconcile, workers=100)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is not None:
            if before is None or not _same_progress(before, after):
                self._enqueue(after)
        elif before is not None:
            self.reconciler.forget(before.key)
            self._given_up.discard(before.metadata.uid)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        for claim in self._context.state.claims_of(node) if node is not None else ():
            self._enqueue(claim)

    def _enqueue(self, claim: NodeClaim) -> None:
        """Requeue the claim, unless it is complete or deleting, as with most changes."""
        if not (claim.deleting or _is_complete(claim)):
            self.reconciler.add(claim.key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Execute the next steps of one claim."""
        claim = self._context.state.claims.items.get(key)
        if claim is None or claim.deleting or not self._context.manages(claim):
            return None
        if claim.metadata.uid in self._given_up:
            return None  # another launch would leave an unused instance
        try:
            return await self._advance(claim)
        except Exception:  # the time limits hold for any error
            await self._check_after_failure(claim)
            raise

    async def _advance(self, claim: NodeClaim) -> float | None:
        key = claim.key
        if TERMINATION_FINALIZER not in claim.metadata.finalizers:
            claim = await self._context.patch_claim(claim, finalizer_added(claim, TERMINATION_FINALIZER))
        if is_unknown(claim.status.conditions, LAUNCHED):
            launched = await self._launch(claim)
            if launched is None:
                return None
            claim = launched
        claim = await self._register_and_initialize(claim)
        wait = await self._check_liveness(claim)
        if self._waits_for_events(claim):
            self.reconciler.drop_requeue(key)
        return wait

    async def _check_after_failure(self, claim: NodeClaim) -> None:
        """Delete a claim whose step failed if it is overdue; else requeue it for its deadline.

        Reads the claim from the cache, because the failed step may have written conditions.
        """
        known = self._context.state.claims.items.get(claim.key)
        if known is None or known.deleting or known.metadata.uid != claim.metadata.uid:
            return
        wait = await self._check_liveness(known)
        if wait is not None:
            self.reconciler.add(known.key, wait)

    def _waits_for_events(self, claim: NodeClaim) -> bool:
        """Whether the cache has only our own writes, so that no step is possible before the next event."""
        known = self._context.state.claims.items.get(claim.key)
        if known is None or known.metadata.resource_version != claim.metadata.resource_version:
            return False
        nodes = self._context.state.nodes_of(claim)
        if _is_complete(claim) or not nodes:
            return True
        return claim.has(REGISTERED) and _has_condition(
            claim, judge_initialization(claim, nodes[0] if len(nodes) == 1 else None)
        )

    async def _launch(self, claim: NodeClaim) -> NodeClaim | None:
        """Launch the instance; return None if the claim was given up. Other errors go to `Launched` and are raised.

        Providers raise more than CloudErrors: kwok creates Nodes, which an admission policy may refuse.
        """
        try:
            with self._context.tracer.span("launch instance", launch_span(claim), nodepool=claim.nodepool_name):
                instance = await self._context.cloud.launch(claim)
        except InsufficientCapacity as error:
            message = f"NodeClaim {claim.name} event: {_truncate(str(error))}"
            notice = Notice(NODE_CLAIM, claim, "InsufficientCapacityError", message, warning=True)
            self._context.recorder.publish(notice)
            await self._give_up(claim, "insufficient_capacity", _truncate(str(error)))
            return None
        except NodeClassNotReady as error:
            await self._give_up(claim, "nodeclass_not_ready", _truncate(str(error)))
            return None
        except Exception as error:
            reason = error.reason if isinstance(error, LaunchFailed) else "LaunchFailed"
            message = str(error) if isinstance(error, WorldError) else f"{type(error).__name__}: {error}"
            await self._write_conditions(claim, ConditionVerdict(LAUNCHED, "Unknown", reason, _truncate(message)))
            raise
        return await self._launched(claim, instance)

    async def _launched(self, claim: NodeClaim, instance: Instance) -> NodeClaim:
        labels = missing({**instance.labels, **claim.metadata.labels}, claim.metadata.labels)
        annotations = missing(instance.annotations, claim.metadata.annotations)
        if labels or annotations:
            claim = await self._context.patch_claim(claim, {"metadata": {"labels": labels, "annotations": annotations}})
        known = msgspec.structs.replace(claim.status, provider_id=instance.provider_id)
        joined = self._context.state.nodes_of(msgspec.structs.replace(claim, status=known))
        # Written with `Launched`, to save a patch.
        unregistered = () if joined else (plan_registration(claim, joined).verdict,)
        claim = await self._write_conditions(
            claim,
            ConditionVerdict(LAUNCHED),
            *unregistered,
            providerID=instance.provider_id,
            imageID=instance.image_id,
            capacity=amounts(instance.capacity),
            allocatable=amounts(instance.allocatable),
        )
        log.info("launched nodeclaim", extra={"nodeclaim": claim.name, "provider_id": instance.provider_id, **labels})
        return claim

    async def _register_and_initialize(self, claim: NodeClaim) -> NodeClaim:
        """Register and initialize the claim's node; both conditions are written in one patch."""
        if not claim.has(LAUNCHED):
            return claim
        if not is_unknown(claim.status.conditions, REGISTERED):
            return await self._initialize(claim) if claim.has(REGISTERED) else claim
        registration = plan_registration(claim, self._context.state.nodes_of(claim))
        if registration.node is None:
            return await self._write_conditions(claim, registration.verdict)
        if registration.taint_was_missing:
            message = "Node joined without the unregistered taint; pods may have been bound before it was ready"
            self._context.recorder.publish(Notice(NODE_CLAIM, claim, "UnregisteredTaintMissing", message, warning=True))
        if registration.node_patch:
            await self._context.patch_node(registration.node, registration.node_patch)
        return await self._initialize(claim, registration.verdict, nodeName=registration.node.name)

    async def _initialize(self, claim: NodeClaim, *before: ConditionVerdict, **status: str) -> NodeClaim:
        """Write whether the node is initialized, together with the verdicts in `before`."""
        if claim.has(INITIALIZED):
            return claim
        nodes = self._context.state.nodes_of(claim)
        node = nodes[0] if len(nodes) == 1 else None
        if node is not None and is_closed(node) and is_openable(node, claim):
            return await self._write_conditions(claim, *before, **status)  # it is being opened
        verdict = judge_initialization(claim, node)
        if node is not None and verdict.status == "True" and node.metadata.labels.get(INITIALIZED_LABEL) != "true":
            await self._context.patch_node(node, {"metadata": {"labels": {INITIALIZED_LABEL: "true"}}})
        consistency = (judge_consistency(claim, node),) if node is not None and verdict.status == "True" else ()
        return await self._write_conditions(claim, *before, verdict, *consistency, **status)

    async def _check_liveness(self, claim: NodeClaim) -> float | None:
        liveness = judge_liveness(claim, self._context.clock.now())
        if liveness.reason:
            self._on_registration(claim, succeeded=False)
            await self._give_up(claim, liveness.reason, _failure_message(claim))
        return liveness.wait.total_seconds() if liveness.wait is not None else None

    async def _give_up(self, claim: NodeClaim, reason: str, why: str) -> None:
        log.warning("deleting nodeclaim", extra={"nodeclaim": claim.name, "reason": reason})
        await record_given_up(self._context, claim, f"{reason}: {why}" if why else reason)
        await self._context.delete_claim(claim)
        if claim.key in self._context.state.claims.items:
            self._given_up.add(claim.metadata.uid)
        count_removal(self._context, claim, reason)

    async def _write_conditions(self, claim: NodeClaim, *verdicts: ConditionVerdict, **status: Any) -> NodeClaim:
        """Write conditions and other status fields, if anything changed."""
        created_at = claim.metadata.creation_timestamp
        conditions = ConditionList(
            claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, self._context.clock.now()
        ).set(*verdicts)
        if conditions == claim.status.conditions and not status:
            return claim
        try:
            written = await self._context.patch_claim(claim, conditions_patch(conditions, **status), status=True)
        except OutcomeUnknown:
            refreshed = self._context.state.claims.items.get(claim.key)
            if refreshed is not None and refreshed.metadata.uid == claim.metadata.uid:
                self._report_progress(claim, refreshed)
            raise
        self._report_progress(claim, written)
        return msgspec.structs.replace(claim, metadata=written.metadata, status=written.status)

    def _report_progress(self, before: NodeClaim, after: NodeClaim) -> None:
        """Log and count what a write completed, once per claim: it succeeds only on the version that was read."""
        facts = {"nodeclaim": after.name, "node": after.status.node_name}
        if after.has(REGISTERED) and not before.has(REGISTERED):
            where = {"nodepool": after.nodepool_name, "zone": after.metadata.labels.get(ZONE, "")}
            self._context.metrics.count("karpenter_nodes_created_total", **where)
            log.info("registered nodeclaim", extra=facts)
            self._on_registration(after, succeeded=True)
        if after.has(INITIALIZED) and not before.has(INITIALIZED):
            log.info("initialized nodeclaim", extra=facts)
            record_launch(self._context, after)


def _same_progress(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether two versions of a claim are at the same step."""
    old, new = before.metadata, after.metadata
    return (
        before.status.conditions == after.status.conditions
        and before.status.provider_id == after.status.provider_id
        and (old.finalizers, old.labels, old.annotations) == (new.finalizers, new.labels, new.annotations)
    )


def _has_condition(claim: NodeClaim, verdict: ConditionVerdict) -> bool:
    found = find(claim.status.conditions, verdict.type)
    current = (found.status, found.reason, found.message) if found is not None else None
    return current == (verdict.status, verdict.reason or verdict.type, verdict.message)


def _is_complete(claim: NodeClaim) -> bool:
    """Whether the claim is launched, registered and initialized."""
    return TERMINATION_FINALIZER in claim.metadata.finalizers and all(claim.has(each) for each in DEPENDENTS)


def _failure_message(claim: NodeClaim) -> str:
    """Return the message of the condition that is overdue."""
    found = find(claim.status.conditions, REGISTERED if claim.has(LAUNCHED) else LAUNCHED)
    return found.message if found is not None else ""


def _truncate(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + "..."


class Hydration:
    """Adds the label `<node class group>/<kind>` to claims and nodes where it is missing."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[Key] = Reconciler("nodeclaim.hydration", self.reconcile)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is None and after is not None:
            self.reconciler.add(after.key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None and after is not None:
            for claim in self._context.state.claims_of(after):
                self.reconciler.add(claim.key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Label one claim and its node."""
        claim = self._context.state.claims.items.get(key)
        if claim is None or claim.deleting or not self._context.manages(claim):
            return None
        ref = claim.spec.node_class_ref
        wanted = {"metadata": {"labels": {ref.label: ref.name}}}
        if ref.label not in claim.metadata.labels:
            await self._context.patch_claim(claim, wanted)
        for node in self._context.state.nodes_of(claim):
            if ref.label not in node.metadata.labels:
                await self._context.patch_node(node, wanted)
        return None
