"""Writes the ledger entries that no other controller writes: the end of launches, and removals without a command.

It only watches NodeClaims. A claim that is deleted without a command was expired, repaired, interrupted, given up or
garbage-collected by a controller, which left the reason in `ControllerContext.removal_reasons`; a claim without a
reason was deleted by a user. At startup, entries that ended while no controller was running get the outcome `unknown`.
"""

import asyncio
import itertools
from collections import defaultdict
from dataclasses import replace

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import launch_id, ledger_node, pod_names, priced_node, removal_id
from dovetail.controllers.savings import SavingsTracker
from dovetail.core.disruption.command_progress import running_commands
from dovetail.core.lifecycle.interruption import RESPONSES
from dovetail.model.command import REPLACES_ANNOTATION, read_record, taken_by
from dovetail.model.conditions import find
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE
from dovetail.model.nodeclaim import DISRUPTION_REASON, INITIALIZED, NodeClaim
from dovetail.model.reason import Reason
from dovetail.ports.cluster import Notice
from dovetail.ports.ledger import (
    DecisionOutcome,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerHealth,
    LedgerNode,
    LedgerState,
)
from dovetail.runtime.reconciler import Reconciler

REMOVAL_REASON_DELAY = 2.0  # seconds after a deletion in which its controller sets the reason
HEALTH_SECONDS = 30.0
SAVINGS_EVERY = 10  # health reports: every five minutes, because all recent decisions are replayed
_REASONS = {
    "expired": (Reason.EXPIRED, "older than its NodeClaim's expireAfter"),
    "unhealthy": (Reason.UNHEALTHY, "its node was unhealthy for too long"),
    "garbage_collected": ("GarbageCollected", "its instance was gone"),
    "insufficient_capacity": ("InsufficientCapacity", "no offering was available"),
    "nodeclass_not_ready": ("NodeClassNotReady", "its node class was not ready"),
    "rolled_back": ("RolledBack", "the command it was launched for was rolled back"),
    "launch_timeout": ("LaunchTimeout", "it could not be launched in time"),
    "registration_timeout": ("RegistrationTimeout", "its node did not register in time"),
}


