"""Recorded traces: groups of pods that arrived and left, with what they asked for. CSV or JSON, read strictly.

Columns: `name`, `arrive`, `leave` (seconds from the start of the trace, or lengths of time such as `90m`; an empty
`leave` stays to the end), `cpu`, `memory`, and, where wanted, `namespace`, `pods` (default 1), `priority`,
`node_selector` (`key=value;key=value`). A hole in a needed column is a fault of that row, and all faults are told.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dovetail.model.quantity import Quantity
from dovetail.model.wire import Fault
from dovetail.sim.scenario.document import ScenarioInvalid, parse_span

NEEDED = ("name", "arrive", "cpu", "memory")
OPTIONAL = ("leave", "namespace", "pods", "priority", "node_selector")
MOST_FAULTS = 50


@dataclass(frozen=True, slots=True)
class Arrival:
    """Pods that came together and left together; `leave` None stays."""

    name: str
    arrive: float
    cpu: str
    memory: str
    leave: float | None = None
    namespace: str = "default"
    pods: int = 1
    priority: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)


def read_trace(text: str, name: str) -> tuple[Arrival, ...]:
    """Every row, in the order of arrival; `ScenarioInvalid` names each row that cannot be read."""
    rows = _json_rows(text, name) if name.endswith(".json") else _csv_rows(text, name)
    arrivals: list[Arrival] = []
    faults: list[Fault] = []
    names: set[str] = set()
    for where, row in rows:
        faults.extend(found := [*_faults(row, f"{name}: {where}", names)])
        if not found:
            arrivals.append(_arrival(row))
    if not arrivals and not faults:
        faults.append(Fault(name, "has no rows; a trace needs at least one arrival"))
    if faults:
        left = len(faults) - MOST_FAULTS
        more = [Fault(name, f"and {left} more faults")] if left > 0 else []
        raise ScenarioInvalid([*faults[:MOST_FAULTS], *more])
    return tuple(sorted(arrivals, key=lambda each: (each.arrive, each.name)))


def _csv_rows(text: str, name: str) -> Iterable[tuple[str, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text))
    columns = [column.strip() for column in reader.fieldnames or ()]
    faults = [Fault(f"{name}: header", f"column {each} is missing") for each in NEEDED if each not in columns]
    faults += [
        Fault(f"{name}: header", f"column {each!r} is not known; columns are {', '.join((*NEEDED, *OPTIONAL))}")
        for each in columns
        if each not in (*NEEDED, *OPTIONAL)
    ]
    if faults:
        raise ScenarioInvalid(faults)
    reader.fieldnames = columns
    for row in reader:
        yield f"line {reader.line_num}", {key: (value or "").strip() for key, value in row.items() if key is not None}


def _json_rows(text: str, name: str) -> Iterable[tuple[str, dict[str, str]]]:
    try:
        written = json.loads(text)
    except ValueError as error:
        raise ScenarioInvalid([Fault(name, f"is not JSON: {error}")]) from error
    rows = written.get("arrivals") if isinstance(written, dict) else written
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ScenarioInvalid([Fault(name, 'must be a list of arrivals, or {"arrivals": [...]}')])
    for index, row in enumerate(rows):
        yield f"arrivals[{index}]", {key: "" if value is None else str(value) for key, value in row.items()}


def _faults(row: Mapping[str, str], where: str, names: set[str]) -> Iterable[Fault]:
    yield from (Fault(where, f"{column} is missing") for column in NEEDED if not row.get(column))
    yield from (
        Fault(where, f"{column!r} is not known; columns are {', '.join((*NEEDED, *OPTIONAL))}")
        for column in row
        if column not in (*NEEDED, *OPTIONAL)
    )
    for column, read in (("arrive", _instant), ("leave", _instant), ("cpu", Quantity.of), ("memory", Quantity.of)):
        if row.get(column):
            try:
                read(row[column])
            except ValueError as error:
                yield Fault(where, f"{column}: {error}")
    for column in ("pods", "priority"):
        if row.get(column) and not row[column].lstrip("-").isdigit():
            yield Fault(where, f"{column}: must be a whole number, got {row[column]!r}")
    if row.get("name") in names:
        yield Fault(where, f"{row['name']} came before; names are unique")
    names.add(row.get("name", ""))


def _arrival(row: Mapping[str, str]) -> Arrival:
    pairs = (pair.partition("=") for pair in row.get("node_selector", "").split(";") if pair)
    return Arrival(
        name=row["name"],
        arrive=_instant(row["arrive"]),
        leave=_instant(row["leave"]) if row.get("leave") else None,
        cpu=row["cpu"],
        memory=row["memory"],
        namespace=row.get("namespace") or "default",
        pods=int(row.get("pods") or 1),
        priority=int(row.get("priority") or 0),
        node_selector={key: value for key, _, value in pairs},
    )


def _instant(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return parse_span(text).total_seconds()
    if seconds < 0 or not math.isfinite(seconds):
        raise ValueError(f"{text!r} is no instant after the start")
    return seconds
