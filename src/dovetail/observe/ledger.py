"""The ledger in one SQLite file: durable, bounded by age and size, and written without blocking the controllers.

Writes go through a bounded queue to a thread. If the disk is full or the file is not accessible, the current batch is
retried with backoff; writes that no longer fit into the queue are lost and counted, and `health` says why. A crash
loses at most the writes that had not reached the file; `settle` then closes decisions without an ending. One file can
serve several clusters: each process writes and settles only entries of its cluster.
"""

import logging
import queue
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from dovetail.observe.ledger_schema import (
    LedgerUnreadable,
    connect,
    prune,
    write_close,
    write_gone,
    write_open,
    write_settle,
)
from dovetail.ports.clock import Clock
from dovetail.ports.ledger import LedgerEnding, LedgerEntry, LedgerHealth, LedgerState

QUEUE_SIZE = 10_000
_BATCH_SIZE = 500
_PRUNE_EVERY = 1000  # writes
_MAX_RETRY_SECONDS = 60.0
_ENTRY_ERRORS = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ArithmeticError,
    AttributeError,
    TypeError,
    ValueError,
)
"""Errors of a single entry, not of the file: a retry would block all other entries for ever."""

log = logging.getLogger(__name__)


def resolve_ledger_path(written: str, variables: Mapping[str, str]) -> Path | None:
    """Return the ledger's path from the setting, or the default in the state directory; None for `off`."""
    if written == "off":
        return None
    if written:
        return Path(written).expanduser()
    state, home = variables.get("XDG_STATE_HOME", ""), variables.get("HOME", "")
    if not state.startswith("/"):
        state = f"{home}/.local/state" if home else "/var/lib"
    return Path(state) / "dovetail" / "ledger.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long entries are kept, and how large the file may grow."""

    age: timedelta = timedelta(days=90)
    size: int = 256 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class _Open:
    entry: LedgerEntry

    def write(self, connection: sqlite3.Connection, cluster: str) -> None:
        write_open(connection, cluster, self.entry)


@dataclass(frozen=True, slots=True)
class _Close:
    decision: str
    ending: LedgerEnding

    def write(self, connection: sqlite3.Connection, _cluster: str) -> None:
        write_close(connection, self.decision, self.ending)


@dataclass(frozen=True, slots=True)
class _Gone:
    decision: str
    nodeclaim: str
    at: datetime

    def write(self, connection: sqlite3.Connection, _cluster: str) -> None:
        write_gone(connection, self.decision, self.nodeclaim, self.at)


@dataclass(frozen=True, slots=True)
class _Settle:
    known: LedgerState
    at: datetime

    def write(self, connection: sqlite3.Connection, cluster: str) -> None:
        write_settle(connection, cluster, self.known, self.at)


_Write = _Open | _Close | _Gone | _Settle


class SqliteLedger:
    """Implements `ports.ledger.Ledger`. Call `start` first, and `stop` to flush the queue."""

    keeps = True

    def __init__(self, path: Path, clock: Clock, *, cluster: str = "", keep: Retention | None = None) -> None:
        self.path = path
        self._clock = clock
        self.cluster = cluster
        self._keep = keep or Retention()
        self._queue: queue.Queue[_Write] = queue.Queue(QUEUE_SIZE)
        self._stopping = threading.Event()
        self._wake_up = threading.Event()
        self._health = LedgerHealth()
        self._lost = 0
        self._thread: threading.Thread | None = None

    def open(self, entry: LedgerEntry) -> None:
        """Queue a new decision."""
        self._enqueue(_Open(entry))

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """Queue the ending of a decision."""
        self._enqueue(_Close(decision, ending))

    def gone(self, decision: str, nodeclaim: str, at: datetime) -> None:
        """Queue that a removed node is gone."""
        self._enqueue(_Gone(decision, nodeclaim, at))

    def settle(self, known: LedgerState, at: datetime) -> None:
        """Queue the endings of decisions that ended while no controller was running."""
        self._enqueue(_Settle(known, at))

    def health(self) -> LedgerHealth:
        """Return counts, size, and the current failure, if any."""
        health = self._health
        return LedgerHealth(
            written=health.written, lost=health.lost + self._lost, trouble=health.trouble, size=health.size
        )

    def _enqueue(self, write: _Write) -> None:
        try:
            self._queue.put_nowait(write)
        except queue.Full:
            self._lost += 1
        self._wake_up.set()

    def start(self) -> None:
        """Start the writer thread."""
        self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
        self._thread.start()

    def stop(self, within: float = 5.0) -> None:
        """Write the rest of the queue, for at most this many seconds."""
        self._stopping.set()
        self._wake_up.set()
        if self._thread is not None:
            self._thread.join(within)

    def _work(self) -> None:
        pause, since_pruned = 0.0, _PRUNE_EVERY
        batch: list[_Write] = []
        while True:
            batch = batch or self._next_batch()
            if not batch and self._stopping.is_set():
                return
            try:
                with self._file() as connection:
                    rejected = self._commit(connection, batch)
                    since_pruned += len(batch)
                    if since_pruned >= _PRUNE_EVERY:
                        prune(connection, self._clock.now() - self._keep.age, self._keep.size)
                        since_pruned = 0
            except (sqlite3.Error, OSError, LedgerUnreadable) as error:
                self._report_failure(error)
                if self._stopping.is_set():
                    self._update_health(lost=len(batch) + self._queue.qsize())
                    return
                pause = min(max(1.0, pause * 2), _MAX_RETRY_SECONDS)
                self._stopping.wait(pause)
            else:
                self._update_health(written=len(batch) - rejected, lost=rejected, trouble="")
                batch, pause = [], 0.0

    def _next_batch(self) -> list[_Write]:
        """Wait for queued writes and return a batch; empty only when the queue is empty and `stop` was called."""
        while self._queue.empty() and not self._stopping.is_set():
            self._wake_up.wait()
            self._wake_up.clear()
        batch: list[_Write] = []
        with suppress(queue.Empty):
            while len(batch) < _BATCH_SIZE:
                batch.append(self._queue.get_nowait())
        return batch

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        connection = connect(self.path)
        try:
            yield connection
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[_Write]) -> int:
        """Write a batch in one transaction; skip entries that can never be written, and return how many."""
        rejected = 0
        with connection:
            connection.execute("BEGIN")
            for write in batch:
                connection.execute("SAVEPOINT entry")
                try:
                    write.write(connection, self.cluster)
                except _ENTRY_ERRORS:
                    log.exception("ledger entry cannot be written")
                    connection.execute("ROLLBACK TO entry")
                    rejected += 1
                connection.execute("RELEASE entry")
        return rejected

    def _report_failure(self, error: Exception) -> None:
        remedy = "free disk space, or choose a writable path with --ledger (DOVETAIL_LEDGER); off disables the ledger"
        said = f"{self.path}: {error}; {remedy}"
        if said != self._health.trouble:
            log.error("ledger cannot be written", extra={"ledger": str(self.path), "error": str(error)})
        self._update_health(trouble=said)

    def _update_health(self, *, written: int = 0, lost: int = 0, trouble: str | None = None) -> None:
        size = 0
        with suppress(OSError):
            size = self.path.stat().st_size
        self._health = LedgerHealth(
            written=self._health.written + written,
            lost=self._health.lost + lost,
            trouble=self._health.trouble if trouble is None else trouble,
            size=size,
        )
