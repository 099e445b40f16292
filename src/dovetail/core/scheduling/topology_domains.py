"""Topology domains: which domains the rules of a pod allow, with the current counts.

`reason_on_row` checks an existing node, `reason_on_host` a draft by hostname, `domains` the values of another key that
a draft may still take, best first. Created for each attempt to place a pod: it caches the smallest count of each spread
rule, which is valid only until the next pod is placed.

The first pod of an affinity group, which its own terms select while no pod matches them, may run in every domain.
"""

from collections.abc import Sequence

from dovetail.core.scheduling.topology import PodTopologyRules
from dovetail.core.scheduling.topology_counts import Domain, HostSpreadCounts, SpreadCounts


class AllowedDomains:
    """The rules of one pod with the current counts. Created for each attempt to place a pod."""

    __slots__ = ("_first_of_group", "_smallest", "rules")

    def __init__(self, rules: PodTopologyRules) -> None:
        self.rules = rules
        self._smallest: dict[SpreadCounts, int] = {}
        self._first_of_group = rules.affinity is not None and rules.selects_itself and rules.affinity.is_empty

    def smallest_count(self, topology_counts: SpreadCounts) -> int:
        """The smallest count of a known domain."""
        if topology_counts not in self._smallest:
            self._smallest[topology_counts] = topology_counts.smallest_count()
        return self._smallest[topology_counts]

    def reason_on_row(self, row: int) -> str:
        """Why an existing node is not allowed, or empty."""
        rules = self.rules
        for topology_counts, self_match in rules.spread:
            domain = topology_counts.domain(row)
            if domain is None:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            if not self._within_skew(topology_counts, self_match, domain):
                return "node(s) didn't match pod topology spread constraints"
        if rules.affinity is not None:
            for part in rules.affinity.parts:
                domain = part.domain(row)
                if domain is None or (domain not in part.counts and not self._first_of_group):
                    return "node(s) didn't match pod affinity rules"
        for other in rules.anti_affinity:
            if not other.allows(other.domain(row)):
                return "node(s) didn't match pod anti-affinity rules"
        return ""

    def reason_on_host(self, number: int) -> str:
        """Why a draft is not allowed as a host, or empty."""
        rules = self.rules
        for topology_counts, self_match in rules.spread:
            if isinstance(topology_counts, HostSpreadCounts) and topology_counts.exceeds_skew(number, self_match):
                return "didn't match pod topology spread constraints"
        if rules.affinity is not None and not self._first_of_group:
            for part in rules.affinity.parts:
                if part.by_host and number not in part.counts:
                    return "didn't match pod affinity rules"
        for other in rules.anti_affinity:
            if other.by_host and number in other.counts:
                return "didn't match pod anti-affinity rules"
        return ""

    def domains(self, key: str, possible: Sequence[str]) -> tuple[list[str], bool] | None:
        """The allowed domains of a key, best first, and whether one must be chosen; None if all stay possible."""
        spread = [
            (topology_counts, self_match)
            for topology_counts, self_match in self.rules.spread
            if topology_counts.key == key
        ]
        affinity = [
            part for part in (self.rules.affinity.parts if self.rules.affinity is not None else ()) if part.key == key
        ]
        anti_affinity = [topology_counts for topology_counts in self.rules.anti_affinity if topology_counts.key == key]
        if not possible:
            return ([], True) if spread or affinity else None
        allowed = [
            domain
            for domain in possible
            if all(self._within_skew(topology_counts, self_match, domain) for topology_counts, self_match in spread)
            and all(self._first_of_group or domain in part.counts for part in affinity)
            and all(topology_counts.allows(domain) for topology_counts in anti_affinity)
        ]
        if spread:
            allowed.sort(key=lambda domain: ([topology_counts.count(domain) for topology_counts, _ in spread], domain))
        one = bool(spread) or (bool(affinity) and self._first_of_group)
        return None if not one and len(allowed) == len(possible) else (allowed, one)

    def _within_skew(self, topology_counts: SpreadCounts, self_match: int, domain: Domain) -> bool:
        return (
            topology_counts.count(domain) + self_match - self.smallest_count(topology_counts)
            <= topology_counts.rule.max_skew
        )
