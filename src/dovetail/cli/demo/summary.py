"""What a run came to, as a value and in words. Virtual time only: real time differs from run to run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dovetail.cli.view.printing import counted
from dovetail.model.duration import Duration
from dovetail.sim.scenario.meter import Meter

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
    meter: Meter

    @property
    def lived(self) -> str:
        """Virtual time, in whole seconds."""
        return str(Duration.of(timedelta(seconds=int(self.seconds))))

    @property
    def spent(self) -> float:
        """Dollars."""
        return self.meter.spent(self.seconds)

    @property
    def hourly(self) -> float:
        """Dollars an hour, on average."""
        return self.spent / (self.seconds / 3600) if self.seconds else 0.0

    def as_data(self) -> dict[str, Any]:
        """For scripts."""
        meter = self.meter
        waits = {name: round(seconds, 3) for name, seconds in _waits(meter.waits)}
        return {
            "seed": self.seed,
            "catalog": self.catalog,
            "virtualSeconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "nodes": {
                "launched": meter.launched,
                "removed": meter.removed,
                "peak": meter.most_nodes,
                "atEnd": len(meter.running),
            },
            "pods": {"started": len(meter.waits), "pending": len(meter.pending_since), "pendingSeconds": waits},
            "cost": {
                "total": round(self.spent, 4),
                "averagePerHour": round(self.hourly, 4),
                "perHourAtEnd": round(meter.hourly, 4),
            },
            "apiCalls": meter.calls,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """For people: what, and how much."""
        meter = self.meter
        yield "virtual time", f"{self.lived}{', then interrupted' if self.interrupted else ''} (seed {self.seed})"
        left = len(meter.running)
        yield (
            "nodes",
            f"{meter.launched} launched, {meter.removed} removed, {meter.most_nodes} at most, {left} at the end",
        )
        pending = f", {counted(len(meter.pending_since), 'pod')} still pending" if len(meter.pending_since) else ""
        yield "pods", f"{counted(len(meter.waits), 'pod')} started{pending}"
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in _waits(meter.waits))
        yield "pending time", told or "none"
        yield (
            "cost",
            f"${self.spent:.2f} in all, ${self.hourly:.2f}/h on average, ${meter.hourly:.2f}/h at the end",
        )
        yield "API calls", f"{meter.calls:,}"


def _waits(waits: Sequence[float]) -> Iterator[tuple[str, float]]:
    ordered = sorted(waits)
    if ordered:
        yield "p50", _percentile(ordered, 50)
        yield "p95", _percentile(ordered, 95)
        yield "max", ordered[-1]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """By nearest rank: a wait that some pod really had."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
