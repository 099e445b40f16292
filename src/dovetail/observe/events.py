"""A token bucket on somebody else's clock.

Notices that wait to be written: warnings before the rest, each lane in the order it was said, and never too many.

When there is no size left, the oldest notice that is no warning makes way for a warning; anything else is turned away.
A thousand nodes that go at once have about seven things to say each, and all of it fits.

Notices become Kubernetes events, sparingly: never in the way of the one who has something to say.

`publish` only decides and enqueues. What was said within the last two minutes is not said again, noisy reasons have a
token bucket, and a full backlog drops what is no warning first. `run` writes in the background, one at a time, so that
in a storm the controllers' own calls go ahead; a notice that comes back after its window raises the count of its event
instead of making another. Every notice that is not written is counted, and drops are in the log.
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
    """How many a second in the long run, and how many at once."""

    per_second: float
    burst: int


class TokenBucket:
    """Starts full and refills with time. A clock that goes back refills nothing."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._filled_at: datetime | None = None

    def take(self, now: datetime) -> bool:
        """Take a token, if there is one."""
        if self._filled_at is not None and now > self._filled_at:
            gained = (now - self._filled_at).total_seconds() * self._rate.per_second
            self._tokens = min(self._tokens + gained, float(self._rate.burst))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


BACKLOG_SIZE = 8192

Queued = tuple[Notice, datetime]


class EventBacklog:
    """A bounded queue with two lanes, for one writer."""

    def __init__(self, size: int = BACKLOG_SIZE) -> None:
        self._size = size
        self._warnings: deque[Queued] = deque()
        self._others: deque[Queued] = deque()
        self._unfinished = 0  # said, and neither written nor given up
        self._not_empty = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._warnings) + len(self._others)

    def put(self, notice: Notice, at: datetime) -> Notice | None:
        """Take a notice in; what was dropped for want of size, this one or an older one, if anything was."""
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
        """The next notice to write; call `done` when that is over."""
        while not len(self):
            self._not_empty.clear()
            await self._not_empty.wait()
        return (self._warnings or self._others).popleft()

    def done(self) -> None:
        """One notice less is waited for."""
        self._unfinished -= 1
        if not self._unfinished:
            self._empty.set()

    async def join(self) -> None:
        """Wait until everything is written or given up."""
        await self._empty.wait()


COMPONENT = "dovetail"
_MAX_REMEMBERED = 8192  # notices; beyond, the oldest are forgotten and may be said again early
_ATTEMPTS = 3
_RETRY_SECONDS = 1.0  # seconds, unless the API names its own
_LOG_DROPS_EVERY = timedelta(minutes=1)
_EVENT_LIFETIME = timedelta(minutes=55)  # the API server forgets an event after an hour

NOISY: Mapping[str, Rate] = {"Nominated": Rate(per_second=5, burst=10)}

_log = logging.getLogger(__name__)

DedupeKey = tuple[str, ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """How sparing to be."""

    window: timedelta = timedelta(minutes=2)
    size: int = BACKLOG_SIZE
    rates: Mapping[str, Rate] = field(default_factory=lambda: NOISY)


@dataclass(slots=True)
class EventCounts:
    """What became of the notices."""

    written: int = 0
    repeated: int = 0  # the key was said a moment ago
    limited: int = 0  # its reason is too noisy
    dropped: int = 0  # too many waited
    failed: int = 0  # the API would not have it


@dataclass(frozen=True, slots=True)
class _WrittenEvent:
    key: Key
    count: int
    first_at: datetime


class EventRecorder:
    """Writes events through a cluster. Run `run` as a task beside those who publish."""

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
        """From now on there is nobody to be written."""
        self._muted = True

    def publish(self, notice: Notice) -> None:
        """Tell it, unless the key was written a moment ago. Never raises, never waits."""
        if self._muted:
            return
        now, key = self._clock.now(), _dedupe_key(notice)
        last_at = self._published_at.get(key)
        if last_at is not None and now - last_at < self._limits.window:
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
        """It may be said again at once; the log tells of it now and then."""
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
        """Write what is published, until cancelled."""
        while True:
            notice, now = await self._backlog.take()
            try:
                await self._write(notice, now)
            finally:
                self._backlog.done()

    async def flush(self) -> None:
        """Wait until everything published so far is written or given up."""
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
                pass  # the API server forgot it sooner; say it anew
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
