"""Recorded traces: groups of pods with their arrival and departure times and requests, as CSV or JSON, parsed strictly.

Columns: `name`, `arrive`, `leave` (seconds from the start of the trace, or durations such as `90m`; with an empty
`leave` the pods stay to the end), `cpu`, `memory`, and optionally `namespace`, `pods` (default 1), `priority`, and
pairs as `key=value;key=value`: `node_selector`, `tolerations` (a key without value tolerates every value) and
`annotations`. All faults are reported, each with its row.
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
_EXTRA = "_extra"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A group of equal pods; `leave` None stays to the end."""

    name: str
    arrive: float
    cpu: str
    memory: str
    leave: float | None = None
    namespace: str = "default"
    pods: int = 1
    priority: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Mapping[str, str] = field(default_factory=dict)  # an empty value tolerates every value
    annotations: Mapping[str, str] = field(default_factory=dict)


def read_trace(text: str, name: str) -> tuple[Arrival, ...]:
    """All groups in the order of arrival; raises `ScenarioInvalid` with the faults of all rows."""
    rows = list(_json_rows(text, name) if name.endswith(".json") else _csv_rows(text, name))
    arrivals: list[Arrival] = []
    faults: list[Fault] = []
    first_by_name: dict[str, str] = {}
    for where, row in rows:
        values, problems = _read(row)
        group = str(row.get("name", ""))
        if group in first_by_name:
            problems.append(f"{group} is the name of {first_by_name[group]} already; names must be unique")
        elif group:
            first_by_name[group] = where
        faults.extend(Fault(f"{name}: {where}", each) for each in problems)
        if not problems:
            arrivals.append(Arrival(**values))
    if not arrivals and not faults:
        faults.append(Fault(name, "has no rows; a trace needs at least one arrival"))
    if faults:
        left = len(faults) - MOST_FAULTS
        more = [Fault(name, f"and {left} more faults")] if left > 0 else []
        raise ScenarioInvalid([*faults[:MOST_FAULTS], *more])
    return tuple(sorted(arrivals, key=lambda each: (each.arrive, each.name)))


def _csv_rows(text: str, name: str) -> Iterable[tuple[str, dict[str, str]]]:
    lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)  # accepts every line ending, also a single \r
    reader = csv.DictReader(lines, restkey=_EXTRA)
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
        Fault(f"{name}: header", f"column {each} occurs twice; remove one of them")
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
    """A JSON object; raises ValueError for a repeated name, which JSON parsers otherwise ignore."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice in one object")
        found[name] = value
    return found


def _as_text(value: Any) -> Any:
    """The text that a CSV file would have; mappings and lists stay unchanged."""
    if isinstance(value, dict | list):
        return value
    return "" if value is None else str(value)


def _read(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parsed values of a row, and its problems."""
    faults = [f"{column} is missing" for column in NEEDED if not row.get(column)]
    values: dict[str, Any] = {}
    for column, text in row.items():
        if column == _EXTRA:
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
        raise ValueError(f"{text!r} is not a valid name; use at most 63 lowercase letters, digits and dashes")
    return text


def _instant(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return parse_span(text).total_seconds()
    if seconds < 0 or not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not a number of seconds from the start")
    return seconds


def _amount(text: str) -> str:
    if Quantity.of(text).nano < 0:
        raise ValueError(f"{text!r} is negative")
    return text


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,10}", text):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(text)


def _positive_integer(text: str) -> int:
    number = _integer(text)
    if number < 1:
        raise ValueError(f"must be at least 1, got {number}")
    return number


def _pairs(written: Any) -> dict[str, str]:
    found = _split_pairs(written)
    if any(not key or value is None for key, value in found):
        raise ValueError(f"must be of the form key=value;key=value, got {written!r}")
    return {key: str(value) for key, value in found}


def _toleration_pairs(written: Any) -> dict[str, str]:
    found = _split_pairs(written)
    if not all(key for key, _ in found):
        raise ValueError(f"must be of the form key=value;key, got {written!r}")
    return {key: value or "" for key, value in found}


def _split_pairs(written: Any) -> list[tuple[str, str | None]]:
    """Keys and values of a mapping, a list of pairs, or pairs separated by semicolons; a value may be missing."""
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
    "pods": _positive_integer,
    "priority": _integer,
    "node_selector": _pairs,
    "tolerations": _toleration_pairs,
    "annotations": _pairs,
}
