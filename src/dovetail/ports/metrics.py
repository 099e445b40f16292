"""Where figures go. A metric's name, labels and help are declared once, by the implementation; an unknown one is a bug.

Nothing here raises or waits at run time. Names are Karpenter's where it has one.
"""

from collections.abc import Mapping
from typing import Protocol


class Metrics(Protocol):
    """Counters, durations and gauges."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Something happened, `by` times."""
        ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Something took this long, or measured this much."""
        ...

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """The whole of a gauge: a value for each tuple of label values, in declared order. Others are forgotten."""
        ...


class NoMetrics:
    """Figures nobody asked for."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Discard it."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Discard it."""

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Discard it."""
