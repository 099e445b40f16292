"""Which domains the topology rules of a pod allow, on a room and on a draft."""

from collections.abc import Sequence

from dovetail.core.scheduling.rulebook import Rules
from dovetail.core.scheduling.tally import Domain, SpreadTally


class Allowance:
    """The rules of one pod against the tallies as they are now. Made anew for every attempt to place a pod."""

    __slots__ = ("_bootstrap", "_least", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._least: dict[SpreadTally, int] = {}
        self._bootstrap = rules.near is not None and rules.near_self and rules.near.nobody

    def least(self, tally: SpreadTally) -> int:
        """The smallest count of a known domain."""
        if tally not in self._least:
            self._least[tally] = tally.least()
        return self._least[tally]

    def room(self, row: int) -> str:
        """Why a room is not allowed, or empty."""
        rules = self.rules
        for tally, itself in rules.spread:
            domain = tally.domain(row)
            if domain is None:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            if tally.counts.get(domain, 0) + itself - self.least(tally) > tally.rule.max_skew:
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
        for tally, itself in rules.spread:
            if tally.by_host and tally.full(number, itself):
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
        spread = [(tally, itself) for tally, itself in self.rules.spread if tally.key == key]
        near = [part for part in (self.rules.near.parts if self.rules.near is not None else ()) if part.key == key]
        far = [tally for tally in self.rules.far if tally.key == key]
        if not possible:
            return ([], True) if spread or near else None
        allowed = [
            domain
            for domain in possible
            if all(self._spreads(tally, itself, domain) for tally, itself in spread)
            and all(self._bootstrap or domain in part.counts for part in near)
            and all(tally.allows(domain) for tally in far)
        ]
        if spread:
            allowed.sort(key=lambda domain: ([tally.counts.get(domain, 0) for tally, _ in spread], domain))
        one = bool(spread) or (bool(near) and self._bootstrap)
        return None if not one and len(allowed) == len(possible) else (allowed, one)

    def _spreads(self, tally: SpreadTally, itself: int, domain: Domain) -> bool:
        return tally.counts.get(domain, 0) + itself - self.least(tally) <= tally.rule.max_skew
