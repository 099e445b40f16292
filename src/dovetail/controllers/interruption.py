"""Handles interruption warnings: sets the drain deadline, deletes the NodeClaim, and avoids the offering.

Deleting the claim starts everything else: termination taints and drains the node before the interruption, and the
provisioner launches nodes for its pods at once. A message is acknowledged only after everything it requires is written
to the API server, so it is delivered again after a crash; handling it twice has no further effect. Instances without a
NodeClaim are ignored. `core.lifecycle.interruption` maps each kind of warning to its response.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import decision_id
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.core.lifecycle.interruption import Response, drain_by, respond
from dovetail.core.lifecycle.termination import deadline_patch
from dovetail.model.kinds import NODE, NODE_CLAIM, Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import NotFound, WorldError
from dovetail.ports.interruption import Delivery, Interruption, InterruptionSource
from dovetail.runtime.concurrency import guarded
from dovetail.runtime.reconciler import RetryBackoff

log = logging.getLogger(__name__)
IN_FLIGHT = 100  # batches of messages handled concurrently, per source
ATTEMPTS = 8  # in about twelve seconds; then the source delivers the message again
STATUS_CHECKS = frozenset({"instance_status", "system_status", "event_status"})


class InterruptionController:
    """Receives warnings from every source and handles them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._claims_by_instance: dict[str, set[Key]] = {}  # the key is the last segment of the provider id
        context.state.claims.listen(self._claim_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if before is not None and after is not None and before.status.provider_id == after.status.provider_id:
            return
        if before is not None and before.provider_id:
            held = self._claims_by_instance.get(_instance_id(before), set())
            held.discard(before.key)
            if not held:
                self._claims_by_instance.pop(_instance_id(before), None)
        if after is not None and after.provider_id:
            self._claims_by_instance.setdefault(_instance_id(after), set()).add(after.key)

    async def run(self) -> None:
        """Receive warnings until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            for provider in self._context.providers:
                for source in provider.interruptions:
                    tasks.create_task(self._listen(source, provider.in_use))

    async def _listen(self, source: InterruptionSource, in_use: asyncio.Event) -> None:
        await in_use.wait()
        backoff = RetryBackoff(first=1.0, limit=30.0)
        slots = asyncio.Semaphore(IN_FLIGHT)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await slots.acquire()
                deliveries = await guarded("interruption.receive", source.receive)
                if deliveries is None:
                    slots.release()
                    await asyncio.sleep(backoff.next())
                    continue
                backoff.reset()
                handling = tasks.create_task(self._handle_all(source, deliveries))
                handling.add_done_callback(lambda _: slots.release())

    async def _handle_all(self, source: InterruptionSource, deliveries: Sequence[Delivery]) -> None:
        handled = await asyncio.gather(*(self._handle(delivery) for delivery in deliveries))
        done = [delivery for delivery, ok in zip(deliveries, handled, strict=True) if ok]
        if done:
            await guarded("interruption", lambda: self._acknowledge(source, done))

    async def _acknowledge(self, source: InterruptionSource, done: Sequence[Delivery]) -> None:
        await source.acknowledge(done)
        self._context.metrics.count("karpenter_interruption_deleted_messages_total", float(len(done)))

    async def _handle(self, delivery: Delivery) -> bool:
        """Handle one message; return whether it may be acknowledged."""
        interruption, metrics = delivery.interruption, self._context.metrics
        kind = interruption.kind if interruption is not None else "no_op"
        metrics.count("karpenter_interruption_received_messages_total", message_type=kind)
        if delivery.sent_at is not None:
            age = (self._context.clock.now() - delivery.sent_at).total_seconds()
            metrics.observe("karpenter_interruption_message_queue_duration_seconds", max(0.0, age))
        if interruption is None:
            return True
        if interruption.kind in STATUS_CHECKS:
            metrics.count("karpenter_interruption_instance_status_unhealthy_total", category=interruption.kind)
        ended = await guarded("interruption", lambda: self.handle(interruption))
        return ended is True

    async def handle(self, interruption: Interruption) -> bool:
        """Respond to one warning for every affected claim; return True, or raise a `WorldError`."""
        response = respond(interruption.kind, rebalance=self._context.options.drain_on_rebalance)
        for instance, claim in self.affected_claims(interruption):
            await self._interrupt(claim.key, instance, interruption, response)
        return True

    def affected_claims(self, interruption: Interruption) -> list[tuple[str, NodeClaim]]:
        """Return the managed claims that a warning affects, each with its instance id."""
        claims = self._context.state.claims.items
        found = [
            (instance, claims[key])
            for instance in interruption.instance_ids
            for key in sorted(self._claims_by_instance.get(instance, ()))
        ]
        return [(instance, claim) for instance, claim in found if self._context.manages(claim)]

    async def _interrupt(self, key: Key, instance: str, interruption: Interruption, response: Response) -> None:
        """Apply the response to one claim; retry quickly, with the newest cached claim, as there is little time."""
        backoff = RetryBackoff(first=0.1, limit=5.0)
        for attempt in range(1, ATTEMPTS + 1):
            if key not in self._claims_by_instance.get(instance, ()):
                return
            claim = self._context.state.claims.items[key]
            try:
                await self._apply(claim, interruption, response)
            except NotFound:
                return
            except WorldError:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _apply(self, claim: NodeClaim, interruption: Interruption, response: Response) -> None:
        context = self._context
        if not claim.deleting:
            self._publish(claim, response)
        if response.avoids:
            labels = claim.metadata.labels
            offering = [labels.get(name, "") for name in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)]
            if all(offering):
                context.cloud.avoid(*offering)
        if not response.acts:
            return
        deadline = drain_by(response, interruption.at, context.clock.now())
        patch = deadline_patch(claim, deadline) if deadline is not None else {}
        if patch:
            claim = await context.patch_claim(claim, patch)
        if not claim.deleting:
            await context.delete_claim(claim)
            log.warning(
                "interrupted",
                extra={"nodeclaim": claim.name, "kind": str(interruption.kind), "decision": decision_id(claim)},
            )
            count_removal(context, claim, interruption.kind)
            self._publish(claim, Response("TerminatingOnInterruption", "Interruption triggered termination for the {}"))

    def _publish(self, claim: NodeClaim, response: Response) -> None:
        objects: list[tuple[Kind[Any], KubeObject]] = [(NODE_CLAIM, claim)]
        objects.extend((NODE, node) for node in self._context.state.nodes_of(claim))
        for kind, about in objects:
            message = response.message.format(kind.name)
            notice = Notice(kind, about, response.event, message, warning=response.warning, decision=decision_id(claim))
            self._context.recorder.publish(notice)


def _instance_id(claim: NodeClaim) -> str:
    return claim.provider_id.rpartition("/")[2]
