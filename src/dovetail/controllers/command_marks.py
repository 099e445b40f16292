"""The marks of a command on the nodes it takes away: the disruption taints, the reason on the claim, and their removal.

A node whose command waits for replacements serves its pods all the time, so it stays behind its load balancers until it
is deleted. A command without replacements does not wait: its nodes get taints and the load balancer label in one write.
"""

from collections.abc import Iterable

from dovetail.controllers.context import ControllerContext
from dovetail.core.lifecycle.drain import drain_patch, is_shut, reopening_patch, taints_patch
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord
from dovetail.model.conditions import ConditionList, ConditionVerdict, find, without
from dovetail.model.nodeclaim import DEPENDENTS, DISRUPTION_REASON, NodeClaim
from dovetail.ports.errors import NotFound
from dovetail.runtime.concurrency import for_each


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
