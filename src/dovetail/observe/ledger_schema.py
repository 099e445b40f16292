"""The SQLite schema of the ledger: tables `decision`, `node` and `considered`, and a schema version in `user_version`.

`connect` creates the file, migrates an older version, and refuses a newer one. All writes are idempotent. `considered`
is compressed in a separate table, because it is large and read for one decision at a time. Times are ISO 8601 in UTC,
prices are dollars per hour.
"""

import json
import os
import sqlite3
import stat
import zlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dovetail.manifest.codec import UNDECODABLE
from dovetail.ports.ledger import (
    Considered,
    DecisionOutcome,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerNode,
    LedgerState,
)

VERSION = 4
MAX_POD_NAMES = 200  # names stored per entry; all pods are counted
MAX_REFUSALS = 200  # refusals stored per entry; all are counted
MAX_MESSAGE = 400  # characters of a refusal's message
MAX_UNPACKED = 1024 * 1024  # bytes that `unpack` decompresses at most
_CONSIDERED = """
CREATE TABLE considered (
    decision TEXT PRIMARY KEY REFERENCES decision (id) ON DELETE CASCADE, packed BLOB NOT NULL
) STRICT;
"""
_SCHEMA = f"""{_CONSIDERED}
CREATE TABLE decision (
    id TEXT PRIMARY KEY, cluster TEXT NOT NULL, at TEXT NOT NULL, act TEXT NOT NULL, reason TEXT NOT NULL,
    why TEXT NOT NULL, method TEXT NOT NULL, replacements INTEGER NOT NULL, pods INTEGER NOT NULL,
    pod_names TEXT NOT NULL, cost_before REAL NOT NULL, cost_after REAL NOT NULL, cost_after_real REAL,
    outcome TEXT, ended_at TEXT, note TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE node (
    decision TEXT NOT NULL REFERENCES decision (id) ON DELETE CASCADE, made INTEGER NOT NULL,
    nodeclaim TEXT NOT NULL, node TEXT NOT NULL, nodepool TEXT NOT NULL, instance_type TEXT NOT NULL,
    capacity_type TEXT NOT NULL, zone TEXT NOT NULL, price REAL, used REAL, expires_at TEXT,
    gone_at TEXT, peers INTEGER,
    PRIMARY KEY (decision, made, nodeclaim)
) STRICT;
CREATE INDEX decision_at ON decision (at);
CREATE INDEX decision_open ON decision (cluster) WHERE outcome IS NULL;
CREATE INDEX node_node ON node (node);
CREATE INDEX node_nodeclaim ON node (nodeclaim);
"""
_NOT_GONE = """
SELECT decision, nodeclaim FROM node JOIN decision AS mine ON mine.id = decision
WHERE cluster = ? AND act = 'disrupt' AND outcome = 'done'
AND made = 0 AND gone_at IS NULL AND expires_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM node AS again JOIN decision AS later ON later.id = again.decision
    WHERE again.nodeclaim = node.nodeclaim AND again.made = 0 AND later.at > mine.at
)
"""
"""Removed nodes of done commands that are not known to be gone. A command may keep a node that a later one removes."""


