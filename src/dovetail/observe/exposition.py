"""Writes gauges and summaries in the text format of Prometheus.

Gauges about nodes, pods and conditions have tens of thousands of series, which the Prometheus client takes a second to
write. Their rows start with a `LabelText`, which was formatted once for the object, so a line is a concatenation.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from dovetail.observe.metric_declaration import Metric
from dovetail.observe.summary import SlidingSummary
from dovetail.ports.metrics import LabelText, Row, escape


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"


def _header(metric: Metric) -> str:
    about = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {metric.name} {about}\n# TYPE {metric.name} {metric.kind}\n"


def gauge_lines(metric: Metric, rows: Mapping[Row, float]) -> Iterator[str]:
    """Yield the lines of a gauge. A row is the values of all labels, or a `LabelText` and those of the last labels."""
    yield _header(metric)
    suffixes: dict[Row, str] = {}
    for row, value in rows.items():
        if row and type(row[0]) is LabelText:
            rest = row[1:]
            suffix = suffixes.get(rest)
            if suffix is None:
                suffix = suffixes[rest] = "".join(
                    f",{pair}" for pair in _pairs(metric.labels[len(metric.labels) - len(rest) :], rest)
                )
            yield f"{metric.name}{{{row[0] + suffix if row[0] else suffix[1:]}}} {_number(value)}\n"
        else:
            yield f"{metric.name}{_braced(metric.labels, row)} {_number(value)}\n"


def _braced(names: Iterable[str], values: Row) -> str:
    return f"{{{','.join(_pairs(names, values))}}}" if values else ""


def _pairs(names: Iterable[str], values: Row) -> Iterator[str]:
    return (f'{name}="{escape(value)}"' for name, value in zip(names, values, strict=True))


def summary_lines(metric: Metric, series: Mapping[Row, SlidingSummary]) -> Iterator[str]:
    """Yield the lines of a summary: its quantiles, sum and count."""
    yield _header(metric)
    for row, summary in series.items():
        labels = _braced(metric.labels, row)
        for rank, value in summary.quantiles().items():
            quantile = _braced((*metric.labels, "quantile"), (*row, f"{rank:g}"))
            yield f"{metric.name}{quantile} {_number(value)}\n"
        yield f"{metric.name}_sum{labels} {_number(summary.sum)}\n"
        yield f"{metric.name}_count{labels} {_number(float(summary.count))}\n"
