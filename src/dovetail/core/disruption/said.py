"""What each method said of each node, kept from pass to pass until it could say something else.

A first refusal, or that there is none, follows from the node, its pool, the catalogue, the gates and the clocks of the
node. As long as these are the very same objects and none of the clocks has run out, it is not asked for again.
"""

from datetime import datetime

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.drift import SETTLING
from dovetail.core.disruption.turning import WAITS
from dovetail.model.refusal import Refusal


class Entry:
    """What was said of one node, from when and until when it holds."""

    __slots__ = ("at", "by_method", "candidate", "catalogue", "gates", "until")

    def __init__(self, candidate: Candidate, catalogue: object, gates: object, at: datetime) -> None:
        self.candidate = candidate
        self.catalogue = catalogue
        self.gates = gates
        self.at = at
        self.until = turns_at(candidate, at)
        self.by_method: dict[str, Refusal | None] = {}

    def holds(self, candidate: Candidate, catalogue: object, gates: object, now: datetime) -> bool:
        """Whether it was said of the same things, and no clock has run out since."""
        mine = self.candidate
        same = mine is candidate or (
            mine.node is candidate.node
            and mine.pool is candidate.pool
            and mine.instance_type is candidate.instance_type
        )
        return (
            same
            and self.catalogue is catalogue
            and (self.gates is gates or self.gates == gates)
            and self.at <= now
            and (self.until is None or now < self.until)
        )


class Said:
    """Every node met so far, by name."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def entry(self, candidate: Candidate, catalogue: object, gates: object, now: datetime) -> Entry:
        """What was said of a candidate and still holds; empty if nothing does."""
        known = self._entries.get(candidate.name)
        if known is None or not known.holds(candidate, catalogue, gates, now):
            known = self._entries[candidate.name] = Entry(candidate, catalogue, gates, now)
        return known

    def shrink(self, nodes: int) -> None:
        """Nodes come and go: when there are far more than there can be, begin anew."""
        if len(self._entries) > 2 * nodes:
            self._entries.clear()


def turns_at(candidate: Candidate, now: datetime) -> datetime | None:
    """When a method may say something else of a candidate that has not changed; None if never."""
    instants = [until for wait in WAITS if (until := wait(candidate.pool, candidate.claim, now).until) is not None]
    created_at = candidate.claim.metadata.creation_timestamp
    if created_at is not None and now - created_at <= SETTLING:
        instants.append(created_at + SETTLING)
    return min(instants, default=None)
