"""When pods that need a node were first seen, and when a simulation first considered them and found a place.

Kept in memory only, as in Karpenter: a new process starts all clocks again. A pod is forgotten when it runs or is gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True)
class PodClock:
    """The instants of one pod."""

    name: str
    namespace: str
    seen_at: datetime
    decided: bool = False  # a simulation considered it
    schedulable_at: datetime | None = None  # a simulation first found a place for it
    bound: bool = False


class PodClocks:
    """Clocks of pods that were pending without a node, by uid."""

    def __init__(self) -> None:
        self._clocks: dict[str, PodClock] = {}

    def __len__(self) -> int:
        return len(self._clocks)

    def __iter__(self) -> Iterator[PodClock]:
        return iter(self._clocks.values())

    def get(self, uid: str) -> PodClock | None:
        """Return the clock of a pod."""
        return self._clocks.get(uid)

    def start(self, uid: str, clock: PodClock) -> None:
        """Start the clock of a pod, unless it runs."""
        self._clocks.setdefault(uid, clock)

    def forget(self, uid: str) -> None:
        """Drop a pod that runs or is gone."""
        self._clocks.pop(uid, None)

    def decide(self, uid: str, now: datetime, *, schedulable: bool) -> float | None:
        """Record the result of a simulation; return the seconds since the pod was seen if it is the first one."""
        clock = self._clocks.get(uid)
        if clock is None:
            return None
        if schedulable and clock.schedulable_at is None:
            clock.schedulable_at = now
        if clock.decided:
            return None
        clock.decided = True
        return max(0.0, (now - clock.seen_at).total_seconds())
