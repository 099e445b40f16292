"""The topology rules of a pod: spread, affinity, anti-affinity, and the anti-affinity of pods already placed."""

from collections.abc import Iterable

from dovetail.model.pod import PodAffinityTerm
from reference.domains import domains, settled_domain
from reference.run import Run
from reference.selection import term_selects
from reference.spread import tally
from reference.wish import Wish, required_far


def keys_needed(wish: Wish) -> set[str]:
    """Keys a bin must have: those of spread and affinity."""
    return {each.topology_key for each in (*wish.spreads, *wish.near)}


def keys_ruled(run: Run, wish: Wish) -> set[str]:
    """Every key some rule speaks of."""
    others = {term.topology_key for term, _ in _others_terms(run, wish)}
    return keys_needed(wish) | {term.topology_key for term in wish.far} | others


def allowed_domains(run: Run, wish: Wish, key: str, among: Iterable[str]) -> set[str]:
    """The domains of a key that every rule allows."""
    allowed = set(among)
    for constraint in wish.spreads:
        if constraint.topology_key == key:
            standing = tally(run, wish, constraint)
            allowed = {domain for domain in allowed if standing.allows(domain)}
    if any(term.topology_key == key for term in wish.near) and not bootstraps(run, wish):
        allowed &= _domains_of_matches(run, wish, key)
    for term in wish.far:
        if term.topology_key == key:
            allowed -= _domains_selected(run, wish, term)
    for term, taken in _others_terms(run, wish):
        if term.topology_key == key:
            allowed -= taken
    return allowed


def _matches(run: Run, wish: Wish) -> list:
    """Placed pods that satisfy every held affinity term, with their bins."""
    return [
        (each, pod)
        for each, pod in run.placed_pods
        if all(term_selects(term, wish.pod, pod, run.snapshot) for term in wish.near)
    ]


def _domains_of_matches(run: Run, wish: Wish, key: str) -> set[str]:
    """A pod in a draft counts once one domain is left."""
    settled = (settled_domain(run, each, key) for each, _ in _matches(run, wish))
    return {domain for domain in settled if domain is not None}


def bootstraps(run: Run, wish: Wish) -> bool:
    """Whether no matching pod counts in a domain of any term, and the pod matches its own terms."""
    anywhere = any(_domains_of_matches(run, wish, term.topology_key) for term in wish.near)
    return not anywhere and all(term_selects(term, wish.pod, wish.pod, run.snapshot) for term in wish.near)


def _domains_selected(run: Run, wish: Wish, term: PodAffinityTerm) -> set[str]:
    """Where pods selected by an anti-affinity term are, or may come to be."""
    taken: set[str] = set()
    for each, pod in run.placed_pods:
        if term_selects(term, wish.pod, pod, run.snapshot):
            taken |= domains(run, each, term.topology_key)
    return taken


def _others_terms(run: Run, wish: Wish) -> list[tuple[PodAffinityTerm, set[str]]]:
    """The required anti-affinity terms of placed pods that select this pod, and the domains they keep it from."""
    return [
        (term, domains(run, each, term.topology_key))
        for each, pod in run.placed_pods
        for term in required_far(pod)
        if term_selects(term, pod, wish.pod, run.snapshot)
    ]


def spread_counts(run: Run, wish: Wish, key: str) -> list:
    """How each spread rule of a key stands, in the order they are written."""
    return [tally(run, wish, each) for each in wish.spreads if each.topology_key == key]
