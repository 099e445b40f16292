"""Reads the ledger: which decision removed or launched a node, when, why, and how it ended. Never writes."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.manifest.codec import UNDECODABLE
from dovetail.observe.ledger_schema import LedgerUnreadable, check_version, instant, unpack
from dovetail.ports.ledger import Considered, LedgerNode

UNDER_WAY = "under way"
CONSIDERED_SINCE_VERSION = 2  # the schema version that introduced the table `considered`
MAX_AMBIGUOUS_IDS = 3  # ids listed when a prefix is ambiguous


class LedgerMissing(Exception):
    """There is no readable ledger; the message names the path and the remedy."""


class NoSuchDecision(Exception):
    """No decision has this id or prefix, or several do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerQuery:
    """Which decisions to return; empty fields match all."""

    node: str = ""  # a node's or a NodeClaim's name
    nodepool: str = ""
    reason: str = ""
    act: str = ""
    since: datetime | None = None
    until: datetime | None = None
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDecision:
    """One decision of the ledger."""

    id: str
    cluster: str
    at: str
    act: str
    reason: str
    why: str
    method: str
    nodes: tuple[LedgerNode, ...]  # removed nodes
    made: tuple[LedgerNode, ...]  # launched nodes
    replacements: int
    pods: int
    pod_names: tuple[str, ...]
    cost_before: float
    cost_after: float  # the actual cost if known, else the planned cost
    outcome: str
    ended_at: str
    note: str
    considered: Considered | None = None  # read only by `read_decision`


SIMULATED_CLUSTER = "embedded"
"""The cluster of a ledger that a demo writes."""


def known_until(path: Path, now: datetime) -> datetime:
    """The time until which the ledger tells what its clusters cost: now, or the last record if they were simulated."""
    with _connection(path) as connection:
        clusters = {name for (name,) in connection.execute("SELECT DISTINCT cluster FROM decision")}
        (last,) = connection.execute("SELECT max(coalesce(ended_at, at)) FROM decision").fetchone()
    ended = parse_instant(last)
    return min(now, ended) if clusters == {SIMULATED_CLUSTER} and ended is not None else now


def read_history(path: Path, query: LedgerQuery) -> list[LedgerDecision]:
    """Return the matching decisions, newest first."""
    with _connection(path) as connection:
        return list(_read(connection, query))


def read_decision(path: Path, identity: str) -> LedgerDecision:
    """Return one decision by its id or a unique prefix, with what was considered for it."""
    with _connection(path) as connection:
        rows = connection.execute(
            "SELECT * FROM decision WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT ?",
            (len(identity), identity, MAX_AMBIGUOUS_IDS + 1),
        ).fetchall()
        chosen = [row for row in rows if row["id"] == identity] or rows
        if not identity or not chosen:
            raise NoSuchDecision(f"the ledger has no decision {identity!r}; dovetail history -o wide lists their ids")
        if len(chosen) > 1:
            names = ", ".join(row["id"] for row in chosen[:MAX_AMBIGUOUS_IDS])
            raise NoSuchDecision(f"several decisions begin with {identity!r}: {names}")
        (row,) = chosen
        return replace(_with_nodes(connection, row), considered=_read_considered(connection, row["id"]))


