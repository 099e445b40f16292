"""The declaration of one metric, with Karpenter's histogram buckets."""

from dataclasses import dataclass
from enum import StrEnum

# fmt: off
DURATIONS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75,
    2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0, 150.0,
    300.0, 450.0, 600.0,
)
# fmt: on
UP_TO_A_MINUTE = tuple(each for each in DURATIONS if each <= 60)
PROMETHEUS_DEFAULT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
POWERS_OF_TWO = tuple(float(2**power) for power in range(12))  # 1 s to 34 min
CONDITION_DURATIONS = (0.5, *(float(2**power) for power in range(14)))
LIFETIMES = (
    *(60.0 * minutes for minutes in (15, 30, 45)),
    *(3600.0 * hours for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(86400.0 * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
SCORES = (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0)
# fmt: off
BATCH_SIZES = (
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0, 150.0, 175.0,
    200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0,
)
# fmt: on
QUEUE_DURATIONS = tuple(10.0**power for power in range(-8, 4))
REQUEST_DURATIONS = tuple(0.001 * 1.5**power for power in range(20))
RETRIES = tuple(map(float, range(11)))


class MetricKind(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric. `most` is the maximum number of series before further ones are merged or dropped."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    most: int = 1000


def counter(name: str, labels: str, about: str) -> Metric:
    """Declare a counter with these labels, separated by blanks."""
    return Metric(name, MetricKind.COUNTER, tuple(labels.split()), about)


def gauge(name: str, labels: str, about: str, most: int = 1000) -> Metric:
    """Declare a gauge with these labels, separated by blanks."""
    return Metric(name, MetricKind.GAUGE, tuple(labels.split()), about, most=most)


def histogram(name: str, labels: str, about: str, buckets: tuple[float, ...] = DURATIONS) -> Metric:
    """Declare a histogram with these labels, separated by blanks."""
    return Metric(name, MetricKind.HISTOGRAM, tuple(labels.split()), about, buckets, most=200)


def summary(name: str, labels: str, about: str) -> Metric:
    """Declare a summary with these labels, separated by blanks."""
    return Metric(name, MetricKind.SUMMARY, tuple(labels.split()), about, most=200)
