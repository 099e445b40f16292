"""A dry run overhears warnings about instances: says which nodes would be drained ahead of them, and does nothing.

Only to sources that many may listen to: a queue would hide from the controller that acts what was handed out here.
Nothing is acknowledged. What is told again and again, such as a status check that fails for hours, is said once.

A dry run: decides with the same core as the controllers that act, says what would be done, and does nothing.

Conditions that the other controllers would have written are worked out and taken for granted, so that the advice on a
cluster that was never managed is what would happen, not that nothing is ready. What stays the same is said once.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.ledger_entries import pod_names, weighed, weighed_launch, weighed_pods
from dovetail.controllers.nodeclaim_conditions import NodeClaimConditionsController
from dovetail.controllers.nodepools import NodePoolController
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.planner import PassPlan, Planner, plan_pass
from dovetail.core.explain.node import deciding_refusal, refusals_by_node
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.core.lifecycle.interruption import drain_by, respond
from dovetail.core.lifecycle.repair import RepairTerms, find_unhealthy_conditions, read_breaker
from dovetail.core.provisioning.plan import ProvisioningPlan, plan_provisioning
from dovetail.core.wording import message
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.reason import Reason
from dovetail.model.refusal import RefusalCode
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.ports.interruption import Interruption, InterruptionSource
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerEnding, LedgerEntry, LedgerNode
from dovetail.runtime.concurrency import guarded
from dovetail.runtime.reconciler import RetryBackoff

log = logging.getLogger(__name__)
REMEMBERED = 10_000


class DryRunInterruptions:
    """Listens where that takes nothing from anybody."""

    def __init__(self, context: ControllerContext, interruptions: InterruptionController, advisor: "DryRun") -> None:
        self._context = context
        self._interruptions = interruptions
        self._advisor = advisor
        self._said: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Listen until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            for source in self._context.interruptions:
                if source.shared:
                    tasks.create_task(self._listen(source))

    async def _listen(self, source: InterruptionSource) -> None:
        backoff = RetryBackoff(first=1.0, limit=30.0)
        while True:
            deliveries = await guarded("interruption.receive", source.receive)
            if deliveries is None:
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            for delivery in deliveries:
                if delivery.interruption is not None:
                    self._hear(delivery.interruption)

    def _hear(self, interruption: Interruption) -> None:
        now = self._context.clock.now()
        response = respond(interruption.kind, rebalance=self._context.options.drain_on_rebalance)
        for _, claim in self._interruptions.concerned(interruption) if response.acts else ():
            same = (interruption.kind, claim.metadata.uid)
            if claim.deleting or same in self._said:
                continue
            if len(self._said) >= REMEMBERED:
                self._said.clear()
            self._said.add(same)
            deadline = drain_by(response, interruption.at, now)
            until = f", to be empty by {deadline:%Y-%m-%dT%H:%M:%SZ}" if deadline is not None else ""
            why = interruption.kind.replace("_", " ") + until
            self._advisor.say(advise_removal(claim, now, Reason.INTERRUPTED, why))


LOOK_SECONDS = 10.0
REST_SECONDS = 300.0


@dataclass(frozen=True)
class DryRunAdvice:
    """One thing that would be done, or not. `about` with `what` tells it from others; facts may vary."""

    what: str
    about: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    entry: LedgerEntry | None = None  # for the ledger, where something would be done


class DryRun:
    """Looks at the cluster whenever it has changed."""

    def __init__(
        self, context: ControllerContext, nodepools: NodePoolController, marking: NodeClaimConditionsController
    ) -> None:
        self._context = context
        self._nodepools = nodepools
        self._marking = marking
        self._planner = Planner(context.options)
        self._repair = RepairTerms(context.cloud.repair_statements(), context.options)
        self._said: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Advise until cancelled."""
        await self._context.state.synced()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._context.state.switch.synced.wait()
        while True:
            seen = self._context.state.revision
            await guarded("advice", self.advise)
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_SECONDS):
                    await self._context.state.moved_on(seen)

    async def advise(self) -> list[DryRunAdvice]:
        """One look; says what is new since the last one."""
        snapshot = await self._snapshot()
        context = self._planner.context(snapshot)
        plan = plan_pass(context)
        advice = [
            *_launches(
                plan_provisioning(snapshot, respect_preferences=self._context.options.respect_preferences), snapshot
            ),
            *_removals(snapshot, self._repair),
            *_commands(plan, context),
            _summary(plan, snapshot),
        ]
        for each in advice:
            if (each.what, each.about) not in self._said:
                self.say(each)
        self._said = {(each.what, each.about) for each in advice}
        return advice

    def say(self, advice: DryRunAdvice) -> None:
        """Into the log, and into the ledger what would be done."""
        log.info(advice.what, extra=dict(advice.facts))
        if advice.entry is not None:
            entry = replace(advice.entry, id=_digest(f"{advice.what} {advice.about} {advice.entry.at.isoformat()}"))
            self._context.ledger.open(entry)
            ending = LedgerEnding(outcome=DecisionOutcome.DRY_RUN, at=entry.at, note="nothing was done")
            self._context.ledger.close(entry.id, ending)

    async def _snapshot(self) -> Snapshot:
        """The cluster as it would be, had the controllers written their conditions."""
        state, cloud = self._context.state, self._context.cloud
        catalogs = await find_catalogs(cloud, state.nodepools.items.values())
        taken = state.snapshot(self._context.clock.now(), catalogs)
        pools = {name: await self._nodepools.judged(pool) for name, pool in taken.nodepools.items()}
        return replace(taken, nodepools=pools, nodes=tuple([each async for each in self._marked(taken.nodes)]))

    async def _marked(self, nodes: Iterable[ClusterNode]) -> AsyncIterator[ClusterNode]:
        for node in nodes:
            claim = await self._marking.judged(node.claim) if node.claim is not None else None
            yield node if claim is node.claim else replace(node, claim=claim)


