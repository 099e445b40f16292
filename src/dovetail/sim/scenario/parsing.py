"""Strict parsing of scenario documents: all faults at once, each with its path and a fix.

A `Part` is a msgspec Struct whose fields are decoded one by one, so that a fault in one field does not hide faults in
the others. `one_of` names fields of which exactly one must be given; `check` adds rules on the decoded values. Unknown
fields are faults, with the nearest known name as a suggestion.
"""

import difflib
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import structs

from dovetail.model.duration import Duration
from dovetail.model.kube_object import Fault
from dovetail.model.resources import Quantity

Plain = dict[str, Any]
P = TypeVar("P", bound="Part")

LONGEST_DAYS = 3650
_DAYS = re.compile(r"^(\d+)d(.*)$")
_WORDS = {
    "Expected `int`": "must be a whole number",
    "Expected `float`": "must be a number",
    "Expected `str`": "must be text",
    "Expected `object`": "must be a mapping",
    "Expected `array`": "must be a list",
    "Expected `int | str`": "must be a number or text",
    "Invalid RFC3339 encoded datetime": "must be an instant such as 2026-01-05T00:00:00Z",
    "Expected `datetime`": "must be an instant such as 2026-01-05T00:00:00Z",
}
_METADATA = {"name", "namespace", "labels", "annotations"}
_UNREADABLE = object()


class ScenarioInvalid(Exception):
    """An invalid scenario; `faults` has everything that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ScenarioInvalid, (self.faults,)


def parse_span(text: str) -> timedelta:
    """Parse a Go duration that may start with days; raises ValueError."""
    found = _DAYS.match(text.strip())
    days, rest = (int(found[1]), found[2]) if found else (0, text.strip())
    after = Duration.parse(rest).span if rest or not found else timedelta()
    if after < timedelta():
        raise ValueError(f"{text!r} is negative")
    if days > LONGEST_DAYS or (span := timedelta(days=days) + after) > timedelta(days=LONGEST_DAYS):
        raise ValueError(f"{text!r} is longer than the limit of {LONGEST_DAYS}d")
    return span


class Span:
    """A duration in a scenario."""

    def __init__(self, text: str) -> None:
        self.seconds = parse_span(text).total_seconds()


class PositiveSpan(Span):
    """A duration of at least one second."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        if self.seconds < 1:
            raise ValueError(f"must be at least one second, got {text!r}")


class Percent:
    """A percentage from 1% to 100%."""

    def __init__(self, text: str) -> None:
        if not re.fullmatch(r"\d{1,3}%", text) or not 0 < int(text[:-1]) <= 100:
            raise ValueError(f"must be a percentage from 1% to 100%, got {text!r}")
        self.number = int(text[:-1])

    def __str__(self) -> str:
        return f"{self.number}%"


class Part(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True, frozen=True):
    """Base of the parts of a scenario document."""

    one_of: ClassVar[tuple[str, ...]] = ()
    """Names, as in the document, of fields of which exactly one must be given."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Faults of the decoded values: the field (empty for the whole part) and the problem."""
        return ()


def read_part(written: object, model: type[P], path: str, faults: list[Fault]) -> P | None:
    """Parse a part; returns None and appends to `faults` if anything in it is wrong."""
    if not isinstance(written, dict):
        faults.append(Fault(path, "must be a mapping", written))
        return None
    before = len(faults)
    fields = {field.encode_name: field for field in structs.fields(model)}
    faults.extend(
        Fault(f"{path}.{name}", f"is not known; {_nearest(str(name), fields)}")
        for name in written
        if name not in fields
    )
    values: Plain = {}
    for name, field in fields.items():
        if name in written:
            value = _read(written[name], field.type, f"{path}.{name}", faults)
            if value is not _UNREADABLE:
                values[field.name] = value
        elif field.required:
            faults.append(Fault(f"{path}.{name}", "is missing"))
    if model.one_of and sum(written.get(name) is not None for name in model.one_of) != 1:
        faults.append(Fault(path, f"needs exactly one of {', '.join(model.one_of[:-1])} and {model.one_of[-1]}"))
    if len(faults) > before:
        return None
    part = model(**values)
    faults.extend(Fault(f"{path}.{name}" if name else path, why) for name, why in part.check())
    return part if len(faults) == before else None


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]}?" if close else f"fields are {', '.join(sorted(known))}"


