"""The interface of metrics. Names, labels and help texts are declared in `observe.metric_table`; others are a defect.

No method waits or, in production, raises. Names are Karpenter's where it has them.
"""

from collections.abc import Mapping
from typing import Protocol


class Metrics(Protocol):
    """Counters, durations and gauges."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Add `by` to a counter."""
        ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add a value to a histogram."""
        ...

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Set all rows of a gauge: values by label values in declared order. Rows of an earlier call are dropped."""
        ...


class NoMetrics:
    """Discards all metrics."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Discard it."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Discard it."""

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Discard it."""
