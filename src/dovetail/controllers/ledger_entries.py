"""Builds ledger entries: commands, launches, and what a pass considered when it made a decision.

Decision ids are derived from API objects, so a restarted controller uses the same id for the same decision: the id of a
command is in its record; the id of a launch or removal is a digest of the NodeClaim's uid.

`Considered` holds the planned purchases, the use of budgets, and the refusals of the pass. All refusals are counted.
Up to 200 are listed, taken in turn from every pair of method and code, so a large cluster does not fill the ledger.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice, zip_longest

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.candidates import Candidate, node_price
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.core.savings import NEVER_EXPIRES
from dovetail.core.scheduling.draft import Draft, cheapest
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
    """Return the id of the decision that launched this claim for pending pods."""
    return _digest(f"launch {claim.metadata.uid}")


def removal_id(claim: NodeClaim) -> str:
    """Return the id of the decision that removes this claim without a command."""
    return _digest(f"remove {claim.metadata.uid}")


def decision_id(claim: NodeClaim) -> str:
    """Return the id of the decision that removes this claim: that of its committed command, else its removal id."""
    record = taken_by(claim)
    return record.id if record is not None else removal_id(claim)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def command_entry(command: Command, record: CommandRecord, considered: Considered | None = None) -> LedgerEntry:
    """Return the entry of a command that starts."""
    return LedgerEntry(
        id=record.id,
        at=record.started_at,
        act=LedgerAction.DISRUPT,
        reason=record.reason,
        why=str(command),
        method=command.method,
        nodes=tuple(map(_candidate_node, command.candidates)),
        replacements=record.replacements,
        pods=pod_names(pod for each in command.candidates for pod in each.pods_to_reschedule),
        cost_before=record.cost_before,
        cost_after=record.cost_after,
        considered=considered,
    )


def _candidate_node(candidate: Candidate) -> LedgerNode:
    return LedgerNode(
        nodeclaim=candidate.claim.name,
        node=candidate.name,
        nodepool=candidate.pool.name,
        instance_type=candidate.node.labels.get(INSTANCE_TYPE, ""),
        capacity_type=candidate.capacity_type,
        zone=candidate.zone,
        price=candidate.price or None,
        expires_at=expires_at(candidate.claim, candidate.pool) or NEVER_EXPIRES,
    )


def launch_entry(
    claim: NodeClaim, pods: Iterable[Pod], at: datetime, considered: Considered | None = None
) -> LedgerEntry:
    """Return the entry of a launch for pending pods. Its instance type and price are added when it is initialized."""
    names = pod_names(pods)
    return LedgerEntry(
        id=launch_id(claim),
        at=at,
        act=LedgerAction.LAUNCH,
        reason="Provisioned",
        why=f"{len(names)} pod{'s' * (len(names) != 1)} could not be scheduled",
        nodes=(LedgerNode(nodeclaim=claim.name, nodepool=claim.nodepool_name),),
        pods=names,
        considered=considered,
    )


def pod_names(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the sorted `namespace/name` of the pods."""
    return tuple(sorted(str(pod.key) for pod in pods))


async def priced_node(context: ControllerContext, claim: NodeClaim) -> LedgerNode:
    """Return the claim as a ledger node, with its hourly price if the catalog has it."""
    return replace(ledger_node(claim), price=await _price(context, claim))


def ledger_node(claim: NodeClaim) -> LedgerNode:
    """Return the claim as a ledger node, without a price."""
    labels = claim.metadata.labels
    return LedgerNode(
        nodeclaim=claim.name,
        node=claim.status.node_name,
        nodepool=claim.nodepool_name,
        instance_type=labels.get(INSTANCE_TYPE, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        zone=labels.get(ZONE, ""),
        used=_used(claim),
    )


def _used(claim: NodeClaim) -> float | None:
    """Return the share of its capacity that the pods request for which it was launched: of the scarcest resource."""
    capacity = claim.status.capacity
    shares = [
        requested.nano / capacity[name].nano
        for name, requested in claim.spec.resources.requests.items()
        if name in capacity and capacity[name].nano > 0
    ]
    return min(1.0, max(shares)) if shares else None


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


def total_price(facts: Iterable[LedgerNode]) -> float:
    """Return the hourly price of all nodes; unknown prices count as 0."""
    return sum(each.price or 0.0 for each in facts)


MAX_NAMED_REFUSALS = 200
MAX_NAMED_TYPES = 10  # of one purchase
PROVISIONING = "provisioning"
Refusals = Mapping[str, Sequence[Refusal]]
"""Refusals by method name."""


def considered_for_command(
    command: Command, refusals: Refusals, context: PassContext, before: Iterable[Command] = ()
) -> Considered:
    """Return what the pass considered for a command; `before` are the commands of the pass that started earlier."""
    counts, named = _summarize_refusals(refusals)
    return Considered(
        purchases=tuple(map(_purchase, command.replacements)),
        budgets=tuple(_budgets(command, context, before)),
        counts=counts,
        refusals=named,
    )


def refused_pods(refusals: Sequence[Refusal]) -> Considered:
    """Return the pods that no node is launched for; shared by all launches of a pass."""
    counts, named = _summarize_refusals(
        {PROVISIONING: [each for each in refusals if each.code is not RefusalCode.CONFIGURED_ELSEWHERE]}
    )
    return Considered(counts=counts, refusals=named)


def considered_for_launch(claim: NodeClaim, pods: Considered) -> Considered:
    """Add the instance types of a launch to the refused pods of its pass."""
    types = claim.spec.requirements[-1].values if claim.spec.requirements else ()
    purchase = PlannedPurchase(
        nodepool=claim.nodepool_name, instance_types=tuple(types[:MAX_NAMED_TYPES]), choices=len(types)
    )
    return replace(pods, purchases=(purchase,))


def _purchase(draft: Draft) -> PlannedPurchase:
    names = [choice.type.name for choice in draft.choices]
    return PlannedPurchase(
        nodepool=draft.pool_name,
        instance_types=tuple(names[:MAX_NAMED_TYPES]),
        choices=len(names),
        price=cheapest(draft),
    )


def _budgets(command: Command, context: PassContext, before: Iterable[Command]) -> Iterable[BudgetUse]:
    removed = Counter(each.pool.name for each in command.candidates)
    removed_before = Counter(each.pool.name for earlier in before for each in earlier.candidates)
    for pool, nodes in sorted(removed.items()):
        allowed = context.allowance(pool, command.reason)
        yield BudgetUse(nodepool=pool, used=allowed.disrupting + removed_before[pool] + nodes, limit=allowed.limit)


def _summarize_refusals(refusals: Refusals) -> tuple[tuple[RefusedFor, ...], tuple[Refused, ...]]:
    """Count all refusals by method and code, and list some of each, in the order of the methods."""
    groups: dict[tuple[str, RefusalCode], list[Refusal]] = {}
    for method, refused in refusals.items():
        for each in refused:
            groups.setdefault((method, each.code), []).append(each)
    counts = tuple(
        RefusedFor(method=method, code=str(code), nodes=len(group)) for (method, code), group in groups.items()
    )
    in_turn = chain.from_iterable(
        zip_longest(*([(method, each) for each in group[:MAX_NAMED_REFUSALS]] for (method, _), group in groups.items()))
    )
    named = list(islice(filter(None, in_turn), MAX_NAMED_REFUSALS))
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
