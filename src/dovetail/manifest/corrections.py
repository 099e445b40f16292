"""Suggests a valid value for a field from an invalid one: `30` and `30 s` become `30s`, `30d` becomes `720h`.

Candidates are derived from the given value; the first one that its schema accepts is suggested. A suggestion is
therefore always valid, but only a guess at what was meant.
"""

import json
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from dovetail.manifest.schema import Schema
from dovetail.manifest.yaml_scalars import plain
from dovetail.model.kube_object import Fault

Accepts = Callable[[Schema, Any], bool]

_SPAN = re.compile(
    r"(\d+(?:\.\d+)?)\s*(w|d|h|m|s)(?:eeks?|ays?|ours?|rs?|in(?:ute)?s?|ec(?:ond)?s?)?\s*", re.IGNORECASE
)
IN_QUOTES = "put it in quotes"
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST = 100  # characters of text to derive a value from
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_AMOUNT = re.compile(r"([0-9.]+)\s*([kmgtpe])(i?)b?", re.IGNORECASE)


def suggestion(schema: Schema, value: Any, accepts: Accepts) -> Any:
    """A value that the schema accepts, or None."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return None
    return next((each for each in _candidates(schema, value) if accepts(schema, each)), None)


def in_yaml(value: Any) -> str:
    """How a value is written in a manifest."""
    return value if isinstance(value, str) and value == plain(value) and value.strip() else json.dumps(value)


def as_written(fault: Fault, text: str) -> Fault:
    """The fault of a number or boolean that has to be text, with the text that was written: `1.10`, `014` or `yes`."""
    quoted = json.dumps(text)
    if not fault.remedy.startswith(IN_QUOTES) or f"{IN_QUOTES}: {quoted}" in fault.remedy or not _WORD.fullmatch(text):
        return fault
    hint = " (without quotes yes, no, on and off are true or false)" if isinstance(fault.value, bool) else ""
    return fault._replace(remedy=f"{IN_QUOTES}: {quoted}{hint}", fix=text)


def _candidates(schema: Schema, value: Any) -> Iterator[Any]:
    if schema.get("type") == "array":
        yield from ([value],) if isinstance(value, str) else ()
    elif isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, int):
        yield from (str(value), f"{value}s")
    elif isinstance(value, str):
        yield from _from_text(schema, value)


def _from_text(schema: Schema, text: str) -> Iterator[Any]:
    choices = {choice.lower(): choice for choice in schema.get("enum", ("Never",))}
    yield from (choices[each] for each in get_close_matches(text.strip().lower(), choices, n=1))
    value = plain(text.strip())
    if not isinstance(value, str) and value is not None:
        yield value
    yield from ("".join(text.split()), " ".join(text.split()))
    yield from (each for each in (_span(text), _amount(text), f"{text}s") if each)
    fields = text.split()
    if len(fields) == 5 and fields[4] == "7":
        yield " ".join((*fields[:4], "0"))  # Sunday
    if len(fields) == 6 and fields[0] == "0":
        yield " ".join(fields[1:])  # a schedule with seconds


def _span(text: str) -> str:
    """A duration in other units, in hours, minutes and seconds."""
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip():
        return ""
    seconds = sum((float(number) * _SECONDS[unit.lower()] for number, unit in parts), 0.0)
    counts = (seconds // 3600, seconds % 3600 // 60, seconds % 60)
    shown = "".join(f"{count:.0f}{unit}" for count, unit in zip(counts, "hms", strict=True) if count)
    return shown if shown and seconds.is_integer() else ""


def _amount(text: str) -> str:
    """A quantity with the suffix that Kubernetes uses, such as 64Gi."""
    found = _AMOUNT.fullmatch(text.strip())
    if not found:
        return ""
    number, unit, binary = found.groups()
    return f"{number}{'k' if unit in 'kK' and not binary else unit.upper()}{'i' if binary else ''}"
