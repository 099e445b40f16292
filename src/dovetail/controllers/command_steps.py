"""The single steps of a disruption command that `disruption_queue` executes.

- Events about a running command, and the ledger entry of a command whose candidates others deleted first.
- `mark_candidates` and `unmark_candidates`: the disruption taint on the nodes and the `DisruptionReason` condition on
  the NodeClaims. A node whose command waits for replacements keeps serving its pods, so it stays in its load balancers
  until it is deleted. A command without replacements does not wait: taint and load balancer label are one write.
- `CommitCheck`: the last validation before the candidates are deleted. The caches may lag, so Nodes, their pods,
  PodDisruptionBudgets, NodePools and the ConfigMap that pauses disruption are read with quorum.
  `core.disruption.validation.find_obstacles` decides on the result.
"""

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.controllers.traces import record_command
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.validation import find_obstacles
from dovetail.core.lifecycle.drain import drain_patch, is_shut, taints_patch, undo_drain_patch
from dovetail.core.merge_patches import conditions_patch
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.wording import message
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, CommandState
from dovetail.model.conditions import ConditionList, ConditionVerdict, find, without
from dovetail.model.kinds import CONFIG_MAP, NODE, NODE_CLAIM, NODE_POOL, POD, POD_DISRUPTION_BUDGET
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DEPENDENTS, DISRUPTION_REASON, INITIALIZED, NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.unreadable_objects import completed, unread
from dovetail.ports.cluster import Listing, Notice
from dovetail.ports.errors import NotFound
from dovetail.ports.ledger import DecisionOutcome, LedgerEnding
from dovetail.ports.tracing import NoTracer, SpanRef
from dovetail.runtime.concurrency import for_each

log = logging.getLogger(__name__)


def publish_waiting(context: ControllerContext, state: CommandState) -> None:
    """Publish an event on each replacement that the command waits for."""
    for claim in state.replacements:
        if not claim.has(INITIALIZED):
            text = "Waiting on readiness to continue disruption"
            notice = Notice(NODE_CLAIM, claim, "DisruptionWaitingReadiness", text, decision=state.record.id)
            context.recorder.publish(notice)


def publish_blocked(context: ControllerContext, state: CommandState, obstacles: Mapping[str, Refusal]) -> None:
    """Publish on each candidate that is kept why it is no longer disrupted."""
    for claim in state.candidates:
        refusal = obstacles.get(claim.name)
        if refusal is None:
            continue
        for node in context.state.nodes_of(claim):
            rolled_back = f"Disruption for {state.record.reason} was rolled back before the node was deleted"
            text = f"{rolled_back}: {message(refusal)}"
            context.recorder.publish(Notice(NODE, node, "DisruptionBlocked", text, decision=state.record.id))


def publish_terminating(context: ControllerContext, claim: NodeClaim, record: CommandRecord) -> None:
    """Count the deleted claim, and publish its termination on the claim and its nodes."""
    count_removal(context, claim, record.reason)
    text = f"Disrupting NodeClaim: {record.reason}"
    context.recorder.publish(Notice(NODE_CLAIM, claim, "DisruptionTerminating", text, decision=record.id))
    for node in context.state.nodes_of(claim):
        text = f"Disrupting Node: {record.reason}"
        context.recorder.publish(Notice(NODE, node, "DisruptionTerminating", text, decision=record.id))


def record_deleted_by_others(context: ControllerContext, state: CommandState, why: str) -> None:
    """Record a command as failed because others deleted its candidates. Its replacements stay: the pods need them."""
    pools = {claim.nodepool_name: context.state.pool(claim.nodepool_name) for claim in state.candidates}
    deleted = [name for name, pool in sorted(pools.items()) if pool is None or pool.deleting]
    why = f"{why}: nodepool {', '.join(deleted)} was deleted" if deleted else why
    ending = LedgerEnding(outcome=DecisionOutcome.FAILED, at=context.clock.now(), note=why)
    context.ledger.close(state.record.id, ending)
    context.metrics.count("dovetail_commands_ended_total", reason=state.record.reason, outcome=DecisionOutcome.FAILED)
    record_command(context, state, DecisionOutcome.FAILED, why)
    log.info("candidates were deleted by others", extra={"command": state.record.id, "why": why})


def new_record(command: Command, now: datetime) -> CommandRecord:
    """Return the record of a command that starts now."""
    names = ",".join(each.name for each in command.candidates)
    digest = hashlib.sha256(f"{now.isoformat()} {names}".encode()).hexdigest()
    return CommandRecord(
        id=digest[:12],
        reason=command.reason,
        started_at=now,
        candidates=len(command.candidates),
        replacements=len(command.replacements),
        method=command.method,
        cost_before=sum(each.price for each in command.candidates),
        cost_after=sum(map(cheapest, command.replacements)),
    )


