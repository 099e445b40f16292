"""Kubernetes events about a running command, and its ledger entry where others deleted its nodes first."""

import logging
from collections.abc import Mapping

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.metrics.deletions import count_removal
from dovetail.core.wording import message
from dovetail.model.command import CommandRecord, CommandState
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.refusal import Refusal
from dovetail.ports.cluster import Notice
from dovetail.ports.ledger import DecisionOutcome, LedgerEnding

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