def _read_considered(connection: sqlite3.Connection, decision: str) -> Considered | None:
    if check_version(connection) < CONSIDERED_SINCE_VERSION:
        return None
    row = connection.execute("SELECT packed FROM considered WHERE decision = ?", (decision,)).fetchone()
    return unpack(row["packed"]) if row is not None else None


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerMissing(f"there is no ledger at {path}; name the one `dovetail run` writes with --ledger")
    try:
        with closing(_open(path)) as connection:
            yield connection
    except IndexError as error:
        raise LedgerMissing(f"{path} cannot be read as a ledger: a column is missing") from error
    except (sqlite3.Error, LedgerUnreadable) as error:
        raise LedgerMissing(f"{path} cannot be read as a ledger: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    """Open read-only; if SQLite cannot create its lock files next to it, open it as immutable."""
    last: sqlite3.Error | None = None
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=5.0)
        try:
            _require_ledger(connection)
            connection.row_factory = sqlite3.Row
            connection.text_factory = _text
        except sqlite3.OperationalError as error:
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    assert last is not None
    raise last


def _text(written: bytes) -> str:
    """Decode text of the file, with replacement characters for damaged bytes."""
    return written.decode("utf-8", "replace")


def _require_ledger(connection: sqlite3.Connection) -> None:
    if not check_version(connection):
        raise LedgerUnreadable("it has no decisions in it, or is a database of something else")


def _read(connection: sqlite3.Connection, query: LedgerQuery) -> Iterator[LedgerDecision]:
    where, values = _conditions(query)
    limit = f" LIMIT {int(query.most)}" if query.most else ""
    statement = f"SELECT * FROM decision WHERE {where} ORDER BY at DESC, id{limit}"  # noqa: S608 - only our own text
    for row in connection.execute(statement, values).fetchall():
        yield _with_nodes(connection, row)


def _with_nodes(connection: sqlite3.Connection, row: Any) -> LedgerDecision:
    nodes = connection.execute("SELECT * FROM node WHERE decision = ? ORDER BY nodeclaim", (row["id"],)).fetchall()
    return _decision(row, nodes)


def _conditions(query: LedgerQuery) -> tuple[str, list[str]]:
    clauses = [
        (
            "id IN (SELECT decision FROM node WHERE node = ? OR nodeclaim = ?)",
            [query.node] * 2 if query.node else [],
        ),
        ("id IN (SELECT decision FROM node WHERE nodepool = ?)", [query.nodepool] if query.nodepool else []),
        ("lower(reason) = lower(?)", [query.reason] if query.reason else []),
        ("act = ?", [query.act] if query.act else []),
        ("at >= ?", [instant(query.since)] if query.since is not None else []),
        ("at < ?", [instant(query.until)] if query.until is not None else []),
    ]
    held = [(text, values) for text, values in clauses if values]
    return " AND ".join(text for text, _ in held) or "1", [value for _, values in held for value in values]


def _decision(row: Any, nodes: list[Any]) -> LedgerDecision:
    return LedgerDecision(
        id=row["id"],
        cluster=row["cluster"],
        at=row["at"],
        act=row["act"],
        reason=row["reason"],
        why=row["why"],
        method=row["method"],
        nodes=tuple(_node(node) for node in nodes if not node["made"]),
        made=tuple(_node(node) for node in nodes if node["made"]),
        replacements=row["replacements"],
        pods=row["pods"],
        pod_names=_names(row["pod_names"]),
        cost_before=row["cost_before"],
        cost_after=row["cost_after"] if row["cost_after_real"] is None else row["cost_after_real"],
        outcome=row["outcome"] or UNDER_WAY,
        ended_at=row["ended_at"] or "",
        note=row["note"],
    )


def _names(written: str) -> tuple[str, ...]:
    """Return the pod names, or none if they are damaged."""
    try:
        return msgspec.json.decode(written, type=tuple[str, ...])
    except UNDECODABLE:
        return ()


def _node(row: Any) -> LedgerNode:
    names = ("nodeclaim", "node", "nodepool", "instance_type", "capacity_type", "zone", "price")
    known = row.keys()  # files of earlier schemas have fewer
    return LedgerNode(
        **{name: row[name] for name in names},
        used=row["used"] if "used" in known else None,
        expires_at=parse_instant(row["expires_at"]) if "expires_at" in known else None,
        gone_at=parse_instant(row["gone_at"]) if "gone_at" in known else None,
        peers=row["peers"] if "peers" in known else None,
    )


def parse_instant(written: str | None) -> datetime | None:
    """Parse an instant; None if there is none or it is damaged."""
    try:
        at = datetime.fromisoformat(written) if written else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else None