class LedgerController:
    """Opens and closes ledger entries as NodeClaims change."""

    def __init__(self, context: ControllerContext, savings: SavingsTracker) -> None:
        self._context = context
        self._savings = savings
        self._recorded_removals: set[str] = set()  # uids of claims
        self._pods_to_reschedule: dict[str, tuple[str, ...]] = {}  # at deletion, by claim uid
        self._peers: dict[str, int] = {}  # at deletion, by claim uid
        self._nodes_by_uid: dict[str, LedgerNode] = {}  # by claim uid
        self._last_health = LedgerHealth()
        self.reconciler: Reconciler[Key] = Reconciler("ledger", self.reconcile)
        context.state.claims.listen(self._claim_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None and before is not None:
            self._claim_deleted(before)
        elif after is None:
            return
        elif after.deleting:
            if before is None or not before.deleting:
                self._pods_to_reschedule[after.metadata.uid] = self._pods(after)
                self._peers[after.metadata.uid] = self._count_peers(after)
                self.reconciler.add(after.key, REMOVAL_REASON_DELAY)
        elif after.has(INITIALIZED) and before is not None and not before.has(INITIALIZED):
            self.reconciler.add(after.key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._context.state.synced()
        self._settle()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run(), name="ledger:entries")
            tasks.create_task(self._watch_health(), name="ledger:health")

    def _settle(self) -> None:
        """Report to the ledger which entries of earlier processes are still running and which are done."""
        context = self._context
        claims = list(context.state.claims.items.values())
        under_way = {*running_commands(claims)}
        under_way.update(removal_id(claim) for claim in claims if claim.deleting)
        under_way.update(launch_id(claim) for claim in claims if not claim.has(INITIALIZED))
        done = {launch_id(claim) for claim in claims if claim.has(INITIALIZED)}
        known = LedgerState(
            under_way=frozenset(under_way), done=frozenset(done), nodeclaims=frozenset(claim.name for claim in claims)
        )
        context.ledger.settle(known, context.clock.now())

    async def reconcile(self, key: Key) -> float | None:
        """Close the launch of an initialized claim, or open the removal of a deleted one."""
        context = self._context
        claim = context.state.claims.items.get(key)
        if claim is None or not context.manages(claim):
            return None
        node = self._nodes_by_uid[claim.metadata.uid] = await priced_node(context, claim)
        if claim.deleting:
            self._open_removal(claim, node)
        elif REPLACES_ANNOTATION not in claim.metadata.annotations:
            ending = LedgerEnding(
                outcome=DecisionOutcome.DONE, at=context.clock.now(), made=(node,), cost_after=node.price
            )
            context.ledger.close(launch_id(claim), ending)
        return None

    def _open_removal(self, claim: NodeClaim, node: LedgerNode) -> None:
        context = self._context
        if taken_by(claim) is not None or claim.metadata.uid in self._recorded_removals:
            return
        self._recorded_removals.add(claim.metadata.uid)
        reason, why = self._reason(claim)
        entry = LedgerEntry(
            id=removal_id(claim),
            at=claim.metadata.deletion_timestamp or context.clock.now(),
            act=LedgerAction.REMOVE,
            reason=reason,
            why=why,
            nodes=(replace(node, peers=self._peers.get(claim.metadata.uid)),),
            pods=self._pods_to_reschedule.pop(claim.metadata.uid, ()),
            cost_before=node.price or 0.0,
        )
        context.ledger.open(entry)

    def _pods(self, claim: NodeClaim) -> tuple[str, ...]:
        state = self._context.state
        pods = (pod for node in state.nodes_of(claim) for pod in state.pods_on(node.name))
        return pod_names(pod for pod in pods if pod.reschedulable)

    def _count_peers(self, claim: NodeClaim) -> int:
        """Return the number of nodes of its NodePool and capacity type that stay, and itself."""
        kind = _kind(claim)
        claims = self._context.state.claims.items.values()
        return 1 + sum(not each.deleting and each.has(INITIALIZED) and _kind(each) == kind for each in claims)

    def _reason(self, claim: NodeClaim) -> tuple[str, str]:
        """Return why a claim is removed, as a reason and as a sentence."""
        removal_reason = self._context.removal_reasons.get(claim.metadata.uid, "")
        if removal_reason in RESPONSES:
            return Reason.INTERRUPTED, removal_reason.replace("_", " ")
        if removal_reason:
            return _REASONS.get(removal_reason, (removal_reason, removal_reason.replace("_", " ")))
        condition = find(claim.status.conditions, DISRUPTION_REASON)
        if condition is not None and read_record(claim) is None:  # an uncommitted command is not the reason
            return condition.reason, condition.message
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is None or pool.deleting:
            return Reason.MANUAL, f"nodepool {claim.nodepool_name} was deleted"
        return Reason.MANUAL, "a user or another program deleted the NodeClaim or its node"

    def _claim_deleted(self, claim: NodeClaim) -> None:
        context, uid = self._context, claim.metadata.uid
        if context.manages(claim):
            self._close(claim)
        self._recorded_removals.discard(uid)
        self._pods_to_reschedule.pop(uid, None)
        self._peers.pop(uid, None)
        self._nodes_by_uid.pop(uid, None)
        context.removal_reasons.pop(uid, None)

    def _close(self, claim: NodeClaim) -> None:
        context, now = self._context, self._context.clock.now()
        command = taken_by(claim)
        if command is not None:
            context.ledger.gone(command.id, claim.name, now)
        else:
            self._open_removal(claim, self._nodes_by_uid.get(claim.metadata.uid) or ledger_node(claim))
            context.ledger.close(removal_id(claim), LedgerEnding(outcome=DecisionOutcome.DONE, at=now))
        if not claim.has(INITIALIZED):
            note = f"deleted before it was initialized: {self._reason(claim)[1]}"
            context.ledger.close(launch_id(claim), LedgerEnding(outcome=DecisionOutcome.FAILED, at=now, note=note))

    async def _watch_health(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(HEALTH_SECONDS)
            self.report_health()
            if self._context.seen and number % SAVINGS_EVERY == 0:
                self.report_savings()

    def report_savings(self) -> None:
        """Update the metric of what past commands save now."""
        rates: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for each in self._savings.savings(self._context.clock.now()):
            rates[each.nodepool, each.reason] += each.rate
        self._context.metrics.show("dovetail_disruption_saving_dollars_per_hour", rates)

    def report_health(self) -> None:
        """Update the ledger's metrics, and publish an event on every NodePool when writing begins to fail."""
        context, health = self._context, self._context.ledger.health()
        context.metrics.count("dovetail_ledger_entries_total", health.written - self._last_health.written)
        context.metrics.count("dovetail_ledger_lost_total", health.lost - self._last_health.lost)
        context.metrics.show("dovetail_ledger_bytes", {(): float(health.size)})
        context.metrics.show("dovetail_ledger_failing", {(): float(bool(health.trouble))})
        if health.trouble and not self._last_health.trouble:
            for pool in context.state.nodepools.items.values():
                message = f"Decisions cannot be written to the ledger: {health.trouble}"
                context.recorder.publish(Notice(NODE_POOL, pool, "LedgerFailing", message, warning=True))
        self._last_health = health


def _kind(claim: NodeClaim) -> tuple[str, str]:
    return claim.nodepool_name, claim.metadata.labels.get(CAPACITY_TYPE, "")
