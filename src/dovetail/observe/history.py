"""Reads the ledger back: who took this node, when, why, and how it ended. Never writes."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dovetail.observe.ledger_file import Unreadable, check_version, instant
from dovetail.ports.ledger import NodeFacts

UNDER_WAY = "under way"


class NoLedgerThere(Exception):
    """There is nothing to read; the message says where and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which decisions are asked for; empty fields mean all."""

    node: str = ""  # a node's or a NodeClaim's name
    nodepool: str = ""
    reason: str = ""
    act: str = ""
    since: datetime | None = None
    until: datetime | None = None
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision as the ledger has it."""

    id: str
    cluster: str
    at: str
    act: str
    reason: str
    why: str
    method: str
    nodes: tuple[NodeFacts, ...]  # those that went
    made: tuple[NodeFacts, ...]  # those that came
    replacements: int
    pods: int
    pod_names: tuple[str, ...]
    cost_before: float
    cost_after: float  # as it turned out, else as planned
    outcome: str
    ended_at: str
    note: str


def read_history(path: Path, question: Question) -> list[Decision]:
    """The decisions asked for, newest first."""
    if not path.is_file():
        raise NoLedgerThere(f"there is no ledger at {path}; name the one `dovetail run` writes with --ledger")
    try:
        with closing(_open(path)) as connection:
            return list(_read(connection, question))
    except (sqlite3.Error, Unreadable) as error:
        raise NoLedgerThere(f"{path} cannot be read as a ledger: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    """Read-only; where even that needs a file beside it that cannot be written, as a copy nobody else writes to."""
    last: sqlite3.Error | None = None
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=5.0)
        try:
            _require_ours(connection)
            connection.row_factory = sqlite3.Row
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


def _require_ours(connection: sqlite3.Connection) -> None:
    if not check_version(connection):
        raise Unreadable("it has no decisions in it, or is a database of something else")


def _read(connection: sqlite3.Connection, question: Question) -> Iterator[Decision]:
    where, values = _conditions(question)
    limit = f" LIMIT {int(question.most)}" if question.most else ""
    query = f"SELECT * FROM decision WHERE {where} ORDER BY at DESC, id{limit}"  # noqa: S608 - only our own text
    for row in connection.execute(query, values).fetchall():
        nodes = connection.execute("SELECT * FROM node WHERE decision = ? ORDER BY nodeclaim", (row["id"],)).fetchall()
        yield _decision(row, nodes)


def _conditions(question: Question) -> tuple[str, list[str]]:
    asked = [
        (
            "id IN (SELECT decision FROM node WHERE node = ? OR nodeclaim = ?)",
            [question.node] * 2 if question.node else [],
        ),
        ("id IN (SELECT decision FROM node WHERE nodepool = ?)", [question.nodepool] if question.nodepool else []),
        ("lower(reason) = lower(?)", [question.reason] if question.reason else []),
        ("act = ?", [question.act] if question.act else []),
        ("at >= ?", [instant(question.since)] if question.since is not None else []),
        ("at < ?", [instant(question.until)] if question.until is not None else []),
    ]
    held = [(text, values) for text, values in asked if values]
    return " AND ".join(text for text, _ in held) or "1", [value for _, values in held for value in values]


def _decision(row: Any, nodes: list[Any]) -> Decision:
    return Decision(
        id=row["id"],
        cluster=row["cluster"],
        at=row["at"],
        act=row["act"],
        reason=row["reason"],
        why=row["why"],
        method=row["method"],
        nodes=tuple(_facts(node) for node in nodes if not node["made"]),
        made=tuple(_facts(node) for node in nodes if node["made"]),
        replacements=row["replacements"],
        pods=row["pods"],
        pod_names=tuple(json.loads(row["pod_names"])),
        cost_before=row["cost_before"],
        cost_after=row["cost_after"] if row["cost_after_real"] is None else row["cost_after_real"],
        outcome=row["outcome"] or UNDER_WAY,
        ended_at=row["ended_at"] or "",
        note=row["note"],
    )


def _facts(row: Any) -> NodeFacts:
    names = ("nodeclaim", "node", "nodepool", "instance_type", "capacity_type", "zone", "price")
    return NodeFacts(**{name: row[name] for name in names})
