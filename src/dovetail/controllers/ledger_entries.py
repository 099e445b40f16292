"""What the ledger is told: a command, a launch, a node that goes without a command, and how each of them ends.

Ids are made from what the API objects say, so a controller that starts anew speaks of the same decision by the same
id: a command by its record, a launch or a removal by the uid of its NodeClaim.

What a pass weighed when it took a decision, as the ledger keeps it: what could be bought, budgets, what was refused.

Refusals are counted in full and named up to a bound, a few of every kind, so that a large cluster does not fill the
ledger. Decides nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice, zip_longest

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.candidates import Candidate, node_price
from dovetail.core.disruption.command import Command, cheapest
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.scheduling.draft import Draft
from dovetail.core.wording import message
from dovetail.model.catalog import InstanceType
from dovetail.model.command import CommandRecord, taken_by
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.errors import WorldError
from dovetail.ports.ledger import (
    BudgetUse,
    Considered,
    LedgerAction,
    LedgerEntry,
    LedgerNode,
    PlannedPurchase,
    Refused,
    RefusedFor,
)


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


NAMED = 200  # refusals
TYPES = 10  # instance types of one purchase
LAUNCH = "provisioning"
Refusals = Mapping[str, Sequence[Refusal]]
"""By method."""


def weighed(command: Command, refusals: Refusals, look: Pass, before: Iterable[Command] = ()) -> Considered:
    """What stood beside a command; `before` are those of the same pass that come first."""
    counts, named = _left_alone(refusals)
    return Considered(
        purchases=tuple(map(_purchase, command.replacements)),
        budgets=tuple(_budgets(command, look, before)),
        counts=counts,
        refusals=named,
    )


def weighed_pods(refusals: Sequence[Refusal]) -> Considered:
    """Which pods nothing is launched for: the same for every launch of one pass."""
    counts, named = _left_alone(
        {LAUNCH: [each for each in refusals if each.code is not RefusalCode.CONFIGURED_ELSEWHERE]}
    )
    return Considered(counts=counts, refusals=named)


def weighed_launch(claim: NodeClaim, pods: Considered) -> Considered:
    """What a new node may be, beside what is known of the pods."""
    types = claim.spec.requirements[-1].values if claim.spec.requirements else ()
    purchase = PlannedPurchase(nodepool=claim.nodepool_name, instance_types=tuple(types[:TYPES]), choices=len(types))
    return replace(pods, purchases=(purchase,))


def _purchase(draft: Draft) -> PlannedPurchase:
    names = [choice.type.name for choice in draft.choices]
    return PlannedPurchase(
        nodepool=draft.pool_name, instance_types=tuple(names[:TYPES]), choices=len(names), price=cheapest(draft)
    )


def _budgets(command: Command, look: Pass, before: Iterable[Command]) -> Iterable[BudgetUse]:
    going = Counter(each.pool.name for each in command.candidates)
    ahead = Counter(each.pool.name for earlier in before for each in earlier.candidates)
    for pool, nodes in sorted(going.items()):
        allowed = look.allowance(pool, command.reason)
        yield BudgetUse(nodepool=pool, used=allowed.disrupting + ahead[pool] + nodes, limit=allowed.limit)


def _left_alone(refusals: Refusals) -> tuple[tuple[RefusedFor, ...], tuple[Refused, ...]]:
    kinds: dict[tuple[str, RefusalCode], list[Refusal]] = {}
    for method, said in refusals.items():
        for each in said:
            kinds.setdefault((method, each.code), []).append(each)
    counts = tuple(RefusedFor(method=method, code=str(code), nodes=len(said)) for (method, code), said in kinds.items())
    in_turn = chain.from_iterable(
        zip_longest(*([(method, each) for each in said[:NAMED]] for (method, _), said in kinds.items()))
    )
    named = list(islice(filter(None, in_turn), NAMED))
    order = {method: number for number, method in enumerate(refusals)}
    named.sort(key=lambda each: order[each[0]])
    return counts, tuple(_refused(method, each) for method, each in named)


def _refused(method: str, refusal: Refusal) -> Refused:
    return Refused(
        method=method,
        code=str(refusal.code),
        node=str(refusal.object.key),
        message=message(refusal),
        until=refusal.until,
        permanent=refusal.permanent,
    )