async def mark_candidates(context: ControllerContext, claims: Iterable[NodeClaim], record: CommandRecord) -> None:
    """Taint the nodes of these claims, and set the `DisruptionReason` condition."""

    async def mark_node_of(claim: NodeClaim) -> None:
        for node in context.state.nodes_of(claim):
            patch = taints_patch(node) if record.replacements else drain_patch(node)
            if patch:
                await context.patch_node(node, patch)
        claim = context.state.latest(claim)
        if find(claim.status.conditions, DISRUPTION_REASON) is None and not claim.deleting:
            await _set_reason(context, claim, record)

    claims = tuple(claims)
    unmarked = [each.name for each in claims if find(each.status.conditions, DISRUPTION_REASON) is None]
    tracer = context.tracer if unmarked else NoTracer()  # this is repeated until the command is committed
    with tracer.span("mark candidates", SpanRef(record.id), nodeclaims=unmarked):
        await for_each(mark_node_of, claims)


async def _set_reason(context: ControllerContext, claim: NodeClaim, record: CommandRecord) -> None:
    created_at = claim.metadata.creation_timestamp
    conditions = ConditionList(
        claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, context.clock.now()
    ).set(ConditionVerdict(DISRUPTION_REASON, reason=record.reason, message=f"{record.reason}, command {record.id}"))
    await context.patch_claim(claim, conditions_patch(conditions), status=True)


async def unmark_candidates(context: ControllerContext, claims: Iterable[NodeClaim]) -> None:
    """Remove taint, condition and record from these claims and their nodes; the record goes last."""

    async def unmark_node_of(claim: NodeClaim) -> None:
        for node in context.state.nodes_of(claim):
            if is_shut(node):
                await context.patch_node(node, undo_drain_patch(node))
        claim = context.state.latest(claim)
        if find(claim.status.conditions, DISRUPTION_REASON) is not None:
            left = without(claim.status.conditions, DISRUPTION_REASON)
            claim = await context.patch_claim(claim, conditions_patch(left), status=True)
        try:
            await context.patch_claim(claim, {"metadata": {"annotations": {RECORD_ANNOTATION: None}}})
        except NotFound:
            return

    await for_each(unmark_node_of, claims)


_LiveNodes = dict[str, tuple[Node, Listing[Pod]]]
"""Nodes and their pods as the API server returned them, by node name."""


class CommitCheck:
    """The last validation of a command before its candidates are deleted."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def find_obstacles(
        self, state: CommandState, planned_pods: Collection[str] | None = None
    ) -> dict[str, Refusal]:
        """Return why candidates may not be disrupted, by NodeClaim name. Raises if the API server does not answer."""
        context = self._context
        context.state.observe_all(NODE_POOL, await context.cluster.list(NODE_POOL))
        switch = await context.cluster.list(CONFIG_MAP, context.state.switch.options)
        context.state.observe_all(CONFIG_MAP, switch)
        pdbs = await context.cluster.list(POD_DISRUPTION_BUDGET)
        live: _LiveNodes = {}

        async def read(claim: NodeClaim) -> None:
            for known in context.state.nodes_of(claim):
                with suppress(NotFound):  # the node is gone, its claim will follow
                    node = context.state.observe(NODE, await context.cluster.get(NODE, known.key))
                    live[node.name] = node, await context.read_pods(node.name)

        await for_each(read, state.candidates)
        pass_context = PassContext(await self._snapshot(live, pdbs), context.options)
        found = find_obstacles(state, pass_context, planned_pods)
        for claim in state.candidates:
            for node in context.state.nodes_of(claim):
                for bad in live[node.name][1].unreadable if node.name in live else ():
                    detail = str(unread(POD, bad))
                    found[claim.name] = Refusal(RefusalCode.UNREADABLE, node_ref(node.name), detail=detail)
        return found

    async def is_unused(self, claim: NodeClaim) -> bool:
        """Whether a replacement runs no pod that would have to be rescheduled."""
        if not claim.status.node_name:
            return True
        pods = await self._context.read_pods(claim.status.node_name)
        return not pods.unreadable and not any(pod.reschedulable for pod in pods.items)

    async def _snapshot(self, live: _LiveNodes, pdbs: Listing[PodDisruptionBudget]) -> Snapshot:
        """Return the cached cluster with the live nodes, pods and PodDisruptionBudgets in place of the cached ones."""
        cached = await self._context.snapshot()
        nodes = [_with_live_state(node, live) for node in cached.nodes]
        known = completed(POD_DISRUPTION_BUDGET, sorted(pdbs.items, key=lambda pdb: pdb.key), pdbs.unreadable)
        return replace(cached, nodes=tuple(nodes), pdbs=known)


def _with_live_state(cached: ClusterNode, live: _LiveNodes) -> ClusterNode:
    if cached.node is None or cached.node.name not in live:
        return cached
    node, pods = live[cached.node.name]
    return replace(cached, node=node, pods=pods.items)
