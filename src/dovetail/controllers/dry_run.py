"""Dry run (`--dry-run`): plans with the same core as the acting controllers, logs what it would do, and writes nothing.

`DryRun` plans launches, disruptions, expirations and repairs. Conditions that other controllers would have written are
computed and added to the snapshot first; otherwise nothing would be ready in a cluster that was never managed. Each
advice is logged when it is new since the last pass, and what would be done also goes to the ledger as `dry run`.

`DryRunInterruptions` reads interruption warnings from shared sources only: a queue hides a received message from the
controller that acts. It acknowledges nothing, and reports each kind of warning once per NodeClaim.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.ledger_entries import considered_for_command, considered_for_launch, pod_names, refused_pods
from dovetail.controllers.nodeclaim_conditions import NodeClaimConditionsController
from dovetail.controllers.nodepools import NodePoolController
from dovetail.controllers.traces import provisioning_facts
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, Planner, plan_pass
from dovetail.core.explain.node import find_verdicts
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
from dovetail.runtime.concurrency import guarded, in_turns
from dovetail.runtime.reconciler import RetryBackoff

log = logging.getLogger(__name__)
MAX_REPORTED = 10_000


class DryRunInterruptions:
    """Reports which nodes an interruption warning would drain."""

    def __init__(self, context: ControllerContext, interruptions: InterruptionController, dry_run: "DryRun") -> None:
        self._context = context
        self._interruptions = interruptions
        self._dry_run = dry_run
        self._reported: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Receive warnings until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            for provider in self._context.providers:
                for source in provider.interruptions:
                    if source.shared:
                        tasks.create_task(self._listen(source, provider.in_use))

    async def _listen(self, source: InterruptionSource, in_use: asyncio.Event) -> None:
        await in_use.wait()
        backoff = RetryBackoff(first=1.0, limit=30.0)
        while True:
            deliveries = await guarded("interruption.receive", source.receive)
            if deliveries is None:
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            for delivery in deliveries:
                if delivery.interruption is not None:
                    self._handle(delivery.interruption)

    def _handle(self, interruption: Interruption) -> None:
        now = self._context.clock.now()
        response = respond(interruption.kind, rebalance=self._context.options.drain_on_rebalance)
        for _, claim in self._interruptions.affected_claims(interruption) if response.acts else ():
            key = (interruption.kind, claim.metadata.uid)
            if claim.deleting or key in self._reported:
                continue
            if len(self._reported) >= MAX_REPORTED:
                self._reported.clear()
            self._reported.add(key)
            deadline = drain_by(response, interruption.at, now)
            until = f", to be empty by {deadline:%Y-%m-%dT%H:%M:%SZ}" if deadline is not None else ""
            why = interruption.kind.replace("_", " ") + until
            self._dry_run.report(advise_removal(claim, now, Reason.INTERRUPTED, why))


MIN_INTERVAL_SECONDS = 10.0
MAX_INTERVAL_SECONDS = 300.0


@dataclass(frozen=True)
class DryRunAdvice:
    """One action that would be taken or refused. `what` and `about` identify it; `facts` may vary."""

    what: str
    about: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    entry: LedgerEntry | None = None  # the ledger entry of an action that would be taken


class DryRun:
    """Plans whenever the cluster has changed, at most every 10 seconds and at least every 5 minutes."""

    def __init__(
        self, context: ControllerContext, nodepools: NodePoolController, claim_conditions: NodeClaimConditionsController
    ) -> None:
        self._context = context
        self._nodepools = nodepools
        self._claim_conditions = claim_conditions
        self._planner = Planner(context.options)
        self._repair = RepairTerms(context.cloud.repair_statements(), context.options)
        self._reported: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Advise until cancelled."""
        await self._context.state.synced()
        with suppress(TimeoutError):
            async with asyncio.timeout(MIN_INTERVAL_SECONDS):
                await self._context.state.switch.synced.wait()
        while True:
            seen = self._context.state.revision
            await guarded("advice", self.advise)
            await asyncio.sleep(MIN_INTERVAL_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_INTERVAL_SECONDS):
                    await self._context.state.wait_for_change(seen)

    async def advise(self) -> list[DryRunAdvice]:
        """Plan once, and report the advice that is new since the last call."""
        with self._context.tracer.span("dry run pass") as span:
            snapshot = await self._snapshot()
            plan, launches, advice = await self._context.compute.run(partial(self._plan, snapshot))
            span.set(
                commands=len(plan.commands), **(provisioning_facts(launches) if self._context.tracer.enabled else {})
            )
        for each in advice:
            if (each.what, each.about) not in self._reported:
                self.report(each)
        self._reported = {(each.what, each.about) for each in advice}
        return advice

    def _plan(self, snapshot: Snapshot) -> tuple[PassPlan, ProvisioningPlan, list[DryRunAdvice]]:
        context = self._planner.context(snapshot)
        plan = plan_pass(context)
        launches = plan_provisioning(snapshot, self._context.options)
        advice = [
            *_launches(launches, snapshot),
            *_removals(snapshot, self._repair),
            *_commands(plan, context),
            _summary(plan, snapshot),
        ]
        return plan, launches, advice

    def report(self, advice: DryRunAdvice) -> None:
        """Log the advice, and write its ledger entry, if it has one."""
        log.info(advice.what, extra=dict(advice.facts))
        if advice.entry is not None:
            entry = replace(advice.entry, id=_digest(f"{advice.what} {advice.about} {advice.entry.at.isoformat()}"))
            self._context.ledger.open(entry)
            ending = LedgerEnding(outcome=DecisionOutcome.DRY_RUN, at=entry.at, note="nothing was done")
            self._context.ledger.close(entry.id, ending)

    async def _snapshot(self) -> Snapshot:
        """Return the cluster with the conditions that the other controllers would have written."""
        taken = await self._context.snapshot()
        pools = {name: await self._nodepools.with_conditions(pool) for name, pool in taken.nodepools.items()}
        return replace(taken, nodepools=pools, nodes=tuple([each async for each in self._with_conditions(taken.nodes)]))

    async def _with_conditions(self, nodes: Iterable[ClusterNode]) -> AsyncIterator[ClusterNode]:
        async for node in in_turns(nodes):
            claim = await self._claim_conditions.with_conditions(node.claim) if node.claim is not None else None
            yield node if claim is node.claim else replace(node, claim=claim)


