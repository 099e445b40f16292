"""Prometheus metrics in a private registry, declared in `metric_table`.

An undeclared name or label is a defect: with `strict` it raises an assertion, so that tests find it; otherwise it is
counted and logged once. The number of series is bounded: beyond a metric's `most`, new label combinations of counters
and histograms are merged under the value `other`, and further rows of a gauge are dropped.
"""

import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from platform import python_version
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from dovetail.observe.metric_table import METRICS, Metric, MetricKind

OTHER = "other"
_REJECTED = "dovetail_metrics_rejected_total"
_OVERFLOWED = "dovetail_metrics_overflowed_total"

log = logging.getLogger(__name__)
Row = tuple[str, ...]


class _Gauges(Collector):
    """The gauges as they were last set."""

    def __init__(self) -> None:
        self.shown: dict[str, Mapping[Row, float]] = {}

    def collect(self) -> Iterable[Family]:
        for name, rows in sorted(dict(self.shown).items()):  # a copy: rendering runs in another thread
            family = GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
            for row, value in rows.items():
                family.add_metric(row, value)
            yield family


F = TypeVar("F", Counter, Histogram)


class PrometheusMetrics:
    """Implements `ports.metrics.Metrics`."""

    def __init__(self, *, strict: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series
        self.registry = CollectorRegistry()
        self._strict = strict
        self._gauges = _Gauges()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._rows_by_metric: dict[str, set[Row]] = {}
        self._series_by_labels: dict[tuple[object, ...], Any] = {}  # by metric name and labels as passed
        self._logged_metrics: set[str] = set()
        self.registry.register(self._gauges)
        for metric in METRICS.values():
            self._declare(metric)
        self.show("karpenter_build_info", {(version("dovetail"), python_version()): 1.0})
        for each in ("multi", "single"):  # alerts on growth need the initial zero
            self.count("karpenter_voluntary_disruption_consolidation_timeouts_total", 0, consolidation_type=each)

    def _declare(self, metric: Metric) -> None:
        if metric.kind is MetricKind.COUNTER:
            self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        elif metric.kind is MetricKind.HISTOGRAM:
            self._histograms[metric.name] = Histogram(
                metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets
            )

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Add `by` to a counter."""
        counter = self._series_for(self._counters, name, labels) if by >= 0 else None
        if counter is None:
            self._reject(name, labels)
        else:
            counter.inc(by)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add a value to a histogram."""
        histogram = self._series_for(self._histograms, name, labels)
        if histogram is None:
            self._reject(name, labels)
        else:
            histogram.observe(seconds)

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Set all rows of a gauge."""
        metric = METRICS.get(name)
        if metric is None or metric.kind is not MetricKind.GAUGE or any(len(row) != len(metric.labels) for row in rows):
            self._reject(name, {"rows": str(next(iter(rows), ""))})
            return
        kept = dict(sorted(rows.items())[: metric.most])
        if len(kept) < len(rows):
            self._counters[_OVERFLOWED].inc(len(rows) - len(kept))
        self._gauges.shown[name] = kept

    def render(self) -> bytes:
        """Render all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _series_for(self, families: Mapping[str, F], name: str, labels: Mapping[str, str]) -> F | None:
        """Return the cached series with these labels; None if the labels differ from the declared ones."""
        asked = (name, *labels.items())
        known: F | None = self._series_by_labels.get(asked)
        if known is not None:
            return known
        family = families.get(name)
        row = self._row(name, labels) if family is not None else None
        if family is None or row is None:
            return None
        found: F = family.labels(*row) if row else family
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

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Discard it."""
