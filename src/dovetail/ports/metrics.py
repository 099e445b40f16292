"""The interface of metrics. Names, labels and help texts are declared in `observe.metric_table`; others are a defect.

No method waits or, in production, raises. Names are Karpenter's where it has them.
"""

from collections.abc import Mapping
from typing import Protocol

Row = tuple[str, ...]
"""The values of all labels of a series, in declared order; or a `LabelText` and the values of the last labels."""


class LabelText(str):
    """Labels in the text format of Prometheus, `a="x",b="y"`: formatted once for an object that has many series."""

    __slots__ = ()


def label_text(labels: Mapping[str, str]) -> LabelText:
    """Format labels. Empty values are left out: to Prometheus an empty label equals a missing one."""
    return LabelText(",".join(f'{name}="{escape(value)}"' for name, value in labels.items() if value))


def escape(value: str) -> str:
    """Escape a label value."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Metrics(Protocol):
    """Counters, durations and gauges."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Add `by` to a counter."""
        ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add a value to a histogram or summary."""
        ...

    def show(self, name: str, rows: Mapping[Row, float], /) -> None:
        """Set all rows of a gauge. Rows of an earlier call are dropped."""
        ...


class NoMetrics:
    """Discards all metrics."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Discard it."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Discard it."""

    def show(self, name: str, rows: Mapping[Row, float], /) -> None:
        """Discard it."""
