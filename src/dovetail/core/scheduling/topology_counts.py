"""Topology counts: for one rule, how many selected pods each domain has; and the journal that undoes changes.

A domain is a label value, or for hostname the number of a row or draft. A count of zero is not stored, so "a pod is
in this domain" is `domain in counts`, and equal states are equal dictionaries.

Hostname spread keeps no counts: `HostPods` has the pods of each host, and `HostSpreadCounts` looks through those of one
host when a pod may go there. A node has few pods, while there may be a rule for each workload.

For spread, `nodes_by_domain` has the number of eligible nodes of each domain: a domain is known while a node has it or
a NodePool could provide it (`provided`). The smallest count is over known domains. For hostname it is always 0, since
a new node can always be launched (`docs/decisions/0018-hostname-spread-minimum-is-zero.md`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from dovetail.core.scheduling.pod_shapes import PodConstraints
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
        """The current length of the journal, for `undo`."""
        return len(self._entries)

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Write a value and record the previous one."""
        self._entries.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def bump(self, table: dict[Any, int], key: Any, by: int) -> None:
        """Count up or down; a count of zero is removed."""
        before = table.get(key, 0)
        self._entries.append((table, key, before or _ABSENT))
        if before + by:
            table[key] = before + by
        else:
            table.pop(key, None)

    def written(self, table: dict[Any, Any], mark: int) -> tuple[Any, ...]:
        """The keys of a table that were written since the mark."""
        return tuple({key for each, key, _ in self._entries[mark:] if each is table})

    def undo(self, mark: int) -> None:
        """Restore the state at the mark."""
        entries = self._entries
        while len(entries) > mark:
            table, key, before = entries.pop()
            if before is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = before

    def commit(self) -> None:
        """Make all changes permanent: they can no longer be undone."""
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
    """Anti-affinity: by domain, the pods that a term selects, or for others' anti-affinity the pods that own it."""

    def __init__(self, term: Term, rows: Sequence[str | None]) -> None:
        super().__init__(term.key, rows)
        self.term = term

    def allows(self, domain: Domain | None) -> bool:
        """Whether no counted pod is in a domain; a node without the label is in no domain."""
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
        self.restricts_nodes = rule.alternatives is not None and all(each.expressions for each in rule.alternatives)
        domains: Iterable[Domain] = (domain for domain in compress(rows, eligible) if domain is not None)
        self.nodes_by_domain: dict[Domain, int] = dict(Counter(domains))  # empty for hostname, which has no rows

    def counts_on(self, row: int) -> bool:
        """Only pods on eligible nodes count."""
        return self.eligible[row]

    def drop_row(self, row: int, journal: Journal) -> None:
        """Remove a node; its domain is no longer known if no other node has it."""
        if not self.by_host and self.eligible[row] and self.domain(row) is not None:
            journal.bump(self.nodes_by_domain, self.domain(row), -1)

    def count(self, domain: Domain) -> int:
        """The selected pods in a domain."""
        return self.counts.get(domain, 0)

    def smallest_count(self) -> int:
        """The smallest count of a known domain."""
        if self.rule.min_domains and len({*self.nodes_by_domain, *self.provided}) < self.rule.min_domains:
            return 0
        counts = self.counts
        if len(counts) < max(len(self.nodes_by_domain), len(self.provided)):
            return 0  # some known domain has no pod
        return min(
            [counts.get(domain, 0) for known in (self.nodes_by_domain, self.provided) for domain in known], default=0
        )


class HostPods:
    """The pods of each host, as their constraints, by number; empty unless some rule spreads pods over hosts.

    `draft_is_eligible` answers for the number of a draft; `SolverState` sets it.
    """

    def __init__(self) -> None:
        self.in_use = False
        self.pods: dict[int, tuple[PodConstraints, ...]] = {}
        self.draft_is_eligible: Callable[[SpreadCounts, int], bool] = lambda _, __: True


class HostSpreadCounts(SpreadCounts):
    """Spread over hosts. `selected` are the constraints of pods that the rule selects."""

    def __init__(self, rule: SpreadRule, eligible: Sequence[bool], hosts: HostPods) -> None:
        super().__init__(rule, (), eligible, ())
        self.selected: set[PodConstraints] = set()
        self._hosts = hosts

    def count(self, domain: Domain) -> int:
        """The selected pods on a host; 0 where its pods do not count."""
        assert isinstance(domain, int), "hosts are numbers"
        number = sum(map(self.selected.__contains__, self._hosts.pods.get(domain, ())))
        if not number:
            return 0
        is_row = domain < len(self.eligible)
        return number if (self.eligible[domain] if is_row else self._hosts.draft_is_eligible(self, domain)) else 0

    def exceeds_skew(self, host: int, self_match: int) -> bool:
        """Whether one more pod on a host would exceed `maxSkew`."""
        return self.count(host) + self_match > self.rule.max_skew

    def smallest_count(self) -> int:
        """Always 0, since an empty node can always be launched."""
        return 0


class AffinityCounts:
    """Affinity: the pods that match all terms, counted by domain for each topology key (`parts`)."""

    def __init__(self, rule: AffinityRule, parts: Sequence[TopologyCounts]) -> None:
        self.rule = rule
        self.parts = tuple(parts)

    @property
    def is_empty(self) -> bool:
        """Whether no matching pod counts in any domain."""
        return not any(part.counts for part in self.parts)