def _launches(plan: ProvisioningPlan, snapshot: Snapshot) -> Iterator[DryRunAdvice]:
    waiting = weighed_pods(plan.refusals)
    for launch in plan.launches:
        types = launch.claim.spec.requirements[-1].values
        pods = pod_names(launch.pods)
        facts = {
            "nodepool": launch.claim.nodepool_name,
            "pods": len(pods),
            "requests": {name: str(amount) for name, amount in sorted(launch.claim.spec.resources.requests.items())},
            "instance_types": f"{', '.join(types[:5])}{f' and {len(types) - 5} others' if len(types) > 5 else ''}",
        }
        why = f"{len(pods)} pod{'s' * (len(pods) != 1)} had no room"
        nodes = (LedgerNode(nodeclaim=launch.claim.metadata.generate_name, nodepool=launch.claim.nodepool_name),)
        entry = LedgerEntry(
            id="",
            at=snapshot.at,
            act=LedgerAction.LAUNCH,
            reason="Provisioned",
            why=why,
            nodes=nodes,
            pods=pods,
            considered=weighed_launch(launch.claim, waiting),
        )
        yield DryRunAdvice("would launch a node", f"{launch.claim.nodepool_name} {','.join(pods)}", facts, entry)
    for refusal in plan.refusals:
        if refusal.code is not RefusalCode.CONFIGURED_ELSEWHERE:
            facts = {"pod": str(refusal.object.key), "why": message(refusal)}
            yield DryRunAdvice("would launch nothing for a pod", f"{refusal.object} {facts['why']}", facts)
    for refusal in plan.pool_refusals:
        facts = {"nodepool": refusal.object.name, "why": message(refusal)}
        yield DryRunAdvice("nodepool cannot make nodes", f"{refusal.object} {facts['why']}", facts)


