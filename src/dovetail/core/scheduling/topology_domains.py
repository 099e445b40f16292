"""Topology domains: which domains the rules of a pod allow, with the counts as they are now.

`node_row` checks an existing node, `host` a draft by hostname, `domains` the values of another key that a draft may
still take, best first. Created for each attempt to place a pod: it caches the smallest count of each spread rule,
which is valid only until the next pod is placed.

The first pod of an affinity group, which its own terms select while no pod matches them, may go anywhere.
"""

from collections.abc import Sequence

from dovetail.core.scheduling.topology import PodTopologyRules
from dovetail.core.scheduling.topology_counts import Domain, SpreadCounts


class AllowedDomains:
    """The rules of one pod with the counts as they are now. Created for each attempt to place a pod."""

    __slots__ = ("_bootstrap", "_least", "rules")

    def __init__(self, rules: PodTopologyRules) -> None:
        self.rules = rules
        self._least: dict[SpreadCounts, int] = {}
        self._bootstrap = rules.near is not None and rules.near_self and rules.near.nobody

    def least(self, topology_counts: SpreadCounts) -> int:
        """The smallest count of a known domain."""
        if topology_counts not in self._least:
            self._least[topology_counts] = topology_counts.least()
        return self._least[topology_counts]

    def node_row(self, row: int) -> str:
        """Why an existing node is not allowed, or empty."""
        rules = self.rules
        for topology_counts, itself in rules.spread:
            domain = topology_counts.domain(row)
            if domain is None:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            if (
                topology_counts.counts.get(domain, 0) + itself - self.least(topology_counts)
                > topology_counts.rule.max_skew
            ):
                return "node(s) didn't match pod topology spread constraints"
        if rules.near is not None:
            for part in rules.near.parts:
                domain = part.domain(row)
                if domain is None or (domain not in part.counts and not self._bootstrap):
                    return "node(s) didn't match pod affinity rules"
        for other in rules.far:
            if not other.allows(other.domain(row)):
                return "node(s) didn't match pod anti-affinity rules"
        return ""

    def host(self, number: int) -> str:
        """Why a draft is not allowed as a host, or empty."""
        rules = self.rules
        for topology_counts, itself in rules.spread:
            if topology_counts.by_host and topology_counts.full(number, itself):
                return "didn't match pod topology spread constraints"
        if rules.near is not None and not self._bootstrap:
            for part in rules.near.parts:
                if part.by_host and number not in part.counts:
                    return "didn't match pod affinity rules"
        for other in rules.far:
            if other.by_host and number in other.counts:
                return "didn't match pod anti-affinity rules"
        return ""

    def domains(self, key: str, possible: Sequence[str]) -> tuple[list[str], bool] | None:
        """The allowed domains of a key, best first, and whether one must be chosen. None: leave it as it is."""
        spread = [
            (topology_counts, itself) for topology_counts, itself in self.rules.spread if topology_counts.key == key
        ]
        near = [part for part in (self.rules.near.parts if self.rules.near is not None else ()) if part.key == key]
        far = [topology_counts for topology_counts in self.rules.far if topology_counts.key == key]
        if not possible:
            return ([], True) if spread or near else None
        allowed = [
            domain
            for domain in possible
            if all(self._spreads(topology_counts, itself, domain) for topology_counts, itself in spread)
            and all(self._bootstrap or domain in part.counts for part in near)
            and all(topology_counts.allows(domain) for topology_counts in far)
        ]
        if spread:
            allowed.sort(
                key=lambda domain: ([topology_counts.counts.get(domain, 0) for topology_counts, _ in spread], domain)
            )
        one = bool(spread) or (bool(near) and self._bootstrap)
        return None if not one and len(allowed) == len(possible) else (allowed, one)

    def _spreads(self, topology_counts: SpreadCounts, itself: int, domain: Domain) -> bool:
        return (
            topology_counts.counts.get(domain, 0) + itself - self.least(topology_counts)
            <= topology_counts.rule.max_skew
        )
