"""Topology spread: which domains keep equal pods even enough."""

from dataclasses import dataclass

from dovetail.model.labels import HOSTNAME
from dovetail.model.pod import TopologySpreadConstraint
from reference.affinity import narrowed, node_meets_any, required_alternatives
from reference.domains import has_key, settled_domain
from reference.market import defined_labels, pool_domains, sold
from reference.run import Bin, Room, Run, template_requirements
from reference.selection import spread_selects
from reference.wish import Wish, tolerates_hard


@dataclass(frozen=True)
class Tally:
    """How one constraint stands: selected pods by domain, and every domain that is known."""

    constraint: TopologySpreadConstraint
    own: int
    count_by_domain: dict[str, int]
    known: frozenset[str]

    def count(self, domain: str) -> int:
        return self.count_by_domain.get(domain, 0)

    @property
    def smallest(self) -> int:
        """The smallest count of a known domain; 0 if none is known, or fewer than asked for.

        A node more is always possible, so for hostname it is 0.
        """
        if self.constraint.topology_key == HOSTNAME:
            return 0
        if not self.known or len(self.known) < (self.constraint.min_domains or 1):
            return 0
        return min(self.count(domain) for domain in self.known)

    def allows(self, domain: str) -> bool:
        return self.count(domain) + self.own - self.smallest <= self.constraint.max_skew


def tally(run: Run, wish: Wish, constraint: TopologySpreadConstraint) -> Tally:
    """Count the pods of a constraint anew."""
    key = constraint.topology_key
    counts: dict[str, int] = {}
    known: set[str] = set()
    for each in run.bins:
        domain = settled_domain(run, each, key)
        if domain is not None and _eligible(run, wish, constraint, each):
            known.add(domain)
            selected = [pod for pod in each.counted if spread_selects(constraint, wish.pod, pod)]
            counts[domain] = counts.get(domain, 0) + len(selected)
    if key != HOSTNAME:
        known |= _domains_of_pools(run, wish, constraint)
    own = 1 if spread_selects(constraint, wish.pod, wish.pod) else 0
    return Tally(constraint, own, counts, frozenset(known))


def _eligible(run: Run, wish: Wish, constraint: TopologySpreadConstraint, each: Bin) -> bool:
    """Has every topology key of the pod's held constraints, and passes this constraint's node policies."""
    return (
        all(has_key(run, each, held.topology_key) for held in wish.spreads)
        and (constraint.node_affinity_policy != "Honor" or _required_affinity_met(run, wish, each))
        and (constraint.node_taints_policy != "Honor" or tolerates_hard(wish.pod, each.taints))
    )


def _required_affinity_met(run: Run, wish: Wish, each: Bin) -> bool:
    """A held preference plays no part. A draft meets an alternative with which one of its types is left."""
    alternatives = required_alternatives(wish.pod.spec)
    if isinstance(each, Room):
        return node_meets_any(each.node, alternatives)
    defined = defined_labels(run, each.pool)
    nodes = [narrowed(each.requirements, alternative, defined) for alternative in alternatives]
    return any(sold(run, one, node, run.price_ceiling) for node in nodes if node is not None for one in each.types)


def _domains_of_pools(run: Run, wish: Wish, constraint: TopologySpreadConstraint) -> set[str]:
    """What some NodePool could provide, as far as the policies allow it."""
    key = constraint.topology_key
    found: set[str] = set()
    for pool in run.pools:
        if constraint.node_taints_policy == "Honor" and not tolerates_hard(wish.pod, pool.spec.template.spec.taints):
            continue
        template, honored = template_requirements(pool), constraint.node_affinity_policy == "Honor"
        alternatives = required_alternatives(wish.pod.spec) if honored else [()]
        for alternative in alternatives:
            node = narrowed(template, alternative, defined_labels(run, pool))
            if node is not None:
                found |= pool_domains(run, pool, node, key)
    return found