def _commands(plan: PassPlan, look: Pass) -> Iterator[DryRunAdvice]:
    for number, command in enumerate(plan.commands):
        names = [each.name for each in command.candidates]
        facts = {
            "reason": str(command.reason),
            "method": command.method,
            "nodes": names,
            "pods_moved": command.pods,
            "replacements": [
                ", ".join(choice.type.name for choice in draft.choices[:3]) for draft in command.replacements
            ],
            "saving_per_hour": round(command.saving, 4),
        }
        entry = LedgerEntry(
            id="",
            at=plan.at,
            act=LedgerAction.DISRUPT,
            reason=command.reason,
            why=str(command),
            method=command.method,
            nodes=tuple(
                LedgerNode(nodeclaim=each.claim.name, node=each.name, nodepool=each.pool.name, price=each.price)
                for each in command.candidates
            ),
            replacements=len(command.replacements),
            pods=pod_names(pod for each in command.candidates for pod in each.pods_to_reschedule),
            considered=weighed(command, plan.refusals_by_method, look, plan.commands[:number]),
        )
        yield DryRunAdvice("would disrupt nodes", f"{command.reason} {','.join(names)}", facts, entry)


def _removals(snapshot: Snapshot, repair: RepairTerms) -> Iterator[DryRunAdvice]:
    """Nodes that would go by force, without a command."""
    for node in snapshot.nodes:
        if node.claim is None or node.deleting:
            continue
        due_at = expires_at(node.claim)
        if due_at is not None and due_at <= snapshot.at:
            why = f"its lifetime ended at {due_at:%Y-%m-%dT%H:%M:%SZ}"
            yield advise_removal(node.claim, snapshot.at, Reason.EXPIRED, why)
        repaired = _repair(node, node.claim, snapshot, repair)
        if repaired is not None:
            yield repaired


def _repair(node: ClusterNode, claim: NodeClaim, snapshot: Snapshot, repair: RepairTerms) -> DryRunAdvice | None:
    """A node that is unhealthy for too long, and whether the breaker would let it go."""
    terms = repair.of(snapshot.nodepools.get(node.nodepool_name))
    unhealthy_conditions = (
        find_unhealthy_conditions(node.node, terms, repair.statements)
        if terms is not None and node.node is not None
        else ()
    )
    if not unhealthy_conditions or unhealthy_conditions[0].due_at > snapshot.at:
        return None
    condition = unhealthy_conditions[0].condition
    why = f"{condition.type} is {condition.status} since {unhealthy_conditions[0].since:%Y-%m-%dT%H:%M:%SZ}"
    peers = [each.node for each in snapshot.nodes_by_pool.get(node.nodepool_name, ()) if each.node is not None]
    breaker = read_breaker(peers, repair.statements)
    if not breaker.open:
        return advise_removal(claim, snapshot.at, Reason.UNHEALTHY, why)
    held = f"{breaker.unhealthy} of {breaker.total} nodes are unhealthy, {breaker.allowed} may be"
    facts = {"node": node.name, "nodepool": node.nodepool_name, "why": f"{why}, but {held}"}
    return DryRunAdvice("would not repair a node", f"{node.name} {held}", facts)


def advise_removal(claim: NodeClaim, at: datetime, reason: str, why: str) -> DryRunAdvice:
    """A node that would go by force, or ahead of what is about to happen to it."""
    name = claim.status.node_name or claim.name
    facts = {"node": name, "nodeclaim": claim.name, "reason": str(reason), "why": why}
    nodes = (LedgerNode(nodeclaim=claim.name, node=claim.status.node_name, nodepool=claim.nodepool_name),)
    entry = LedgerEntry(id="", at=at, act=LedgerAction.REMOVE, reason=reason, why=why, nodes=nodes)
    return DryRunAdvice("would remove a node", f"{name} {reason}", facts, entry)


def _summary(plan: PassPlan, snapshot: Snapshot) -> DryRunAdvice:
    """How many nodes stay as they are, by what decides about each of them."""
    going = {each.name for command in plan.commands for each in command.candidates}
    left = Counter(str(deciding_refusal(why, name).code) for name, why in refusals_by_node(plan).items())
    facts = {
        "nodepools": len(snapshot.nodepools),
        "nodes": sum(1 for node in snapshot.nodes if node.managed),
        "would_disrupt": len(going),
        "left_alone": dict(sorted(left.items())),
    }
    return DryRunAdvice("looked at the cluster", str(facts), facts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
