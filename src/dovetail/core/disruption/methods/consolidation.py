"""What multi-node and single-node consolidation share: whom they look at, and when a replacement is worth it."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate, price_ceiling
from dovetail.core.disruption.delays import consolidation_wait, grace_wait
from dovetail.core.disruption.methods.base import waiting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import UNLIMITED
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from dovetail.model.reason import Reason
from dovetail.model.refusal import GRACE_PERIOD, SPOT_TO_SPOT, Refusal, RefusalCode

SPOT_FLEXIBILITY = 15
"""Cheaper types a single spot node must have to choose from, or it would race to the cheapest and least available."""


def disabled(candidate: Candidate) -> Refusal | None:
    """Whether the pool never consolidates."""
    after = candidate.pool.spec.disruption.consolidate_after
    code = RefusalCode.STATIC if candidate.pool.static else RefusalCode.CONSOLIDATION_DISABLED
    if candidate.pool.static or (after is not None and after.never):
        return Refusal(code, candidate.ref, permanent=True, nodepool=candidate.pool.name)
    return None


def settling(candidate: Candidate, context: PassContext) -> Refusal | None:
    """Whether the node is still inside its consolidation grace period."""
    wait = grace_wait(candidate.pool, candidate.claim, context.snapshot.at)
    return waiting(candidate, Reason.UNDERUTILIZED, wait, setting=GRACE_PERIOD)


def consolidation_refusal(candidate: Candidate, context: PassContext) -> Refusal | None:
    """Why consolidation is not interested in a node, or None."""
    known = context.consolidation_refusals
    if candidate.name not in known:
        known[candidate.name] = _refusal(candidate, context)
    return known[candidate.name]


def _refusal(candidate: Candidate, context: PassContext) -> Refusal | None:
    return next(consolidation_refusals(candidate, context), None)


def consolidation_refusals(candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
    """Everything consolidation has against a node, in the order it is looked at."""
    about, pool = candidate.ref, candidate.pool
    off = disabled(candidate)
    if off is not None:
        yield off
    if candidate.instance_type is None:
        named = candidate.node.labels.get(INSTANCE_TYPE, "")
        yield Refusal(RefusalCode.INSTANCE_TYPE_UNKNOWN, about, permanent=True, detail=named)
    for label, value in ((CAPACITY_TYPE, candidate.capacity_type), (ZONE, candidate.zone)):
        if not value:
            yield Refusal(RefusalCode.LABEL_MISSING, about, permanent=True, setting=label)
    if candidate.empty:
        yield Refusal(RefusalCode.EMPTY, about)
        return
    if pool.consolidation_policy == "WhenEmpty":
        yield Refusal(RefusalCode.POLICY_WHEN_EMPTY, about, permanent=True, nodepool=pool.name)
    wait = consolidation_wait(pool, candidate.claim, context.snapshot.at)
    restless = waiting(candidate, Reason.UNDERUTILIZED, wait) if off is None else None
    if restless is not None:
        yield restless
    grace = settling(candidate, context)
    if grace is not None:
        yield grace


def cant_replace(candidate: Candidate, *, setting: str = "", count: int = 0) -> Refusal:
    """There is no cheaper node; or there is none that `setting` accepts."""
    needed = str(SPOT_FLEXIBILITY) if count else ""
    return Refusal(RefusalCode.CANT_REPLACE, candidate.ref, setting=setting, count=count, detail=needed)


def narrow_to_cheaper(candidates: Sequence[Candidate], draft: Draft, context: PassContext) -> Draft | Refusal:
    """The replacement, narrowed to what is surely cheaper, or why there is none."""
    all_spot = all(each.capacity_type == SPOT for each in candidates)
    possible = draft.possible(CAPACITY_TYPE)
    if all_spot and SPOT in possible:
        paid = _cheaper(_within(draft, CAPACITY_TYPE, (RESERVED,)), candidates) if RESERVED in possible else None
        return paid or _spot_to_spot(candidates, draft, context)
    return _cheaper(_as_launched(draft), candidates) or cant_replace(candidates[0])


def saving(candidate: Candidate, draft: Draft) -> float | Refusal | None:
    """What `narrow_to_cheaper` would save on one candidate, or why it is not; None if only that itself can tell."""
    possible = draft.possible(CAPACITY_TYPE)
    if draft.options.diversity or (candidate.capacity_type == SPOT and SPOT in possible):
        return None
    launched = _as_launched(draft)
    left = launched.options.left(launched.total, launched.below, launched.ports)
    first = next(_surely_cheaper(launched, left, price_ceiling((candidate,))), None)
    return cant_replace(candidate) if first is None else candidate.price - float(launched.options.prices[first])


def _spot_to_spot(candidates: Sequence[Candidate], draft: Draft, context: PassContext) -> Draft | Refusal:
    if not context.options.spot_to_spot:
        return cant_replace(candidates[0], setting=SPOT_TO_SPOT)
    cheaper = _cheaper(_within(draft, CAPACITY_TYPE, (SPOT,)), candidates)
    if cheaper is None:
        return cant_replace(candidates[0])
    if len(candidates) > 1:
        return cheaper
    names = [choice.type.name for choice in cheaper.choices]
    if len(names) < SPOT_FLEXIBILITY:
        return cant_replace(candidates[0], setting=SPOT_TO_SPOT, count=len(names))
    lengths = range(SPOT_FLEXIBILITY, len(names))
    number = bisect_left(lengths, 1, key=lambda each: len(_cheapest(cheaper, names, each).choices))
    return _cheapest(cheaper, names, SPOT_FLEXIBILITY + number)


def _cheapest(draft: Draft, names: Sequence[str], number: int) -> Draft:
    """Narrowed to that many types; it has no choices if that is less diversity than its pool asks for."""
    return _within(draft, INSTANCE_TYPE, tuple(names[:number]))


def _as_launched(draft: Draft) -> Draft:
    """Narrowed to how it would be bought: reserved before spot before on-demand."""
    possible = draft.possible(CAPACITY_TYPE)
    first = next((each for each in (RESERVED, SPOT, ON_DEMAND) if each in possible), None)
    return draft if first is None else _within(draft, CAPACITY_TYPE, (first,))


def _cheaper(draft: Draft, candidates: Sequence[Candidate]) -> Draft | None:
    """Narrowed to the types whose dearest offering still is cheaper; never like for like."""
    options = draft.options
    left = options.left(draft.total, draft.below, draft.ports)
    ceiling = price_ceiling(candidates)
    if len(candidates) > 1:
        ceiling = min(ceiling, _same_type_price(draft, left, candidates))
    names = tuple(options.choice(each).type.name for each in _surely_cheaper(draft, left, ceiling))
    if not names:
        return None
    narrowed = draft if len(names) == len(left) else _within(draft, INSTANCE_TYPE, names)
    return narrowed if narrowed.choices else None


def _surely_cheaper(draft: Draft, left: Sequence[int], ceiling: float) -> Iterator[int]:
    """The types that cost less than the ceiling however they are bought; at equality nothing is saved."""
    return (each for each in left if draft.options.most_expensive(each) < ceiling)


def _same_type_price(draft: Draft, left: Sequence[int], candidates: Sequence[Candidate]) -> float:
    """What the cheapest type costs that is both taken away and offered as a replacement: only less is worth it."""
    gone = {each.instance_type.name for each in candidates if each.instance_type is not None}
    shared = [each for each in left if draft.options.choice(each).type.name in gone]
    return min((float(draft.options.prices[each]) for each in shared), default=UNLIMITED)


def _within(draft: Draft, key: str, values: tuple[str, ...]) -> Draft:
    return Draft(
        number=draft.number,
        options=draft.options.within(key, values),
        total=draft.total,
        below=draft.below,
        pods=draft.pods,
        shapes=draft.shapes,
        ports=draft.ports,
    )
