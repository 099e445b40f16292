"""Keeps the ledger complete: launches end, nodes go without a command, and somebody has to write it down.

It only watches NodeClaims. A claim that goes and is no part of a command was expired, repaired, interrupted, given up
or collected by a controller, which noted its reason; with no reason noted, somebody deleted it by hand. When the
controllers start anew, what ended while nobody looked is said to be unknown.
"""

import asyncio

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import find_facts, known_facts, launch_id, pod_names, removal_id
from dovetail.core.disruption.command_progress import running_commands
from dovetail.core.lifecycle.interruption import RESPONSES
from dovetail.model.command import REPLACES_ANNOTATION, read_record, taken_by
from dovetail.model.conditions import find
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
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
    NoLedger,
)
from dovetail.runtime.reconciler import Reconciler

NOTED_WITHIN = 2.0  # seconds until whoever deletes a claim has noted why
WATCH_SECONDS = 30.0
_WHY = {
    "expired": (Reason.EXPIRED, "older than its NodeClaim's expireAfter"),
    "unhealthy": (Reason.UNHEALTHY, "its node was unhealthy for too long"),
    "garbage_collected": ("GarbageCollected", "its instance was gone"),
    "insufficient_capacity": ("InsufficientCapacity", "nothing it could be was to be had"),
    "nodeclass_not_ready": ("NodeClassNotReady", "its node class was not ready"),
    "rolled_back": ("RolledBack", "the command it was to replace nodes for was taken back"),
    "launch_timeout": ("LaunchTimeout", "it could not be launched in time"),
    "registration_timeout": ("RegistrationTimeout", "its node did not register in time"),
}


class LedgerController:
    """Writes what commands do not write themselves."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._opened: set[str] = set()  # uids of claims whose removal is written
        self._pods_to_reschedule: dict[str, tuple[str, ...]] = {}  # pods on claims when they began to go, by uid
        self._facts: dict[str, LedgerNode] = {}  # of claims that are there, by uid
        self._seen = LedgerHealth()
        self.reconciler: Reconciler[Key] = Reconciler("ledger", self.reconcile)
        self._off = isinstance(context.ledger, NoLedger)
        context.state.claims.listen(self._claim_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None and before is not None:
            self._gone(before)
        elif after is None or self._off:
            return
        elif after.deleting:
            if before is None or not before.deleting:
                self._pods_to_reschedule[after.metadata.uid] = self._pods(after)
                self.reconciler.add(after.key, NOTED_WITHIN)
        elif after.has(INITIALIZED) and before is not None and not before.has(INITIALIZED):
            self.reconciler.add(after.key)

    async def run(self) -> None:
        """Work until cancelled."""
        if self._off:
            return
        await self._context.state.synced()
        self._settle()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run(), name="ledger:entries")
            tasks.create_task(self._watch(), name="ledger:health")

    def _settle(self) -> None:
        """Of what the process before this one wrote down, say what is still under way."""
        context = self._context
        claims = list(context.state.claims.items.values())
        under_way = {*running_commands(claims)}
        under_way.update(removal_id(claim) for claim in claims if claim.deleting)
        under_way.update(launch_id(claim) for claim in claims if not claim.has(INITIALIZED))
        done = {launch_id(claim) for claim in claims if claim.has(INITIALIZED)}
        context.ledger.settle(under_way, done, context.clock.now())

    async def reconcile(self, key: Key) -> float | None:
        """Write down what became of one claim."""
        context = self._context
        claim = context.state.claims.items.get(key)
        if claim is None or not context.manages(claim):
            return None
        facts = self._facts[claim.metadata.uid] = await find_facts(context, claim)
        if claim.deleting:
            self._open_removal(claim, facts)
        elif REPLACES_ANNOTATION not in claim.metadata.annotations:
            ending = LedgerEnding(
                outcome=DecisionOutcome.DONE, at=context.clock.now(), made=(facts,), cost_after=facts.price
            )
            context.ledger.close(launch_id(claim), ending)
        return None

    def _open_removal(self, claim: NodeClaim, facts: LedgerNode) -> None:
        context = self._context
        if taken_by(claim) is not None or claim.metadata.uid in self._opened:
            return
        self._opened.add(claim.metadata.uid)
        reason, why = self._reason(claim)
        entry = LedgerEntry(
            id=removal_id(claim),
            at=claim.metadata.deletion_timestamp or context.clock.now(),
            act=LedgerAction.REMOVE,
            reason=reason,
            why=why,
            nodes=(facts,),
            pods=self._pods_to_reschedule.pop(claim.metadata.uid, ()),
            cost_before=facts.price or 0.0,
        )
        context.ledger.open(entry)

    def _pods(self, claim: NodeClaim) -> tuple[str, ...]:
        state = self._context.state
        pods = (pod for node in state.nodes_of(claim) for pod in state.pods_on(node.name))
        return pod_names(pod for pod in pods if pod.reschedulable)

    def _reason(self, claim: NodeClaim) -> tuple[str, str]:
        """Why a claim goes, as a word and as a sentence."""
        noted = self._context.endings.get(claim.metadata.uid, "")
        if noted in RESPONSES:
            return Reason.INTERRUPTED, noted.replace("_", " ")
        if noted:
            return _WHY.get(noted, (noted, noted.replace("_", " ")))
        condition = find(claim.status.conditions, DISRUPTION_REASON)
        if condition is not None and read_record(claim) is None:  # a command that had not let it go is not the reason
            return condition.reason, condition.message
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is None or pool.deleting:
            return Reason.MANUAL, f"nodepool {claim.nodepool_name} was deleted"
        return Reason.MANUAL, "somebody else deleted the NodeClaim or its node"

    def _gone(self, claim: NodeClaim) -> None:
        context, uid = self._context, claim.metadata.uid
        if not self._off and context.manages(claim):
            self._close(claim)
        self._opened.discard(uid)
        self._pods_to_reschedule.pop(uid, None)
        self._facts.pop(uid, None)
        context.endings.pop(uid, None)

    def _close(self, claim: NodeClaim) -> None:
        context, now = self._context, self._context.clock.now()
        if taken_by(claim) is None:
            self._open_removal(claim, self._facts.get(claim.metadata.uid) or known_facts(claim))
            context.ledger.close(removal_id(claim), LedgerEnding(outcome=DecisionOutcome.DONE, at=now))
        if not claim.has(INITIALIZED):
            note = f"gone before it was ready: {self._reason(claim)[1]}"
            context.ledger.close(launch_id(claim), LedgerEnding(outcome=DecisionOutcome.FAILED, at=now, note=note))

    async def _watch(self) -> None:
        """A ledger in trouble is told: as figures, and on every NodePool once."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.check()

    def check(self) -> None:
        """Tell how the ledger does, as far as that is news."""
        context, health = self._context, self._context.ledger.health()
        context.metrics.count("dovetail_ledger_entries_total", health.written - self._seen.written)
        context.metrics.count("dovetail_ledger_lost_total", health.lost - self._seen.lost)
        context.metrics.show("dovetail_ledger_bytes", {(): float(health.size)})
        context.metrics.show("dovetail_ledger_failing", {(): float(bool(health.trouble))})
        if health.trouble and not self._seen.trouble:
            for pool in context.state.nodepools.items.values():
                message = f"Decisions cannot be written down: {health.trouble}"
                context.recorder.publish(Notice(NODE_POOL, pool, "LedgerFailing", message, warning=True))
        self._seen = health
