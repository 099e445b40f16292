"""What a run came to, as a value and in words. Virtual time only: real time differs from run to run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dovetail.cli.story.names import counted
from dovetail.cli.story.tally import DemoTally
from dovetail.model.duration import Duration

NEXT_STEPS = (
    ("dovetail validate FILE", "check your own NodePools; needs no cluster"),
    ("dovetail demo -f FILE", "live through this story with them"),
    ("dovetail plan", "say what would be taken from a cluster, and why not more"),
    ("dovetail crds", "print the custom resources for a cluster"),
    ("dovetail run", "run these same controllers on it"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run."""

    seed: int
    catalog: str
    seconds: float
    interrupted: bool
    tally: DemoTally

    @property
    def lived(self) -> str:
        """Virtual time, in whole seconds."""
        return str(Duration.of(timedelta(seconds=int(self.seconds))))

    @property
    def spent(self) -> float:
        """Dollars."""
        return self.tally.spent(self.seconds)

    @property
    def hourly(self) -> float:
        """Dollars an hour, on average."""
        return self.spent / (self.seconds / 3600) if self.seconds else 0.0

    def as_data(self) -> dict[str, Any]:
        """For scripts."""
        tally = self.tally
        waits = {name: round(seconds, 3) for name, seconds in _waits(tally.waits)}
        return {
            "seed": self.seed,
            "catalog": self.catalog,
            "virtualSeconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "nodes": {
                "launched": tally.launched,
                "removed": tally.removed,
                "peak": tally.peak,
                "atEnd": len(tally.running),
            },
            "pods": {"started": len(tally.waits), "pending": tally.pending, "pendingSeconds": waits},
            "cost": {
                "total": round(self.spent, 4),
                "averagePerHour": round(self.hourly, 4),
                "perHourAtEnd": round(tally.hourly, 4),
            },
            "apiCalls": tally.calls,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """For people: what, and how much."""
        tally = self.tally
        yield "virtual time", f"{self.lived}{', then interrupted' if self.interrupted else ''} (seed {self.seed})"
        left = len(tally.running)
        yield "nodes", f"{tally.launched} launched, {tally.removed} removed, {tally.peak} at most, {left} at the end"
        pending = f", {counted(tally.pending, 'pod')} still pending" if tally.pending else ""
        yield "pods", f"{counted(len(tally.waits), 'pod')} started{pending}"
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in _waits(tally.waits))
        yield "pending time", told or "none"
        yield (
            "cost",
            f"${self.spent:.2f} in all, ${self.hourly:.2f}/h on average, ${tally.hourly:.2f}/h at the end",
        )
        yield "API calls", f"{tally.calls:,}"


def _waits(waits: Sequence[float]) -> Iterator[tuple[str, float]]:
    ordered = sorted(waits)
    if ordered:
        yield "p50", _percentile(ordered, 50)
        yield "p95", _percentile(ordered, 95)
        yield "max", ordered[-1]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """By nearest rank: a wait that some pod really had."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
