"""What the cluster cost per hour since this process started, by NodePool, in bounded memory.

`CostHistory` takes a sample of the prices of all nodes every few seconds. A sample holds until the next one, at most
for `HOLD` seconds: a longer silence, or a time in which the cluster was not read, is a gap. No cost is ever assumed.

The samples are added up in buckets of three lengths (`TIERS`). Each tier keeps a fixed number of buckets: the recent
past is known by the minute and two months by the hour, in at most 2,232 buckets. A bucket has the dollars spent and
the seconds in which they are known, so a bucket that is known in part has the right rate. Nodes whose price is not
known are counted, and cost nothing in the sums.

The history is in memory only: after a restart it starts again, and says so with `known_since`.
"""

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dovetail.dashboard.nodes import stamp
from dovetail.model.snapshot import Snapshot

Plain = dict[str, Any]
SAMPLE_SECONDS = 15.0
HOLD = 300.0  # seconds for which a sample holds without another
TIERS = ((60, 360), (600, 432), (3600, 1440))  # seconds of a bucket, and how many are kept: 6 hours, 3 days, 60 days
HOUR = 3600.0
LONGEST = TIERS[-1][0] * TIERS[-1][1]
MOST_SERIES = 6  # NodePools by name; the others are added up
OTHERS = "other NodePools"


@dataclass(frozen=True, slots=True)
class CostSample:
    """Dollars per hour of each NodePool at one instant, and how many nodes have no known price."""

    at: float
    rates: dict[str, float]
    unpriced: int


@dataclass(slots=True)
class _Bucket:
    """What was spent in a bucket: dollars by NodePool, in so many seconds."""

    start: float
    seconds: float = 0.0
    dollars: dict[str, float] = field(default_factory=dict)
    unpriced: int = 0  # the most nodes without a price at once


class _Tier:
    """The newest buckets of one length, oldest first. Buckets without a sample do not exist."""

    def __init__(self, step: int, most: int) -> None:
        self.step = step
        self.reach = step * most
        self.buckets: deque[_Bucket] = deque(maxlen=most)

    def add(self, sample: CostSample, until: float) -> None:
        """Spend at the rates of a sample, from its instant until another."""
        since = sample.at
        while since < until:
            start = since // self.step * self.step
            edge = min(until, start + self.step)
            if not self.buckets or self.buckets[-1].start != start:
                self.buckets.append(_Bucket(start))
            bucket = self.buckets[-1]
            bucket.seconds += edge - since
            bucket.unpriced = max(bucket.unpriced, sample.unpriced)
            for pool, rate in sample.rates.items():
                bucket.dollars[pool] = bucket.dollars.get(pool, 0.0) + rate * (edge - since) / HOUR
            since = edge


class CostHistory:
    """Records costs; callable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tiers = tuple(_Tier(step, most) for step, most in TIERS)
        self._last: CostSample | None = None
        self._latest_at = float("-inf")
        self._known_since: float | None = None

    def record(self, snapshot: Snapshot) -> None:
        """Take a sample, unless the last one is younger than `SAMPLE_SECONDS`."""
        at = snapshot.at.timestamp()
        if at - self._latest_at < SAMPLE_SECONDS:
            return
        sample = sample_of(snapshot)
        with self._lock:
            self._extend(at)
            self._last, self._latest_at = sample, at
            if self._known_since is None:
                self._known_since = at

    def interrupt(self) -> None:
        """Note that the cluster is not read any more: nothing is known until the next sample."""
        with self._lock:
            self._last = None

    def _extend(self, at: float) -> None:
        if self._last is not None:
            until = min(at, self._last.at + HOLD)
            for tier in self._tiers:
                tier.add(self._last, until)

    def document(self, since: datetime | None, until: datetime) -> Plain:
        """The costs of a window, at equal steps; null where nothing is known. `since` None: all that is known.

        A bucket that began before the window is left out, so `dollars` are never more than were spent in it.
        """
        now = until.timestamp()
        with self._lock:
            known = self._known_since if self._known_since is None else max(self._known_since, now - LONGEST)
            first = since.timestamp() if since is not None else now if known is None else known
            tier = next((each for each in self._tiers if now - first <= each.reach), self._tiers[-1])
            # Nothing is known before `known`, so a bucket that began before it has no cost of that time.
            least = first if known is None or first > known else known - tier.step
            found = [each for each in tier.buckets if least <= each.start < now]
            columns = _columns([*_dense(found, tier.step)])
        return {
            "since": stamp(since) if since is not None else _stamp(first),
            "until": stamp(until),
            "knownSince": None if known is None else _stamp(known),
            "stepSeconds": tier.step,
            "firstAt": _stamp(found[0].start) if found else None,
            **columns,
        }


def sample_of(snapshot: Snapshot) -> CostSample:
    """The costs of the managed nodes of a snapshot. An instance that is not launched yet costs nothing."""
    rates: dict[str, float] = {}
    unpriced = 0
    for node in snapshot.nodes:
        if node.managed and node.launched:
            price = snapshot.price_of(node)
            unpriced += price is None
            rates[node.nodepool_name] = rates.get(node.nodepool_name, 0.0) + (price or 0.0)
    return CostSample(snapshot.at.timestamp(), rates, unpriced)


def _dense(buckets: list[_Bucket], step: int) -> Iterator[_Bucket | None]:
    """All buckets from the first to the last; None where there is a gap."""
    for number, bucket in enumerate(buckets):
        if number:
            yield from [None] * (round((bucket.start - buckets[number - 1].start) / step) - 1)
        yield bucket


def _columns(buckets: list[_Bucket | None]) -> Plain:
    known = [each for each in buckets if each is not None]
    totals: dict[str, float] = {}
    for bucket in known:
        for pool, dollars in bucket.dollars.items():
            totals[pool] = totals.get(pool, 0.0) + dollars
    order = sorted(totals, key=lambda pool: (-totals[pool], pool))
    named = order if len(order) <= MOST_SERIES else order[: MOST_SERIES - 1]
    groups: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in named]
    if len(named) < len(order):
        groups.append((OTHERS, tuple(order[len(named) :])))
    return {
        "dollars": round(sum(totals.values()), 4),
        "knownSeconds": round(sum(each.seconds for each in known)),
        "costPerHour": [_rate(each, tuple(order)) for each in buckets],
        "unpricedNodes": [None if each is None else each.unpriced for each in buckets],
        "nodePools": [
            {"name": name, "costPerHour": [_rate(each, pools) for each in buckets]} for name, pools in groups
        ],
    }


def _rate(bucket: _Bucket | None, pools: tuple[str, ...]) -> float | None:
    if bucket is None:
        return None
    return round(sum(bucket.dollars.get(pool, 0.0) for pool in pools) / bucket.seconds * HOUR, 6)


def _stamp(at: float) -> str | None:
    return stamp(datetime.fromtimestamp(at, UTC))
