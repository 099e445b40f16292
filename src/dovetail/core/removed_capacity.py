"""Capacity that a command removed, and what it saves over time: the unit of which `core.savings` adds up savings.

`RemovedCapacity` is what one command removed with one end. It saves `gone - taken` dollars an hour: its price from when
its node is gone, less what was launched in its place. Before each change it records a `SavingPeriod`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

LEAST = 1e-9  # dollars an hour; less is a rounding error
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SavingPeriod:
    """A time in which a command saved the same amount each hour; negative if it cost more."""

    start: datetime
    end: datetime
    rate: float  # dollars per hour

    def dollars(self, since: datetime | None, until: datetime | None) -> float:
        """The dollars saved in the part of the period between the two instants."""
        start = self.start if since is None else max(self.start, since)
        end = self.end if until is None else min(self.end, until)
        return self.rate * ((end - start) / _HOUR) if end > start else 0.0


@dataclass(slots=True, eq=False)
class RemovedCapacity:
    """Capacity that a command removed, in dollars an hour, with one end."""

    kind: tuple[str, str]  # NodePool and capacity type
    since: datetime
    end: datetime
    expires: bool  # its end is an expiration
    capacity: float = 0.0
    gone: float = 0.0  # the capacity, from when its node is gone
    taken: float = 0.0  # what was launched in its place
    in_place: dict[str, float] = field(default_factory=dict)  # what of it is still there, by NodeClaim
    debts: dict[str, float] = field(default_factory=dict)  # the share of it that was not needed, by NodeClaim
    closed: bool = False
    number: int = 0  # in the order in which parts were opened
    periods: list[SavingPeriod] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The dollars an hour that it saves now."""
        return self.gone - self.taken

    @property
    def left(self) -> float:
        """What nothing was launched in place of; a node that is too large stands only for what was needed."""
        return self.capacity - self.taken + sum(self.debts.values())

    @property
    def owed(self) -> float:
        """The debts of nodes that are still in use, not draining."""
        return sum(debt for claim, debt in self.debts.items() if claim in self.in_place)

    def record(self, at: datetime) -> None:
        """Record the period that ends now; call before each change of the rate."""
        if at > self.since and abs(self.rate) > LEAST:
            self.periods.append(SavingPeriod(self.since, at, self.rate))
        self.since = at

    def take(self, claim: str, price: float, at: datetime) -> None:
        """Count capacity that was launched in its place."""
        self.record(at)
        self.taken += price
        self.in_place[claim] = self.in_place.get(claim, 0.0) + price

    def owe(self, claim: str, price: float, at: datetime) -> None:
        """Count capacity that was launched but not needed; a negative price ends a debt."""
        if abs(price) > 0.0:
            self.record(at)
            self.taken += price
            self.debts[claim] = self.debts.get(claim, 0.0) + price
            if claim in self.in_place or price > 0:
                self.in_place[claim] = self.in_place.get(claim, 0.0) + price
            if self.debts[claim] <= LEAST:
                del self.debts[claim]

    def lose(self, lost: float, at: datetime) -> None:
        """Count that without disruption this much of it would have gone now."""
        self.record(at)
        self.capacity -= lost
        self.gone -= lost


def charge(parts: Sequence[RemovedCapacity], claim: str, price: float, at: datetime) -> None:
    """Let a replacement take the place of what its command removed, the capacity with the latest end first.

    If it costs more, the saving is negative.
    """
    latest_first = sorted(parts, key=lambda part: part.end, reverse=True)
    for part in latest_first:
        taken = min(price, part.left)
        if taken > LEAST:
            part.take(claim, taken, at)
            price -= taken
    if price > LEAST:
        latest_first[0].take(claim, price, at)
