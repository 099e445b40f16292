"""Offerings that EC2 had none of a moment ago: remembered for three minutes, and not asked for again until then.

What runs short can be one type in one zone bought one way, all spot, or the addresses of one subnet. Nothing of it
needs to outlive the process: forgetting costs one refused request.
"""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import NamedTuple

from dovetail.model.labels import SPOT
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=3)
_ALL_SPOT = ("all", SPOT)


class OfferingKey(NamedTuple):
    """What is bought: a type in a zone, one way."""

    capacity_type: str
    instance_type: str
    zone: str


class UnavailableOfferings:
    """The shortages of the moment. `version` changes whenever they do, time included."""

    def __init__(self, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._until: dict[Hashable, datetime] = {}
        self._version = 0

    def mark(self, sold: OfferingKey) -> None:
        """EC2 had none of this."""
        self._note(sold)

    def mark_all_spot(self) -> None:
        """No spot at all: the account lacks the role for it."""
        self._note(_ALL_SPOT)

    def mark_subnet(self, subnet_id: str) -> None:
        """The subnet has no addresses left."""
        self._note(("subnet", subnet_id))

    def covers(self, sold: OfferingKey) -> bool:
        """Whether this was short a moment ago."""
        return self._is_short(sold) or self._is_short(("all", sold.capacity_type))

    def covers_subnet(self, subnet_id: str) -> bool:
        """Whether the subnet was full a moment ago."""
        return self._is_short(("subnet", subnet_id))

    def may_cover(self, instance_type: str) -> bool:
        """Whether any offering of the type could be short; quick to say no. Reservations count by their own id."""
        return any(
            what.instance_type == instance_type if isinstance(what, OfferingKey) else what == _ALL_SPOT
            for what in self._until
        )

    @property
    def version(self) -> int:
        """A number that is the same only while nothing changed."""
        now = self._clock.now()
        over = [what for what, until in self._until.items() if until <= now]
        for what in over:
            del self._until[what]
        self._version += bool(over)
        return self._version

    def _note(self, what: Hashable) -> None:
        self._until[what] = self._clock.now() + self._lifetime
        self._version += 1

    def _is_short(self, what: Hashable) -> bool:
        until = self._until.get(what)
        return until is not None and self._clock.now() < until
