"""Figures for Prometheus, in a registry of our own, from one declared table.

A name or a label nobody declared is a bug: `strict` raises, so that tests find it; otherwise it is counted and logged
once, and nothing that matters is disturbed. The number of series is bounded: beyond a metric's `most`, new combinations
of labels are gathered under the value `other`, so no label can fill the memory of whoever scrapes.
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
    """Gauges as they were last shown, whole."""

    def __init__(self) -> None:
        self.shown: dict[str, Mapping[Row, float]] = {}

    def collect(self) -> Iterable[Family]:
        for name, rows in sorted(dict(self.shown).items()):  # scraped in a thread of its own
            family = GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
            for row, value in rows.items():
                family.add_metric(row, value)
            yield family


F = TypeVar("F", Counter, Histogram)


class PrometheusMetrics:
    """Implements `ports.metrics.Metrics`."""

    def __init__(self, *, strict: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each, for nobody
        self.registry = CollectorRegistry()
        self._strict = strict
        self._gauges = _Gauges()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._rows_by_metric: dict[str, set[Row]] = {}
        self._series_by_labels: dict[tuple[object, ...], Any] = {}  # series by name and labels as they were asked for
        self._logged_metrics: set[str] = set()
        self.registry.register(self._gauges)
        for metric in METRICS.values():
            self._declare(metric)
        self.show("karpenter_build_info", {(version("dovetail"), python_version()): 1.0})
        for each in ("multi", "single"):  # an alert needs the zero to see the first one
            self.count("karpenter_voluntary_disruption_consolidation_timeouts_total", 0, consolidation_type=each)

    def _declare(self, metric: Metric) -> None:
        if metric.kind is MetricKind.COUNTER:
            self._counters[metric.name] = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
        elif metric.kind is MetricKind.HISTOGRAM:
            self._histograms[metric.name] = Histogram(
                metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets
            )

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Something happened, `by` times."""
        counter = self._series_for(self._counters, name, labels) if by >= 0 else None
        if counter is None:
            self._reject(name, labels)
        else:
            counter.inc(by)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Something took this long, or measured this much."""
        histogram = self._series_for(self._histograms, name, labels)
        if histogram is None:
            self._reject(name, labels)
        else:
            histogram.observe(seconds)

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """The whole of a gauge."""
        metric = METRICS.get(name)
        if metric is None or metric.kind is not MetricKind.GAUGE or any(len(row) != len(metric.labels) for row in rows):
            self._reject(name, {"rows": str(next(iter(rows), ""))})
            return
        kept = dict(sorted(rows.items())[: metric.most])
        if len(kept) < len(rows):
            self._counters[_OVERFLOWED].inc(len(rows) - len(kept))
        self._gauges.shown[name] = kept

    def render(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _series_for(self, families: Mapping[str, F], name: str, labels: Mapping[str, str]) -> F | None:
        """The one series with these labels, looked for once; None when they are not the declared ones."""
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
        """The label values in declared order, None when they are not the declared ones."""
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
        assert not self._strict, f"metric {name} {dict(labels)} is not declared so; declared is {declared}"
        self._counters[_REJECTED].inc()
        if name not in self._logged_metrics and len(self._logged_metrics) < 100:
            self._logged_metrics.add(name)
            log.error("metric is not declared so", extra={"metric": name, "labels": sorted(labels)})


class UnseenMetrics(PrometheusMetrics):
    """Where nobody will look: everything is declared and nothing is kept."""

    def count(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Forget it."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Forget it."""

    def show(self, name: str, rows: Mapping[tuple[str, ...], float], /) -> None:
        """Forget it."""
