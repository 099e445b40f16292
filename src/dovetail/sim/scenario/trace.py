"""Recorded traces: groups of pods that arrived and left, with what they asked for. CSV or JSON, read strictly.

Columns: `name`, `arrive`, `leave` (seconds from the start of the trace, or lengths of time such as `90m`; an empty
`leave` stays to the end), `cpu`, `memory`, and, where wanted, `namespace`, `pods` (default 1), `priority`, and pairs as
`key=value;key=value`: `node_selector`, `tolerations` (a key alone tolerates every value) and `annotations`. A hole in a
needed column is a fault of that row, and all faults are told.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.model.kube_object import Fault
from dovetail.model.resources import Quantity
from dovetail.sim.scenario.parsing import ScenarioInvalid, parse_span

NEEDED = ("name", "arrive", "cpu", "memory")
OPTIONAL = ("leave", "namespace", "pods", "priority", "node_selector", "tolerations", "annotations")
MOST_FAULTS = 50
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BEYOND = "_beyond"


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
    tolerations: Mapping[str, str] = field(default_factory=dict)  # an empty value tolerates every one
    annotations: Mapping[str, str] = field(default_factory=dict)


def read_trace(text: str, name: str) -> tuple[Arrival, ...]:
    """Every row, in the order of arrival; `ScenarioInvalid` names each row that cannot be read."""
    rows = list(_json_rows(text, name) if name.endswith(".json") else _csv_rows(text, name))
    arrivals: list[Arrival] = []
    faults: list[Fault] = []
    first_by_name: dict[str, str] = {}
    for where, row in rows:
        values, why = _read(row)
        called = str(row.get("name", ""))
        if called in first_by_name:
            why.append(f"{called} is the name of {first_by_name[called]} already; names are unique")
        elif called:
            first_by_name[called] = where
        faults.extend(Fault(f"{name}: {where}", each) for each in why)
        if not why:
            arrivals.append(Arrival(**values))
    if not arrivals and not faults:
        faults.append(Fault(name, "has no rows; a trace needs at least one arrival"))
    if faults:
        left = len(faults) - MOST_FAULTS
        more = [Fault(name, f"and {left} more faults")] if left > 0 else []
        raise ScenarioInvalid([*faults[:MOST_FAULTS], *more])
    return tuple(sorted(arrivals, key=lambda each: (each.arrive, each.name)))


def _csv_rows(text: str, name: str) -> Iterable[tuple[str, dict[str, str]]]:
    lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)  # any line ending, a bare carriage return as well
    reader = csv.DictReader(lines, restkey=_BEYOND)
    try:
        yield from _rows_of(reader, name)
    except csv.Error as error:
        raise ScenarioInvalid([Fault(f"{name}: line {reader.line_num + 1}", f"is not CSV: {error}")]) from error


def _rows_of(reader: "csv.DictReader[str]", name: str) -> Iterable[tuple[str, dict[str, str]]]:
    columns = [column.strip() for column in reader.fieldnames or ()]
    faults = [Fault(f"{name}: header", f"column {each} is missing") for each in NEEDED if each not in columns]
    faults += [
        Fault(f"{name}: header", f"column {each!r} is not known; columns are {', '.join((*NEEDED, *OPTIONAL))}")
        for each in columns
        if each not in (*NEEDED, *OPTIONAL)
    ]
    faults += [
        Fault(f"{name}: header", f"column {each} is there twice; leave one of the two out")
        for each in sorted({each for each in columns if columns.count(each) > 1})
    ]
    if faults:
        raise ScenarioInvalid(faults)
    reader.fieldnames = columns
    for row in reader:
        yield f"line {reader.line_num}", {key: str(value or "").strip() for key, value in row.items()}


def _json_rows(text: str, name: str) -> Iterable[tuple[str, dict[str, Any]]]:
    try:
        written = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ScenarioInvalid([Fault(name, f"is not JSON: {error}")]) from error
    if isinstance(written, dict) and "arrivals" in written and (more := sorted(set(written) - {"arrivals"})):
        raise ScenarioInvalid([Fault(f"{name}: {each}", "is not known; a trace has arrivals") for each in more])
    rows = written.get("arrivals") if isinstance(written, dict) else written
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ScenarioInvalid([Fault(name, 'must be a list of arrivals, or {"arrivals": [...]}')])
    for index, row in enumerate(rows):
        yield f"arrivals[{index}]", {key: _as_text(value) for key, value in row.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, each of whose names is there once."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is there twice in one object")
        found[name] = value
    return found


def _as_text(value: Any) -> Any:
    """As it would stand in a CSV file; mappings and lists stay what they are."""
    if isinstance(value, dict | list):
        return value
    return "" if value is None else str(value)


def _read(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a row says, and all that is wrong with it."""
    faults = [f"{column} is missing" for column in NEEDED if not row.get(column)]
    values: dict[str, Any] = {}
    for column, text in row.items():
        if column == _BEYOND:
            faults.append("has more values than there are columns")
        elif column not in _READERS:
            faults.append(f"{column!r} is not known; columns are {', '.join((*NEEDED, *OPTIONAL))}")
        elif isinstance(text, dict | list) and column not in _PAIRED:
            faults.append(f"{column}: must be one value, got {text!r}")
        elif text:
            try:
                values[column] = _READERS[column](text)
            except ValueError as error:
                faults.append(f"{column}: {error}")
    if values.get("leave") is not None and values["leave"] <= values.get("arrive", -1.0):
        faults.append(f"leave: {row['leave']} is not after arrive, {row['arrive']}")
    return values, faults


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name of an object; use small letters, digits and dashes, at most 63")
    return text


def _instant(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return parse_span(text).total_seconds()
    if seconds < 0 or not math.isfinite(seconds):
        raise ValueError(f"{text!r} is no instant after the start")
    return seconds


def _amount(text: str) -> str:
    if Quantity.of(text).nano < 0:
        raise ValueError(f"{text!r} is negative")
    return text


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,10}", text):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(text)


def _some(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise ValueError(f"must be at least 1, got {number}")
    return number


def _pairs(written: Any) -> dict[str, str]:
    found = _divided(written)
    if any(not key or value is None for key, value in found):
        raise ValueError(f"must be of the form key=value;key=value, got {written!r}")
    return {key: str(value) for key, value in found}


def _tolerated(written: Any) -> dict[str, str]:
    found = _divided(written)
    if not all(key for key, _ in found):
        raise ValueError(f"must be of the form key=value;key, got {written!r}")
    return {key: value or "" for key, value in found}


def _divided(written: Any) -> list[tuple[str, str | None]]:
    """Keys and values of a mapping, a list of pairs, or pairs with semicolons between; a value may be missing."""
    if isinstance(written, dict):
        return [(str(key), None if value is None else str(value)) for key, value in written.items()]
    parts = written if isinstance(written, list) else written.split(";")
    pairs = [str(pair).strip().partition("=") for pair in parts]
    return [(key.strip(), value if equals else None) for key, equals, value in pairs if key or equals]


_PAIRED = ("node_selector", "tolerations", "annotations")
_READERS: Mapping[str, Callable[[str], Any]] = {
    "name": _name,
    "arrive": _instant,
    "leave": _instant,
    "cpu": _amount,
    "memory": _amount,
    "namespace": _name,
    "pods": _some,
    "priority": _whole,
    "node_selector": _pairs,
    "tolerations": _tolerated,
    "annotations": _pairs,
}
