"""Prometheus metrics in a private registry, declared in `metric_table`.

An undeclared name or label is a defect: with `strict` it raises an assertion, so that tests find it; otherwise it is
counted and logged once. The number of series is bounded: beyond a metric's `most`, new label combinations of counters
and histograms are merged under the value `other`, and further rows of a gauge are dropped.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from platform import machine, python_version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from dovetail.observe.exposition import gauge_lines, summary_lines
from dovetail.observe.metric_declaration import Metric, MetricKind
from dovetail.observe.metric_table import METRICS
from dovetail.observe.summary import SlidingSummary
from dovetail.ports.metrics import LabelText, Row

OTHER = "other"
_REJECTED = "dovetail_metrics_rejected_total"
_OVERFLOWED = "dovetail_metrics_overflowed_total"

log = logging.getLogger(__name__)
_NAMES = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class _SummaryFamily:
    """The series of one summary, by label values."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.series: dict[Row, SlidingSummary] = {}

    def labels(self, *row: str) -> SlidingSummary:
        """Return the series with these label values."""
        if row not in self.series:
            self.series[row] = SlidingSummary(self._now)
        return self.series[row]


class PrometheusMetrics:
    """Implements `ports.metrics.Metrics`."""

    def __init__(self, *, strict: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        """Declare all metrics. `now` returns seconds: summaries cover the last ten minutes."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series
        self.registry = CollectorRegistry()
        self._strict = strict
        self._now = now
        self._gauges: dict[str, Mapping[Row, float]] = {}  # the rows as they were last shown
        self._summaries: dict[str, _SummaryFamily] = {}
        self._counters: dict[str, Counter] = {}
        self._observed: dict[str, Any] = {}  # histograms and summaries
        self._rows_by_metric: dict[str, set[Row]] = {}
        self._series_by_labels: dict[tuple[object, ...], Any] = {}  # by metric name and labels as passed
        self._logged_metrics: set[str] = set()
        if not strict:  # not in simulations
            ProcessCollector(registry=self.registry)
        for metric in METRICS.values():
            self._declare(metric)
        build = (version("dovetail"), "", _ARCHITECTURES.get(machine(), machine()), "", python_version())
        self.show("karpenter_build_info", {build: 1.0})
        for each in ("multi", "single"):  # alerts on growth need the initial zero
            self.count("karpenter_voluntary_disruption_consolidation_timeouts_total", 0, consolidation_type=each)

    def _declare(self, metric: Metric) -> None:
        if metric.kind is MetricKind.COUNTER:
            self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        elif metric.kind is MetricKind.HISTOGRAM:
            self._observed[metric.name] = Histogram(
                metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets
            )
        elif metric.kind is MetricKind.SUMMARY:
            family = self._summaries[metric.name] = _SummaryFamily(self._now)
            self._observed[metric.name] = family if metric.labels else family.labels()

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Add `by` to a counter."""
        counter = self._series_for(self._counters, name, labels) if by >= 0 else None
        if counter is None:
            self._reject(name, labels)
        else:
            counter.inc(by)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add a value to a histogram or summary."""
        series = self._series_for(self._observed, name, labels)
        if series is None:
            self._reject(name, labels)
        else:
            series.observe(seconds)

    def show(self, name: str, rows: Mapping[Row, float], /) -> None:
        """Set all rows of a gauge."""
        metric = METRICS.get(name)
        if metric is None or metric.kind is not MetricKind.GAUGE or not self._fits(metric, rows):
            self._reject(name, {"rows": str(next(iter(rows), ""))})
            return
        if len(rows) > metric.most:
            self._counters[_OVERFLOWED].inc(len(rows) - metric.most)
            rows = dict(sorted(rows.items())[: metric.most])
        self._gauges[name] = rows

    def _fits(self, metric: Metric, rows: Mapping[Row, float]) -> bool:
        """Whether the rows have the declared labels; a `LabelText` is read only if `strict`."""
        number = len(metric.labels)
        if not any(row and type(row[0]) is LabelText for row in rows):
            return all(len(row) == number for row in rows)
        if not self._strict:
            return all(row and len(row) <= number for row in rows)
        return all(set(_NAMES.findall(row[0])) <= set(metric.labels[: number - len(row) + 1]) for row in rows)

    def render(self) -> bytes:
        """Render all metrics in the text format of Prometheus."""
        lines: list[str] = []
        for name, rows in sorted(dict(self._gauges).items()):  # a copy: rendering runs in another thread
            lines.extend(gauge_lines(METRICS[name], rows))
        for name, family in self._summaries.items():
            lines.extend(summary_lines(METRICS[name], dict(family.series)))
        return generate_latest(self.registry) + "".join(lines).encode()

    def _series_for(self, families: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> Any:
        """Return the cached series with these labels; None if the labels differ from the declared ones."""
        asked = (name, *labels.items())
        known = self._series_by_labels.get(asked)
        if known is not None:
            return known
        family = families.get(name)
        row = self._row(name, labels) if family is not None else None
        if family is None or row is None:
            return None
        found = family.labels(*row) if row else family
        if OTHER not in row:
            self._series_by_labels[asked] = found
        return found

    def _row(self, name: str, labels: Mapping[str, str]) -> Row | None:
        """Return the label values in declared order; None if the labels differ from the declared ones."""
        metric = METRICS[name]
        if len(labels) != len(metric.labels) or any(label not in labels for label in metric.labels):
            return None
        row = tuple(str(labels[label]) for label in metric.labels)
        known = self._rows_by_metric.setdefault(name, set())
        if row not in known:
            if len(known) >= metric.most:
                self._counters[_OVERFLOWED].inc()
                return (OTHER,) * len(row)
            known.add(row)
        return row

    def _reject(self, name: str, labels: Mapping[str, str]) -> None:
        declared = METRICS.get(name)
        assert not self._strict, f"metric {name} {dict(labels)} does not match its declaration: {declared}"
        self._counters[_REJECTED].inc()
        if name not in self._logged_metrics and len(self._logged_metrics) < 100:
            self._logged_metrics.add(name)
            log.error("metric does not match its declaration", extra={"metric": name, "labels": sorted(labels)})


class UnseenMetrics(PrometheusMetrics):
    """Metrics that are declared and discarded, for runs without a scrape."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Discard it."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Discard it."""

    def show(self, name: str, rows: Mapping[Row, float], /) -> None:
        """Discard it."""
