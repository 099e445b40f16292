"""Label and field selectors as they stand in the query of a list or watch."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from dovetail.sim.kubernetes.merge_patch import Plain

Selects = Callable[[Plain], bool]

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<absent_key>[^\s=!,()]+)"
    r"|(?P<key>[^\s=!,()]+)\s*(?:(?P<sign>==|!=|=)\s*(?P<value>[^\s,()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)


def label_selector(text: str) -> Selects:
    """Read `a=b,c!=d,e in (x,y),f notin (z),g,!h`."""
    terms: list[tuple[str, str, frozenset[str]]] = []
    place = 0
    while place < len(text):
        term = _TERM.match(text, place)
        if term is None or term.end() == place:
            raise ValueError(f"label selector {text!r} cannot be read from {text[place:]!r} on")
        terms.append(_read(term))
        place = term.end()
    return lambda plain: all(_holds(term, plain["metadata"].get("labels") or {}) for term in terms)


def _read(term: re.Match[str]) -> tuple[str, str, frozenset[str]]:
    if term["absent"]:
        return term["absent_key"], "absent", frozenset()
    if term["set"]:
        return term["key"], term["set"], frozenset(value.strip() for value in term["values"].split(","))
    if term["sign"]:
        return term["key"], "notin" if term["sign"] == "!=" else "in", frozenset({term["value"]})
    return term["key"], "present", frozenset()


def _holds(term: tuple[str, str, frozenset[str]], labels: Mapping[str, str]) -> bool:
    key, operator, values = term
    value = labels.get(key)
    if operator == "absent":
        return value is None
    if operator == "notin":
        return value is None or value not in values
    return value is not None and (operator == "present" or value in values)


def field_selector(text: str) -> Selects:
    """Read `spec.nodeName=a,metadata.name!=b`; a field that is not there counts as empty."""
    terms: list[tuple[list[str], bool, str]] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        path, sign, value = re.split(r"(!=|==|=)", term, maxsplit=1)
        terms.append((path.split("."), sign != "!=", value))
    return lambda plain: all((_field(plain, path) == value) is wanted for path, wanted, value in terms)


def _field(plain: Mapping[str, Any], path: list[str]) -> str:
    place: Any = plain
    for name in path:
        place = place.get(name) if isinstance(place, Mapping) else None
    return "" if place is None else str(place)
