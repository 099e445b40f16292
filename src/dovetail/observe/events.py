"""Writes notices as Kubernetes events in the background, deduplicated and rate-limited.

`EventRecorder.publish` never waits: it drops a notice that was published within the last two minutes, limits noisy
reasons with a token bucket, and puts the rest into the `EventBacklog`. `run` writes one event at a time, so that in a
burst the controllers' own API calls go first. A notice that is published again within 55 minutes raises the count of
its event instead of creating another.

The backlog is bounded (32,768) and has two lanes: warnings are written first, each lane in order. When it is full, a
warning displaces the oldest other notice; anything else is dropped. A thousand nodes that terminate at once, with about
fifteen notices each, fit. All notices that are not written are counted, and drops are logged.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from dovetail.model.cluster_objects import Event, EventSource, ObjectReference
from dovetail.model.kinds import EVENT
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.labels import DECISION
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster, Notice, Patch
from dovetail.ports.errors import NotFound, Throttled, Unavailable, WorldError
from dovetail.ports.metrics import Metrics, NoMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The sustained rate per second, and the burst."""

    per_second: float
    burst: int


class TokenBucket:
    """A token bucket on the given clock. It starts full; a clock that goes back adds no tokens."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._filled_at: datetime | None = None

    def take(self, now: datetime) -> bool:
        """Take a token; return whether there was one."""
        if self._filled_at is not None and now > self._filled_at:
            gained = (now - self._filled_at).total_seconds() * self._rate.per_second
            self._tokens = min(self._tokens + gained, float(self._rate.burst))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


BACKLOG_SIZE = 32768

Queued = tuple[Notice, datetime]


class EventBacklog:
    """A bounded queue with two lanes, for one writer."""

    def __init__(self, size: int = BACKLOG_SIZE) -> None:
        self._size = size
        self._warnings: deque[Queued] = deque()
        self._others: deque[Queued] = deque()
        self._unfinished = 0  # queued or taken, and not yet `done`
        self._not_empty = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._warnings) + len(self._others)

    def put(self, notice: Notice, at: datetime) -> Notice | None:
        """Queue a notice; return the notice that was dropped because the backlog is full, this one or an older one."""
        dropped = None
        if len(self) >= self._size:
            if not (notice.warning and self._others):
                return notice
            dropped, _ = self._others.popleft()
            self.done()
        (self._warnings if notice.warning else self._others).append((notice, at))
        self._unfinished += 1
        self._not_empty.set()
        self._empty.clear()
        return dropped

    async def take(self) -> Queued:
        """Wait for the next notice to write; call `done` afterwards."""
        while not len(self):
            self._not_empty.clear()
            await self._not_empty.wait()
        return (self._warnings or self._others).popleft()

    def done(self) -> None:
        """Mark one notice as written or failed."""
        self._unfinished -= 1
        if not self._unfinished:
            self._empty.set()

    async def join(self) -> None:
        """Wait until every queued notice is written or failed."""
        await self._empty.wait()


COMPONENT = "dovetail"
_MAX_REMEMBERED = 8192  # notices; older ones are forgotten and may be repeated early
_ATTEMPTS = 3
_RETRY_SECONDS = 1.0  # unless the API server sends Retry-After
_LOG_DROPS_EVERY = timedelta(minutes=1)
_EVENT_LIFETIME = timedelta(minutes=55)  # the API server drops an event after an hour

WINDOWS: Mapping[str, timedelta] = {
    "FailedScheduling": timedelta(minutes=5),
    "NoCompatibleInstanceTypes": timedelta(minutes=1),
    "NodeRepairBlocked": timedelta(minutes=15),
}
NOISY: Mapping[str, Rate] = {"Nominated": Rate(per_second=5, burst=10)}

_log = logging.getLogger(__name__)

DedupeKey = tuple[str, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """Deduplication windows, size of the backlog, and rates by reason."""

    window: timedelta = timedelta(minutes=2)
    windows: Mapping[str, timedelta] = field(default_factory=lambda: WINDOWS)  # of reasons with another window
    size: int = BACKLOG_SIZE
    rates: Mapping[str, Rate] = field(default_factory=lambda: NOISY)


@dataclass(slots=True)
class EventCounts:
    """Notices by outcome."""

    written: int = 0
    repeated: int = 0  # published within the window before
    limited: int = 0  # by the rate of its reason
    dropped: int = 0  # the backlog was full
    failed: int = 0  # the API server refused or did not answer


@dataclass(frozen=True, slots=True)
class _WrittenEvent:
    key: Key
    count: int
    first_at: datetime


class EventRecorder:
    """Writes events through a cluster; `run` must run as a task."""

    def __init__(
        self, cluster: Cluster, clock: Clock, limits: EventLimits | None = None, metrics: Metrics | None = None
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limits = limits or EventLimits()
        self._backlog = EventBacklog(self._limits.size)
        self._drop_logged_at: datetime | None = None
        self._buckets = {reason: TokenBucket(rate) for reason, rate in self._limits.rates.items()}
        self._published_at: OrderedDict[DedupeKey, datetime] = OrderedDict()
        self._written: OrderedDict[DedupeKey, _WrittenEvent] = OrderedDict()
        self.counts = EventCounts()
        self._metrics = metrics or NoMetrics()
        self._muted = False

    def mute(self) -> None:
        """Ignore all further notices."""
        self._muted = True

    def publish(self, notice: Notice) -> None:
        """Queue the notice, unless it was published within the window. Never raises, never waits."""
        if self._muted:
            return
        now, key = self._clock.now(), _dedupe_key(notice)
        last_at = self._published_at.get(key)
        window = self._limits.windows.get(notice.reason, self._limits.window)
        if last_at is not None and now - last_at < window:
            self._count("repeated")
            return
        bucket = self._buckets.get(notice.reason)
        if bucket is not None and not bucket.take(now):
            self._count("limited")
            return
        dropped = self._backlog.put(notice, now)
        if dropped is not None:
            self._drop(dropped, now)
        if dropped is not notice:
            _remember(self._published_at, key, now)

    def _drop(self, notice: Notice, now: datetime) -> None:
        """Count a dropped notice, allow it to be published again, and log drops at most once a minute."""
        self._count("dropped")
        self._published_at.pop(_dedupe_key(notice), None)
        if self._drop_logged_at is None or now - self._drop_logged_at >= _LOG_DROPS_EVERY:
            self._drop_logged_at = now
            facts = {"dropped": self.counts.dropped, "reason": notice.reason, "about": notice.about.name}
            _log.warning("events dropped, too many wait to be written", extra=facts)

    def _count(self, outcome: str) -> None:
        setattr(self.counts, outcome, getattr(self.counts, outcome) + 1)
        self._metrics.count("dovetail_events_total", outcome=outcome)

    async def run(self) -> None:
        """Write published notices until cancelled."""
        while True:
            notice, now = await self._backlog.take()
            try:
                await self._write(notice, now)
            finally:
                self._backlog.done()

    async def flush(self) -> None:
        """Wait until every published notice is written or failed."""
        await self._backlog.join()

    async def _write(self, notice: Notice, now: datetime) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._write_event(notice, now)
            except (Throttled, Unavailable) as error:
                if attempt < _ATTEMPTS:
                    await asyncio.sleep(getattr(error, "retry_after", None) or _RETRY_SECONDS)
                    continue
                self._failed(notice, error)
            except WorldError as error:
                self._failed(notice, error)
            except AssertionError:
                raise
            except Exception:  # noqa: BLE001 - one event that cannot be written must not stop the others
                self._count("failed")
                _log.exception("event broke", extra={"reason": notice.reason, "about": notice.about.name})
            else:
                self._count("written")
            return

    def _failed(self, notice: Notice, error: WorldError) -> None:
        self._count("failed")
        _log.debug(
            "event not written", extra={"reason": notice.reason, "about": notice.about.name, "error": str(error)}
        )

    async def _write_event(self, notice: Notice, now: datetime) -> None:
        key = (*_dedupe_key(notice), notice.about.metadata.uid, notice.message)
        written = self._written.get(key)
        if written is not None and now - written.first_at < _EVENT_LIFETIME:
            again = _WrittenEvent(written.key, written.count + 1, written.first_at)
            body = {"count": again.count, "lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
            try:
                await self._cluster.patch(EVENT, written.key, Patch(body))
            except NotFound:
                pass  # the API server dropped it early: create another
            else:
                _remember(self._written, key, again)
                return
        created = await self._cluster.create(EVENT, _event(notice, now))
        _remember(self._written, key, _WrittenEvent(created.key, 1, now))


def _dedupe_key(notice: Notice) -> DedupeKey:
    return (notice.reason.lower(), *(notice.dedupe or (notice.about.metadata.uid, notice.message)))


def _event(notice: Notice, now: datetime) -> Event:
    about = notice.about.metadata
    identity = f"{notice.kind}/{about.uid}/{notice.reason}/{notice.message}/{now.isoformat()}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    whole_second = now.replace(microsecond=0)
    return Event(
        metadata=ObjectMeta(
            name=f"{about.name[:236]}.{digest}",
            namespace=about.namespace or "default",
            annotations={DECISION: notice.decision} if notice.decision else {},
        ),
        involved_object=ObjectReference(
            api_version=notice.kind.api_version,
            kind=notice.kind.name,
            namespace=about.namespace,
            name=about.name,
            uid=about.uid,
        ),
        type="Warning" if notice.warning else "Normal",
        reason=notice.reason,
        message=notice.message,
        count=1,
        first_timestamp=whole_second,
        last_timestamp=whole_second,
        source=EventSource(component=COMPONENT),
        reporting_component=COMPONENT,
    )


def _remember(memory: OrderedDict[DedupeKey, V], key: DedupeKey, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _MAX_REMEMBERED:
        memory.popitem(last=False)
