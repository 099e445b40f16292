"""The controller process as a story knows it: what runs, what it costs, and the clock of the machine it runs on.

What runs is handed in, so that this package knows no provider.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster
from dovetail.runtime.write_gate import WriteGate

Offering = tuple[str, str, str]
"""Instance type, zone and capacity type."""


class ControllerProcess(Protocol):
    """The controllers over one connection."""

    @property
    def gate(self) -> WriteGate:
        """What all its writes pass."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...

    @property
    def prices(self) -> Mapping[Offering, float]:
        """What everything costs an hour."""
        ...


class StartController(Protocol):
    """Starts the controllers over a connection."""

    def __call__(self, cluster: Cluster, clock: Clock, *, dry_run: bool = False) -> ControllerProcess:
        """The process; one in a dry run must write nothing."""
        ...


class WrongClock:
    """The machine's clock of the controllers, which may be off."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.off_by = timedelta()
        self._right_at = clock.now() - timedelta(days=1)
        self._was_off_by = timedelta()

    def now(self) -> datetime:
        """What the controllers take for now."""
        return self._clock.now() + self.off_by

    def jump(self, off_by: timedelta) -> None:
        """The clock is wrong, or right again, from now on."""
        if self.off_by:
            self._right_at, self._was_off_by = self._clock.now(), self.off_by
        self.off_by = off_by

    @property
    def right_since(self) -> datetime:
        """Since when it has been right; now if it is not."""
        return self._clock.now() if self.off_by else self._right_at

    def recent(self, seconds: float) -> tuple[timedelta, ...]:
        """By how much the clock is, or was within the last seconds, off; being right comes first."""
        lately = self._clock.now() - self._right_at <= timedelta(seconds=seconds)
        return tuple(dict.fromkeys((timedelta(), self.off_by, *((self._was_off_by,) if lately else ()))))
