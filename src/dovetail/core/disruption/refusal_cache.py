"""What each method said of each node, kept from pass to pass until it could say something else.

A first refusal, or that there is none, follows from the node, its pool, the catalogue, the gates and the clocks of the
node. As long as these are the very same objects and none of the clocks has run out, it is not asked for again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.drift import SETTLING
from dovetail.core.disruption.next_wakeup import WAITS
from dovetail.model.instants import add
from dovetail.model.refusal import Refusal


@dataclass(frozen=True, slots=True)
class RefusalInputs:
    """What else a refusal follows from."""

    catalogs: Mapping[str, object]
    gates: object
    now: datetime


class CachedRefusal:
    """What was said of one node, from when and until when it holds."""

    __slots__ = ("at", "by_method", "candidate", "catalogue", "gates", "until")

    def __init__(self, candidate: Candidate, terms: RefusalInputs) -> None:
        self.candidate = candidate
        self.catalogue = terms.catalogs.get(candidate.pool.name)
        self.gates = terms.gates
        self.at = terms.now
        self.until = turns_at(candidate, terms.now)
        self.by_method: dict[str, Refusal | None] = {}

    def holds(self, candidate: Candidate, terms: RefusalInputs) -> bool:
        """Whether it was said of the same things, and no clock has run out since."""
        mine = self.candidate
        if mine is not candidate and (
            mine.node is not candidate.node
            or mine.pool is not candidate.pool
            or mine.instance_type is not candidate.instance_type
        ):
            return False
        return (
            self.catalogue is terms.catalogs.get(mine.pool.name)
            and (self.gates is terms.gates or self.gates == terms.gates)
            and self.at <= terms.now
            and (self.until is None or terms.now < self.until)
        )


class RefusalCache:
    """Every node met so far, by name."""

    def __init__(self) -> None:
        self._entries: dict[str, CachedRefusal] = {}

    def of(self, candidates: Iterable[Candidate], terms: RefusalInputs) -> list[dict[str, Refusal | None]]:
        """What was said of each candidate, by method, and still holds; empty where nothing does."""
        entries, found = self._entries, []
        for candidate in candidates:
            name = candidate.name
            known = entries.get(name)
            if known is None or not known.holds(candidate, terms):
                known = entries[name] = CachedRefusal(candidate, terms)
            found.append(known.by_method)
        return found

    def shrink(self, nodes: int) -> None:
        """Nodes come and go: when there are far more than there can be, begin anew."""
        if len(self._entries) > 2 * nodes:
            self._entries.clear()


def turns_at(candidate: Candidate, now: datetime) -> datetime | None:
    """When a method may say something else of a candidate that has not changed; None if never."""
    instants = [until for wait in WAITS if (until := wait(candidate.pool, candidate.claim, now).until) is not None]
    created_at = candidate.claim.metadata.creation_timestamp
    if created_at is not None and now - created_at <= SETTLING:
        instants.append(add(created_at, SETTLING))
    return min(instants, default=None)
