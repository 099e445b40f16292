"""Rules shared by multi-node and single-node consolidation: which nodes qualify, and which replacements are cheaper.

`narrow_to_cheaper` narrows a replacement to instance types that cost less than the candidates, whichever of their
offerings is launched. As in Karpenter, spot nodes are replaced by spot nodes only if the feature is enabled, and a
single spot node only if at least `SPOT_FLEXIBILITY` cheaper types remain. The replacement of several nodes must also
cost less than each of their own types that it could be: otherwise it is better to keep that node.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate, price_ceiling
from dovetail.core.disruption.delays import consolidation_wait, cool_down, grace_wait
from dovetail.core.disruption.methods.base import waiting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import UNLIMITED
from dovetail.model.cached import once
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.refusal import GRACE_PERIOD, SPOT_TO_SPOT, Refusal, RefusalCode

SPOT_FLEXIBILITY = 15
"""The fewest cheaper types for a spot-to-spot replacement: with fewer, nodes would end up on the least available."""


def disabled(candidate: Candidate) -> Refusal | None:
    """The refusal of a node whose NodePool never consolidates, or None."""
    code = _disabled_as(candidate.pool)
    return Refusal(code, candidate.ref, permanent=True, nodepool=candidate.pool.name) if code is not None else None


@once
def _disabled_as(pool: NodePool) -> RefusalCode | None:
    after = pool.spec.disruption.consolidate_after
    if pool.static:
        return RefusalCode.STATIC
    return RefusalCode.CONSOLIDATION_DISABLED if after is not None and after.never else None


def settling(candidate: Candidate, context: PassContext) -> Refusal | None:
    """The refusal of a node inside its consolidationGracePeriod, or None."""
    wait = grace_wait(candidate.pool, candidate.claim, context.snapshot.at)
    return waiting(candidate, Reason.UNDERUTILIZED, wait, setting=GRACE_PERIOD)


def consolidation_refusal(candidate: Candidate, context: PassContext) -> Refusal | None:
    """The first reason not to consolidate a node, or None; computed once in a pass."""
    known = context.consolidation_refusals
    if candidate.name not in known:
        known[candidate.name] = next(consolidation_refusals(candidate, context), None)
    return known[candidate.name]


def consolidation_refusals(candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
    """Every reason not to consolidate a node, in the order of the checks."""
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
    too_early = waiting(candidate, Reason.UNDERUTILIZED, wait) if off is None else None
    if too_early is not None:
        yield too_early
    grace = settling(candidate, context)
    if grace is not None:
        yield grace
    cooling = cool_down(pool, candidate.pods_to_reschedule, context.snapshot.at)
    if not cooling.over:
        yield Refusal(RefusalCode.COOLING_DOWN, about, cooling.until, nodepool=pool.name)


def cant_replace(candidate: Candidate, *, setting: str = "", count: int = 0) -> Refusal:
    """The refusal of a node without a cheaper replacement, or without one that `setting` allows."""
    needed = str(SPOT_FLEXIBILITY) if count else ""
    return Refusal(RefusalCode.CANT_REPLACE, candidate.ref, setting=setting, count=count, detail=needed)


def narrow_to_cheaper(candidates: Sequence[Candidate], draft: Draft, context: PassContext) -> Draft | Refusal:
    """The replacement, narrowed to types that cost less than the candidates, or why there is none."""
    all_spot = all(each.capacity_type == SPOT for each in candidates)
    possible = draft.possible(CAPACITY_TYPE)
    if all_spot and SPOT in possible:
        reserved = _cheaper(_within(draft, CAPACITY_TYPE, (RESERVED,)), candidates) if RESERVED in possible else None
        return reserved or _spot_to_spot(candidates, draft, context)
    return _cheaper(_as_launched(draft), candidates) or cant_replace(candidates[0])


def saving(candidate: Candidate, draft: Draft) -> float | Refusal | None:
    """A fast path of `narrow_to_cheaper` for one candidate: what it saves, or why not; None if it does not apply."""
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
    """Narrowed to that many types; it has no choices if its requirements demand more of them (minValues)."""
    return _within(draft, INSTANCE_TYPE, tuple(names[:number]))


def _as_launched(draft: Draft) -> Draft:
    """Narrowed to the capacity type that would be launched: reserved before spot before on-demand."""
    possible = draft.possible(CAPACITY_TYPE)
    first = next((each for each in (RESERVED, SPOT, ON_DEMAND) if each in possible), None)
    return draft if first is None else _within(draft, CAPACITY_TYPE, (first,))


def _cheaper(draft: Draft, candidates: Sequence[Candidate]) -> Draft | None:
    """Narrowed to types whose most expensive offering is cheaper than the candidates; None if there is none."""
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
    """The types that cost less than the ceiling whichever offering is launched."""
    return (each for each in left if draft.options.most_expensive(each) < ceiling)


def _same_type_price(draft: Draft, left: Sequence[int], candidates: Sequence[Candidate]) -> float:
    """The price of the cheapest type that is both removed and possible as a replacement."""
    removed = {each.instance_type.name for each in candidates if each.instance_type is not None}
    shared = [each for each in left if draft.options.choice(each).type.name in removed]
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
