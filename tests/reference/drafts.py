"""When a draft accepts a pod, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import replace

from dovetail.model.labels import HOSTNAME
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirements
from reference.affinity import Expressions, narrowed
from reference.domains import own_domain
from reference.market import (
    choices,
    defined_labels,
    exactly,
    possible_domains,
    types_left,
    variety_suffices,
    within_limits,
)
from reference.ports import ports_conflict
from reference.run import Draft, Run, template_requirements
from reference.topology import allowed_domains, bootstraps, keys_needed, keys_ruled, spread_counts
from reference.volumes import volume_alternatives
from reference.wish import Wish


def empty_draft(run: Run, pool: NodePool) -> Draft | None:
    """A draft that is being opened, with the types the pool's limits leave; None if the run may open no more."""
    if run.max_drafts is not None and len(run.drafts) >= run.max_drafts:
        return None
    types = within_limits(run, pool, choices(run, pool))
    return Draft(len(run.drafts), pool, (), template_requirements(pool), types) if types else None


def draft_with(run: Run, draft: Draft, wish: Wish) -> Draft | None:
    """The draft with the pod in it, for the first pair of alternatives that works; None if it refuses."""
    if not wish.tolerates(draft.taints):
        return None
    if ports_conflict(wish.pod.spec, (other.spec for other in draft.pods)):
        return None
    places = volume_alternatives(wish.pod, run.snapshot.storage, for_draft=True)
    for alternative in wish.alternatives:
        for place in places:
            accepted = _with_alternatives(run, draft, wish, (alternative, place))
            if accepted is not None:
                return accepted
    return None


def _with_alternatives(run: Run, draft: Draft, wish: Wish, pair: tuple[Expressions, Expressions]) -> Draft | None:
    requirements = narrowed(draft.requirements, (*pair[0], *pair[1]), defined_labels(run, draft.pool))
    if requirements is None:
        return None
    if not _hostname_allowed(run, draft, wish):
        return None
    keys = sorted(keys_ruled(run, wish) - {HOSTNAME})
    settled = _settle(run, draft, wish, requirements, keys)
    if settled is None:
        return None
    pods = (*draft.pods, wish.pod)
    return replace(draft, pods=pods, requirements=settled, types=types_left(run, draft, settled, pods))


def _hostname_allowed(run: Run, draft: Draft, wish: Wish) -> bool:
    """A new draft is a hostname domain like any other, and known from the moment it is opened."""
    if HOSTNAME not in keys_ruled(run, wish):
        return True
    own = own_domain(draft)
    return allowed_domains(run, wish, HOSTNAME, {own}) == {own}


def _settle(run: Run, draft: Draft, wish: Wish, requirements: Requirements, keys: Sequence[str]) -> Requirements | None:
    """Settle the keys one after another; a choice that leaves no type for the rest is given up for the next one.

    Types that offer too few values for a `minValues` are as good as none.
    """
    types = types_left(run, draft, requirements, (*draft.pods, wish.pod))
    if not types or not variety_suffices(requirements, types):
        return None
    if not keys:
        return requirements
    key, rest = keys[0], keys[1:]
    possible = possible_domains(run, requirements, types, key)
    if not possible:
        return None if key in keys_needed(wish) else _settle(run, draft, wish, requirements, rest)
    allowed = allowed_domains(run, wish, key, possible)
    if not allowed:
        return None
    for domains in _ways(run, wish, key, (possible, allowed)):
        fewer = requirements.add(exactly(key, domains)) if domains else requirements
        settled = _settle(run, draft, wish, fewer, rest)
        if settled is not None:
            return settled
    return None


def _ways(run: Run, wish: Wish, key: str, domains: tuple[set[str], set[str]]) -> list[list[str]]:
    """One domain after another, the emptiest first, if the rules ask for one; otherwise all allowed ones together.

    An empty list narrows nothing: where no possible domain is forbidden, nothing needs to be said.
    """
    possible, allowed = domains
    spreads = spread_counts(run, wish, key)
    first_of_its_kind = any(term.topology_key == key for term in wish.near) and bootstraps(run, wish)
    if not spreads and not first_of_its_kind:
        return [sorted(allowed) if allowed != possible else []]
    return [[each] for each in sorted(allowed, key=lambda domain: ([rule.count(domain) for rule in spreads], domain))]
