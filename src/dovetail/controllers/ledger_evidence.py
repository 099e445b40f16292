"""What a pass weighed when it took a decision, as the ledger keeps it: what could be bought, budgets, what was refused.

Refusals are counted in full and named up to a bound, a few of every kind, so that a large cluster does not fill the
ledger. Decides nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

from dovetail.core.disruption.command import Command, cheapest
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.scheduling.draft import Draft
from dovetail.core.wording import message
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.ports.ledger import BudgetUse, Considered, PlannedPurchase, Refused, RefusedFor

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
