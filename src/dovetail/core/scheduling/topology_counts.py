"""Topology counts: for one rule, how many selected pods each domain has; and the journal that undoes changes.

A domain is a label value, or for hostname the number of a row or draft. A count of zero is not stored, so "a pod is
in this domain" is `domain in counts`, and equal states are equal dictionaries.

For spread, `bins` has the number of eligible nodes by domain: a domain is known while a node has it or a NodePool
could provide it (`provided`). The smallest count is over known domains. For hostname it is always 0, since a new node
is always possible (`docs/decisions/0018-hostname-spread-minimum-is-zero.md`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from dovetail.core.scheduling.topology_rules import AffinityRule, SpreadRule, Term
from dovetail.model.labels import HOSTNAME

Domain = str | int


class Journal:
    """Changes of dictionaries, to be undone in reverse.

    An entry is (table, key, previous value), appended before each write; a mark is the number of entries so far.
    Undoing to a mark restores previous values, newest first, so a key that was written twice gets its oldest value
    back. The cost is that of the changes, whatever the size of the tables.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[dict[Any, Any], Any, Any]] = []

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._entries)

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Write, remembering what was there."""
        self._entries.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def bump(self, table: dict[Any, int], key: Any, by: int) -> None:
        """Count up or down; zero is the same as absent."""
        before = table.get(key, 0)
        self._entries.append((table, key, before or _ABSENT))
        if before + by:
            table[key] = before + by
        else:
            table.pop(key, None)

    def undo(self, mark: int) -> None:
        """Back to the mark."""
        entries = self._entries
        while len(entries) > mark:
            table, key, before = entries.pop()
            if before is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = before

    def settle(self) -> None:
        """What was done so far is the base state from now on."""
        self._entries.clear()


_ABSENT = object()


class TopologyCounts:
    """Counts by domain. `rows` has the domain of each row; it is empty for hostname, where the row is the domain."""

    def __init__(self, key: str, rows: Sequence[str | None]) -> None:
        self.key = key
        self.by_host = key == HOSTNAME
        self.rows = rows
        self.counts: dict[Domain, int] = {}

    def domain(self, row: int) -> Domain | None:
        """The domain of a row."""
        return row if self.by_host else self.rows[row]

    def counts_on(self, row: int) -> bool:  # noqa: ARG002 - overridden where it matters
        """Whether pods on this row count."""
        return True


class AntiAffinityCounts(TopologyCounts):
    """Anti-affinity: selected pods (own terms), or owners of the term (others' terms), by domain."""

    def __init__(self, term: Term, rows: Sequence[str | None]) -> None:
        super().__init__(term.key, rows)
        self.term = term

    def allows(self, domain: Domain | None) -> bool:
        """Whether no counted pod is in a domain; a node without the label is in none."""
        return domain is None or domain not in self.counts


class SpreadCounts(TopologyCounts):
    """Spread: selected pods on eligible nodes, and, for keys other than hostname, the domains that are known."""

    def __init__(
        self, rule: SpreadRule, rows: Sequence[str | None], eligible: Sequence[bool], provided: Iterable[str]
    ) -> None:
        super().__init__(rule.key, rows)
        self.rule = rule
        self.eligible = eligible
        self.provided = frozenset(provided)
        self.choosy = rule.alternatives is not None and all(each.expressions for each in rule.alternatives)
        existing_nodes = Counter(compress(rows, eligible))  # rows are empty for hostname
        self.bins: dict[Domain, int] = {domain: count for domain, count in existing_nodes.items() if domain is not None}

    def counts_on(self, row: int) -> bool:
        """Only pods on eligible nodes count."""
        return self.eligible[row]

    def drop_row(self, row: int, journal: Journal) -> None:
        """The room goes: its domain may no longer be known."""
        if not self.by_host and self.eligible[row] and self.domain(row) is not None:
            journal.bump(self.bins, self.domain(row), -1)

    def full(self, domain: Domain, itself: int) -> bool:
        """Whether a host has as many pods as it may ever have. Only for hostname, where the smallest count is 0."""
        return self.counts.get(domain, 0) + itself > self.rule.max_skew

    def least(self) -> int:
        """The smallest count of a known domain; for hostname a node without any is always possible."""
        if self.by_host:
            return 0
        if self.rule.min_domains and len({*self.bins, *self.provided}) < self.rule.min_domains:
            return 0
        counts = self.counts
        if len(counts) < max(len(self.bins), len(self.provided)):
            return 0  # some known domain has none
        return min([counts.get(domain, 0) for known in (self.bins, self.provided) for domain in known], default=0)


class AffinityCounts:
    """Affinity: pods that match all terms, by the domain of each term's key."""

    def __init__(self, rule: AffinityRule, parts: Sequence[TopologyCounts]) -> None:
        self.rule = rule
        self.parts = tuple(parts)

    @property
    def nobody(self) -> bool:
        """Whether no matching pod counts in any domain."""
        return not any(part.counts for part in self.parts)