def _read(written: object, wanted: Any, path: str, faults: list[Fault]) -> Any:
    """Parse the value of a field; returns `_UNREADABLE` and appends to `faults` if it is wrong."""
    mapping = next((each for each in get_args(wanted) if get_origin(each) is dict), wanted)  # also in an optional field
    if get_origin(mapping) is dict and isinstance(written, dict) and get_args(mapping)[1] is not Any:
        return _read_dict(written, get_args(mapping)[1], path, faults)
    part = _part_in(wanted)
    if part is not None and written is not None:
        if get_origin(wanted) is tuple:
            return _read_list(written, part, path, faults)
        found = read_part(written, part, path, faults)
        return _UNREADABLE if found is None else found
    try:
        return msgspec.convert(written, wanted, dec_hook=_hook)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        faults.append(_worded(path + where.rstrip("`"), what, written))
        return _UNREADABLE


def _read_list(written: object, part: type[Part], path: str, faults: list[Fault]) -> Any:
    if not isinstance(written, list):
        faults.append(Fault(path, "must be a list", written))
        return _UNREADABLE
    items = [read_part(item, part, f"{path}[{index}]", faults) for index, item in enumerate(written)]
    return _UNREADABLE if any(item is None for item in items) else tuple(items)


def _read_dict(written: Plain, wanted: Any, path: str, faults: list[Fault]) -> Any:
    items = {str(name): _read(value, wanted, f"{path}.{name}", faults) for name, value in written.items()}
    return _UNREADABLE if any(item is _UNREADABLE for item in items.values()) else items


def _part_in(wanted: Any) -> type[Part] | None:
    """The `Part` class in the type of a field, which may be optional or a tuple."""
    inside: Sequence[Any] = (wanted,)
    if get_origin(wanted) in (tuple, Union, types.UnionType):
        inside = get_args(wanted)
    return next((each for each in inside if isinstance(each, type) and issubclass(each, Part)), None)


def _worded(path: str, what: str, value: object) -> Fault:
    """A fault in plain words for a msgspec error."""
    expected, got, _ = what.partition(", got")
    for theirs, ours in _WORDS.items():
        if expected.startswith(theirs):
            shown = value if isinstance(value, int | float | str | None) and not path.endswith("]") else None
            return Fault(path, ours + expected.removeprefix(theirs), shown)
    return Fault(path, what if got else expected)


def _hook(wanted: type, value: object) -> object:
    if issubclass(wanted, Span):
        if not isinstance(value, str):
            raise ValueError(f"must be a duration such as 30m or 2d, got {value!r}")  # noqa: TRY004 - as msgspec asks
        return wanted(value)
    if wanted is Percent:
        return Percent(str(value))
    if wanted is Quantity:
        amount = Quantity.of(value)  # type: ignore[arg-type]  # it refuses what it cannot read
        if amount.nano < 0:
            raise ValueError(f"must not be negative, got {value!r}")
        return amount
    raise NotImplementedError(wanted)


def share(written: int | str, total: int) -> int | None:
    """How many of `total` a number or a percentage (rounded up) is; None if it is neither."""
    if isinstance(written, int):
        return max(0, written)
    if re.fullmatch(r"[0-9]{1,3}%", written):
        percent = int(written[:-1])
        return -(-total * percent // 100)
    return int(written) if re.fullmatch(r"[0-9]{1,18}", written) else None


def header_faults(written: Mapping[str, Any], api_version: str, kind: str) -> Iterable[Fault]:
    """Faults of the top-level fields and of the metadata."""
    if written.get("apiVersion") != api_version:
        yield Fault("apiVersion", f"must be {api_version}, got {written.get('apiVersion')!r}")
    if written.get("kind") != kind:
        yield Fault("kind", f"must be {kind}, got {written.get('kind')!r}")
    for field in sorted(set(written) - {"apiVersion", "kind", "metadata", "spec"}):
        yield Fault(field, "is not known here; a scenario has apiVersion, kind, metadata and spec")
    meta = written.get("metadata")
    if not isinstance(meta, dict | None):
        yield Fault("metadata", "must be a mapping such as {name: shop}", meta)
        return
    for field in sorted(set(map(str, meta or ())) - _METADATA):
        yield Fault(f"metadata.{field}", f"is not known; {_nearest(field, _METADATA)}")


def aware(instant: datetime, zone: Any) -> datetime:
    """The instant with `zone` as its time zone, if it has none."""
    return instant.replace(tzinfo=zone) if instant.tzinfo is None else instant
