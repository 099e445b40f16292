"""What the ledger is told: a command, a launch, a node that goes without a command, and how each of them ends.

Ids are made from what the API objects say, so a controller that starts anew speaks of the same decision by the same
id: a command by its record, a launch or a removal by the uid of its NodeClaim.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.candidates import Candidate, node_price
from dovetail.core.disruption.command import Command
from dovetail.model.catalog import InstanceType
from dovetail.model.command import CommandRecord, taken_by
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.errors import WorldError
from dovetail.ports.ledger import Considered, LedgerAction, LedgerEntry, LedgerNode


def launch_id(claim: NodeClaim) -> str:
    """The decision that brought this claim, unless it replaces others."""
    return _digest(f"launch {claim.metadata.uid}")


def removal_id(claim: NodeClaim) -> str:
    """The decision that takes this claim away, unless a command does."""
    return _digest(f"remove {claim.metadata.uid}")


def decision_of(claim: NodeClaim) -> str:
    """Under which id this claim goes: that of the command that takes it away, else its own removal."""
    record = taken_by(claim)
    return record.id if record is not None else removal_id(claim)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def command_entry(command: Command, record: CommandRecord, considered: Considered | None = None) -> LedgerEntry:
    """A command as it begins."""
    return LedgerEntry(
        id=record.id,
        at=record.started_at,
        act=LedgerAction.DISRUPT,
        reason=record.reason,
        why=str(command),
        method=command.method,
        nodes=tuple(map(_candidate, command.candidates)),
        replacements=record.replacements,
        pods=pod_names(pod for each in command.candidates for pod in each.pods_to_reschedule),
        cost_before=record.cost_before,
        cost_after=record.cost_after,
        considered=considered,
    )


def _candidate(candidate: Candidate) -> LedgerNode:
    return LedgerNode(
        nodeclaim=candidate.claim.name,
        node=candidate.name,
        nodepool=candidate.pool.name,
        instance_type=candidate.node.labels.get(INSTANCE_TYPE, ""),
        capacity_type=candidate.capacity_type,
        zone=candidate.zone,
        price=candidate.price,
    )


def launch_entry(
    claim: NodeClaim, pods: Iterable[Pod], at: datetime, considered: Considered | None = None
) -> LedgerEntry:
    """A node for pods that wait. What it is and costs is known when it is there."""
    names = pod_names(pods)
    return LedgerEntry(
        id=launch_id(claim),
        at=at,
        act=LedgerAction.LAUNCH,
        reason="Provisioned",
        why=f"{len(names)} pod{'s' * (len(names) != 1)} had no room",
        nodes=(LedgerNode(nodeclaim=claim.name, nodepool=claim.nodepool_name),),
        pods=names,
        considered=considered,
    )


def pod_names(pods: Iterable[Pod]) -> tuple[str, ...]:
    """As namespace/name, in order."""
    return tuple(sorted(str(pod.key) for pod in pods))


async def find_facts(context: ControllerContext, claim: NodeClaim) -> LedgerNode:
    """What a claim became, and what that costs, as far as anybody knows."""
    return replace(known_facts(claim), price=await _price(context, claim))


def known_facts(claim: NodeClaim) -> LedgerNode:
    """What a claim says of itself."""
    labels = claim.metadata.labels
    return LedgerNode(
        nodeclaim=claim.name,
        node=claim.status.node_name,
        nodepool=claim.nodepool_name,
        instance_type=labels.get(INSTANCE_TYPE, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        zone=labels.get(ZONE, ""),
    )


async def _price(context: ControllerContext, claim: NodeClaim) -> float | None:
    pool = context.state.pool(claim.nodepool_name)
    name = claim.metadata.labels.get(INSTANCE_TYPE, "")
    if pool is None or not name or not context.cloud.supports(pool.node_class_ref):
        return None
    try:
        types: tuple[InstanceType, ...] = await context.cloud.instance_types(pool)
    except WorldError:
        return None
    found = next((each for each in types if each.name == name), None)
    return node_price(ClusterNode(None, claim), found) or None


def total(facts: Iterable[LedgerNode]) -> float:
    """What nodes cost an hour together, as far as it is known."""
    return sum(each.price or 0.0 for each in facts)
