"""The controller process of a trial: a protocol for the controllers, their start function, and their adjustable clock.

The caller of `runner.run_trial` passes the function that starts the controllers, so this package depends on no cloud
provider.
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
    """The controllers of one process, connected to one cluster."""

    @property
    def gate(self) -> WriteGate:
        """The gate that every write of the process passes."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    async def aclose(self) -> None:
        """Release connections and other resources."""
        ...

    @property
    def prices(self) -> Mapping[Offering, float]:
        """The hourly price of every offering."""
        ...


class StartController(Protocol):
    """Starts the controllers on a connection to the cluster."""

    def __call__(self, cluster: Cluster, clock: Clock, *, dry_run: bool = False) -> ControllerProcess:
        """Return the process. A process in dry run must not write."""
        ...


class SkewedClock:
    """The wall clock of the controllers: the simulated time plus an adjustable offset."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = timedelta()
        self._corrected_at = clock.now() - timedelta(days=1)
        self._last_offset = timedelta()

    def now(self) -> datetime:
        """The time that the controllers read."""
        return self._clock.now() + self.offset

    def set_offset(self, offset: timedelta) -> None:
        """Skew the clock by `offset` from now on; zero corrects it."""
        if self.offset:
            self._corrected_at, self._last_offset = self._clock.now(), self.offset
        self.offset = offset

    @property
    def correct_since(self) -> datetime:
        """Since when the clock has been correct; the current time while it is skewed."""
        return self._clock.now() if self.offset else self._corrected_at

    def recent_offsets(self, seconds: float) -> tuple[timedelta, ...]:
        """Zero, the current offset, and the previous offset if it ended within the last `seconds`; no duplicates."""
        ended_recently = self._clock.now() - self._corrected_at <= timedelta(seconds=seconds)
        return tuple(dict.fromkeys((timedelta(), self.offset, *((self._last_offset,) if ended_recently else ()))))