def _launches(plan: ProvisioningPlan, snapshot: Snapshot) -> Iterator[DryRunAdvice]:
    waiting = refused_pods(plan.refusals)
    for launch in plan.launches:
        types = launch.claim.spec.requirements[-1].values
        pods = pod_names(launch.pods)
        facts = {
            "nodepool": launch.claim.nodepool_name,
            "pods": len(pods),
            "requests": {name: str(amount) for name, amount in sorted(launch.claim.spec.resources.requests.items())},
            "instance_types": f"{', '.join(types[:5])}{f' and {len(types) - 5} others' if len(types) > 5 else ''}",
        }
        why = f"{len(pods)} pod{'s' * (len(pods) != 1)} could not be scheduled"
        nodes = (LedgerNode(nodeclaim=launch.claim.metadata.generate_name, nodepool=launch.claim.nodepool_name),)
        entry = LedgerEntry(
            id="",
            at=snapshot.at,
            act=LedgerAction.LAUNCH,
            reason="Provisioned",
            why=why,
            nodes=nodes,
            pods=pods,
            considered=considered_for_launch(launch.claim, waiting),
        )
        yield DryRunAdvice("would launch a node", f"{launch.claim.nodepool_name} {','.join(pods)}", facts, entry)
    for refusal in plan.refusals:
        if refusal.code is not RefusalCode.CONFIGURED_ELSEWHERE:
            facts = {"pod": str(refusal.object.key), "why": message(refusal)}
            yield DryRunAdvice("would launch nothing for a pod", f"{refusal.object} {facts['why']}", facts)
    for refusal in plan.pool_refusals:
        facts = {"nodepool": refusal.object.name, "why": message(refusal)}
        yield DryRunAdvice("nodepool cannot launch nodes", f"{refusal.object} {facts['why']}", facts)


def _commands(plan: PassPlan, context: PassContext) -> Iterator[DryRunAdvice]:
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
            considered=considered_for_command(command, plan.refusals_by_method, context, plan.commands[:number]),
        )
        yield DryRunAdvice("would disrupt nodes", f"{command.reason} {','.join(names)}", facts, entry)


def _removals(snapshot: Snapshot, repair: RepairTerms) -> Iterator[DryRunAdvice]:
    """Advise on nodes that would be removed forcefully, without a command."""
    for node in snapshot.nodes:
        if node.claim is None or node.deleting:
            continue
        due_at = expires_at(node.claim, snapshot.nodepools.get(node.nodepool_name))
        if due_at is not None and due_at <= snapshot.at:
            why = f"its lifetime ended at {due_at:%Y-%m-%dT%H:%M:%SZ}"
            yield advise_removal(node.claim, snapshot.at, Reason.EXPIRED, why)
        repaired = _repair(node, node.claim, snapshot, repair)
        if repaired is not None:
            yield repaired


def _repair(node: ClusterNode, claim: NodeClaim, snapshot: Snapshot, repair: RepairTerms) -> DryRunAdvice | None:
    """Advise on a node that has been unhealthy for too long, and whether the circuit breaker allows its repair."""
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
    """Advise on a node that would be removed forcefully, or because of an interruption."""
    name = claim.status.node_name or claim.name
    facts = {"node": name, "nodeclaim": claim.name, "reason": str(reason), "why": why}
    nodes = (LedgerNode(nodeclaim=claim.name, node=claim.status.node_name, nodepool=claim.nodepool_name),)
    entry = LedgerEntry(id="", at=at, act=LedgerAction.REMOVE, reason=reason, why=why, nodes=nodes)
    return DryRunAdvice("would remove a node", f"{name} {reason}", facts, entry)


def _summary(plan: PassPlan, snapshot: Snapshot) -> DryRunAdvice:
    """Count the nodes that would not be disrupted, by the refusal that decides for each of them."""
    disrupted = {each.name for command in plan.commands for each in command.candidates}
    left = [node for node in snapshot.nodes if node.managed and node.name not in disrupted]
    refused = Counter(str(verdict.code) for verdict in find_verdicts(plan, left).values())
    facts = {
        "nodepools": len(snapshot.nodepools),
        "nodes": sum(1 for node in snapshot.nodes if node.managed),
        "would_disrupt": len(disrupted),
        "left_alone": dict(sorted(refused.items())),
    }
    return DryRunAdvice("evaluated the cluster", str(facts), facts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
