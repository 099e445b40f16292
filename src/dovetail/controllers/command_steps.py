"""Kubernetes events about a running command, and its ledger entry where others deleted its nodes first.

The marks of a command on the nodes it takes away: the disruption taints, the reason on the claim, and their removal.

A node whose command waits for replacements serves its pods all the time, so it stays behind its load balancers until it
is deleted. A command without replacements does not wait: its nodes get taints and the load balancer label in one write.

Asks right before the nodes of a command are deleted whether it still holds, by what the API server says.

The caches may be late, silent or simply minutes old. Nodes, their pods, PodDisruptionBudgets, NodePools and the
ConfigMap that pauses are read with quorum; what keeps a node is decided in `core.disruption.recheck`.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.validation import find_obstacles
from dovetail.core.lifecycle.drain import drain_patch, is_shut, reopening_patch, taints_patch
from dovetail.core.merge_patches import conditions_patch
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
from dovetail.runtime.concurrency import for_each

log = logging.getLogger(__name__)


def tell_waiting(context: ControllerContext, state: CommandState) -> None:
    """The command waits for its replacements."""
    for claim in state.replacements:
        if not claim.has(INITIALIZED):
            said = "Waiting on readiness to continue disruption"
            notice = Notice(NODE_CLAIM, claim, "DisruptionWaitingReadiness", said, decision=state.record.id)
            context.recorder.publish(notice)


def tell_kept(context: ControllerContext, state: CommandState, obstacles: Mapping[str, Refusal]) -> None:
    """Say on each node that stays what keeps it."""
    for claim in state.candidates:
        refusal = obstacles.get(claim.name)
        if refusal is None:
            continue
        for node in context.state.nodes_of(claim):
            taken_back = f"Disruption for {state.record.reason} was taken back before the node was deleted"
            said = f"{taken_back}: {message(refusal)}"
            context.recorder.publish(Notice(NODE, node, "DisruptionBlocked", said, decision=state.record.id))


def tell_going(context: ControllerContext, claim: NodeClaim, record: CommandRecord) -> None:
    """The node is deleted."""
    nodes = context.state.nodes_of(claim)
    count_removal(context, claim, record.reason)
    said = f"Disrupting NodeClaim: {record.reason}"
    context.recorder.publish(Notice(NODE_CLAIM, claim, "DisruptionTerminating", said, decision=record.id))
    for node in nodes:
        said = f"Disrupting Node: {record.reason}"
        context.recorder.publish(Notice(NODE, node, "DisruptionTerminating", said, decision=record.id))


def note_overtaken(context: ControllerContext, state: CommandState, why: str) -> None:
    """Others deleted its nodes. Replacements that are on their way stay: the pods of these nodes need them."""
    pools = {claim.nodepool_name: context.state.pool(claim.nodepool_name) for claim in state.candidates}
    deleted = [name for name, pool in sorted(pools.items()) if pool is None or pool.deleting]
    why = f"{why}: nodepool {', '.join(deleted)} was deleted" if deleted else why
    ending = LedgerEnding(outcome=DecisionOutcome.FAILED, at=context.clock.now(), note=why)
    context.ledger.close(state.record.id, ending)
    context.metrics.count("dovetail_commands_ended_total", reason=state.record.reason, outcome=DecisionOutcome.FAILED)
    log.info("command overtaken", extra={"command": state.record.id, "why": why})


async def mark(context: ControllerContext, claims: Iterable[NodeClaim], record: CommandRecord) -> None:
    """Keep new pods away from the nodes of these claims, and say why."""

    async def mark_one(claim: NodeClaim) -> None:
        for node in context.state.nodes_of(claim):
            patch = taints_patch(node) if record.replacements else drain_patch(node)
            if patch:
                await context.patch_node(node, patch)
        claim = context.state.latest(claim)
        if find(claim.status.conditions, DISRUPTION_REASON) is None and not claim.deleting:
            await _set_reason(context, claim, record)

    await for_each(mark_one, claims)


async def _set_reason(context: ControllerContext, claim: NodeClaim, record: CommandRecord) -> None:
    created_at = claim.metadata.creation_timestamp
    conditions = ConditionList(
        claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, context.clock.now()
    ).set(ConditionVerdict(DISRUPTION_REASON, reason=record.reason, message=f"{record.reason}, command {record.id}"))
    await context.patch_claim(claim, conditions_patch(conditions), status=True)


async def release(context: ControllerContext, claims: Iterable[NodeClaim]) -> None:
    """Take the marks and the record off these claims and their nodes."""

    async def release_one(claim: NodeClaim) -> None:
        for node in context.state.nodes_of(claim):
            if is_shut(node):
                await context.patch_node(node, reopening_patch(node))
        claim = context.state.latest(claim)
        if find(claim.status.conditions, DISRUPTION_REASON) is not None:
            left = without(claim.status.conditions, DISRUPTION_REASON)
            claim = await context.patch_claim(claim, conditions_patch(left), status=True)
        try:
            await context.patch_claim(claim, {"metadata": {"annotations": {RECORD_ANNOTATION: None}}})
        except NotFound:
            return

    await for_each(release_one, claims)


_Fresh = dict[str, tuple[Node, Listing[Pod]]]
"""Nodes and their pods as the API server has them, by node name."""


class CommitCheck:
    """The last look before the point of no return."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def find_obstacles(
        self, state: CommandState, planned_pods: Collection[str] | None = None
    ) -> dict[str, Refusal]:
        """What keeps candidates of a command, by NodeClaim name. Raises where the API server does not answer."""
        context = self._context
        context.state.observe_all(NODE_POOL, await context.cluster.list(NODE_POOL))
        switch = await context.cluster.list(CONFIG_MAP, context.state.switch.options)
        context.state.observe_all(CONFIG_MAP, switch)
        pdbs = await context.cluster.list(POD_DISRUPTION_BUDGET)
        fresh: _Fresh = {}

        async def read(claim: NodeClaim) -> None:
            for known in context.state.nodes_of(claim):
                with suppress(NotFound):  # gone already; its claim follows
                    node = context.state.observe(NODE, await context.cluster.get(NODE, known.key))
                    fresh[node.name] = node, await context.read_pods(node.name)

        await for_each(read, state.candidates)
        look = Pass(await self._snapshot(fresh, pdbs), context.options)
        found = find_obstacles(state, look, planned_pods)
        for claim in state.candidates:
            for node in context.state.nodes_of(claim):
                for bad in fresh[node.name][1].unreadable if node.name in fresh else ():
                    odd = str(unread(POD, bad))
                    found[claim.name] = Refusal(RefusalCode.UNREADABLE, node_ref(node.name), detail=odd)
        return found

    async def is_unused(self, claim: NodeClaim) -> bool:
        """Whether a replacement has no pod that would have to move if it were deleted."""
        if not claim.status.node_name:
            return True
        pods = await self._context.read_pods(claim.status.node_name)
        return not pods.unreadable and not any(pod.reschedulable for pod in pods.items)

    async def _snapshot(self, fresh: _Fresh, pdbs: Listing[PodDisruptionBudget]) -> Snapshot:
        """The cached cluster, with what was just read in place of what the cache says."""
        context = self._context
        catalogs = await find_catalogs(context.cloud, context.state.nodepools.items.values())
        cached = context.state.snapshot(context.clock.now(), catalogs)
        nodes = [_refreshed(node, fresh) for node in cached.nodes]
        known = completed(POD_DISRUPTION_BUDGET, sorted(pdbs.items, key=lambda pdb: pdb.key), pdbs.unreadable)
        return replace(cached, nodes=tuple(nodes), pdbs=known)


def _refreshed(cached: ClusterNode, fresh: _Fresh) -> ClusterNode:
    if cached.node is None or cached.node.name not in fresh:
        return cached
    node, pods = fresh[cached.node.name]
    return replace(cached, node=node, pods=pods.items)