class LedgerUnreadable(Exception):
    """The file is not a ledger this version can read."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for writing; create it (mode 0600) and its directory (0700) if they are missing."""
    _restrict_access(path)
    connection = sqlite3.connect(path, timeout=5.0)
    try:
        version = check_version(connection)
        if not version:
            _create(connection)
        elif version < VERSION:
            _migrate(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _restrict_access(path: Path) -> None:
    """Make file and directory accessible to their owner only.

    SQLite gives its journal and shared memory the mode of the file. World access, as earlier versions left it, is
    removed; a file with group access only is left as it is.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
    for each in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        with suppress(OSError):  # absent, or not ours
            if each.stat().st_mode & stat.S_IRWXO:
                each.chmod(0o600)


def check_version(connection: sqlite3.Connection) -> int:
    """Return the schema version, 0 for a new file; raises `LedgerUnreadable` for a newer version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise LedgerUnreadable(
            f"it was written by a newer version of dovetail (schema {version}, this reads {VERSION})"
        )
    return int(version)


def _create(connection: sqlite3.Connection) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables:
        raise LedgerUnreadable("it is a database of something else")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate to the current version in one transaction; a second process that waited for it finds it done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(connection)
        if version < 2:
            connection.execute(_CONSIDERED)
        if version < 3:
            connection.execute("ALTER TABLE node ADD COLUMN used REAL")
            connection.execute("ALTER TABLE node ADD COLUMN expires_at TEXT")
            connection.execute("ALTER TABLE node ADD COLUMN gone_at TEXT")
        if version < 4:
            connection.execute("ALTER TABLE node ADD COLUMN peers INTEGER")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def instant(at: datetime) -> str:
    """Format an instant with milliseconds, so that text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_open(connection: sqlite3.Connection, cluster: str, entry: LedgerEntry) -> None:
    """Insert a decision; a known id is ignored."""
    row = (
        entry.id,
        cluster,
        instant(entry.at),
        entry.act.value,
        str(entry.reason),
        entry.why,
        entry.method,
        entry.replacements,
        len(entry.pods),
        json.dumps(entry.pods[:MAX_POD_NAMES]),
        entry.cost_before,
        entry.cost_after,
    )
    done = connection.execute(
        "INSERT OR IGNORE INTO decision (id, cluster, at, act, reason, why, method, replacements, pods, pod_names,"
        " cost_before, cost_after) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    if done.rowcount:
        for node in entry.nodes:
            _write_node(connection, entry.id, node, made=entry.act is LedgerAction.LAUNCH)
        if entry.considered is not None:
            packed = pack(entry.considered)
            connection.execute("INSERT INTO considered (decision, packed) VALUES (?, ?)", (entry.id, packed))


def pack(considered: Considered) -> bytes:
    """Compress what was considered, with at most `MAX_REFUSALS` refusals."""
    named = tuple(
        replace(each, message=f"{each.message[: MAX_MESSAGE - 1]}\u2026") if len(each.message) > MAX_MESSAGE else each
        for each in considered.refusals[:MAX_REFUSALS]
    )
    return zlib.compress(msgspec.json.encode(replace(considered, refusals=named)))


def unpack(packed: bytes) -> Considered | None:
    """Decompress what was considered; None if it cannot be decoded."""
    try:
        written = zlib.decompressobj().decompress(packed, MAX_UNPACKED)
        return msgspec.json.decode(written, type=Considered)
    except (zlib.error, *UNDECODABLE):
        return None


def write_close(connection: sqlite3.Connection, decision: str, ending: LedgerEnding) -> None:
    """Store the ending of a decision; the first ending stays, unless it is `unknown`."""
    done = connection.execute(
        "UPDATE decision SET outcome = ?, ended_at = ?, note = ?, cost_after_real = ?,"
        " cost_before = coalesce(?, cost_before)"
        " WHERE id = ? AND (outcome IS NULL OR outcome = ?)",
        (
            ending.outcome.value,
            instant(ending.at),
            ending.note,
            ending.cost_after,
            ending.cost_before,
            decision,
            DecisionOutcome.UNKNOWN.value,
        ),
    )
    if done.rowcount:
        for node in ending.made:
            _write_node(connection, decision, node, made=True)


def _write_node(connection: sqlite3.Connection, decision: str, node: LedgerNode, *, made: bool) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO node (decision, made, nodeclaim, node, nodepool, instance_type, capacity_type, zone,"
        " price, used, expires_at, gone_at, peers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            decision,
            int(made),
            node.nodeclaim,
            node.node,
            node.nodepool,
            node.instance_type,
            node.capacity_type,
            node.zone,
            node.price,
            node.used,
            instant(node.expires_at) if node.expires_at is not None else None,
            instant(node.gone_at) if node.gone_at is not None else None,
            node.peers,
        ),
    )


def write_gone(connection: sqlite3.Connection, decision: str, nodeclaim: str, at: datetime) -> None:
    """Store when a removed node was gone; the first time stays."""
    connection.execute(
        "UPDATE node SET gone_at = ? WHERE decision = ? AND nodeclaim = ? AND made = 0 AND gone_at IS NULL",
        (instant(at), decision, nodeclaim),
    )


def write_settle(connection: sqlite3.Connection, cluster: str, known: LedgerState, at: datetime) -> None:
    """Close every open decision of the cluster that is not running, and mark nodes that went meanwhile as gone."""
    rows = connection.execute("SELECT id FROM decision WHERE cluster = ? AND outcome IS NULL", (cluster,)).fetchall()
    for (decision,) in rows:
        if decision in known.done:
            write_close(
                connection, decision, LedgerEnding(outcome=DecisionOutcome.DONE, at=at, note="seen after a restart")
            )
        elif decision not in known.under_way:
            note = "the controller was not running when it ended"
            write_close(connection, decision, LedgerEnding(outcome=DecisionOutcome.UNKNOWN, at=at, note=note))
    for decision, nodeclaim in connection.execute(_NOT_GONE, (cluster,)).fetchall():
        if nodeclaim not in known.nodeclaims:
            write_gone(connection, decision, nodeclaim, at)


def prune(connection: sqlite3.Connection, before: datetime, most_bytes: int) -> None:
    """Delete decisions before `before`, then the oldest while the file is too large; return the space to the disk."""
    with connection:
        connection.execute("DELETE FROM decision WHERE at < ?", (instant(before),))
    while used(connection) > most_bytes:
        with connection:
            (number,) = connection.execute("SELECT count(*) FROM decision").fetchone()
            if not number:
                break
            connection.execute(
                "DELETE FROM decision WHERE id IN (SELECT id FROM decision ORDER BY at LIMIT ?)", (number // 10 + 1,)
            )
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def used(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
