"""Parses values of plain API objects: durations, quantities, selectors, conditions, annotations, command records.

The invariants use these functions and share none with the controllers, so a parsing bug in the product does not hide
itself. They accept every object that the API server accepted, except that unreadable values raise `ValueError` where
the caller must decide what they mean.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

Plain = Mapping[str, Any]

NEVER = math.inf
"""The value of the duration `Never`."""
COMMAND = "dovetail.sh/command"
REPLACES = "dovetail.sh/replaces"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NODEPOOL = "karpenter.sh/nodepool"  # a label
DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"
PAUSE = "dovetail.sh/pause"
CLOSED = "dovetail.sh/closed"  # a taint
DISRUPTION_TAINTS = (("karpenter.sh/disrupted", ""), ("karpenter.sh/disruption", "disrupting"))
"""Key and value of the taints of nodes that are being disrupted; their effect is NoSchedule."""

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+|[A-Za-z]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def duration(text: str) -> float:
    """The seconds of a Go duration such as `1h30m`; infinite for `Never`. ValueError for other text."""
    if text == "Never":
        return NEVER
    sign, digits = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if digits == "0":
        return 0.0
    parts = _PART.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError(f"{text!r} is not a duration")
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)


def quantity(text: str | float) -> Decimal:
    """The value of a quantity such as `1500m` or `2Gi`. ValueError for other text."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = match.groups()
    try:
        if suffix in _BINARY:
            return Decimal(number) * Decimal(2 ** _BINARY[suffix])
        if suffix in _DECIMAL:
            return Decimal(number).scaleb(_DECIMAL[suffix])
        return Decimal(number + suffix)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a quantity") from None


def scaled_value(count_or_percentage: str | int, total: int) -> int:
    """A count, or a percentage of the total rounded up. ValueError for other text."""
    text = str(count_or_percentage)
    if re.fullmatch(r"\d+%", text):
        return -(-int(text[:-1]) * total // 100)
    if re.fullmatch(r"\d+", text):
        return int(text)
    raise ValueError(f"{text!r} is neither a count nor a percentage")


def parse_time(text: str) -> datetime:
    """The instant of an API timestamp; UTC without an offset."""
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def conditions(plain: Plain) -> dict[str, Plain]:
    """The status conditions of an object, by type."""
    return {each["type"]: each for each in (plain.get("status") or {}).get("conditions") or ()}


def annotations(plain: Plain) -> Plain:
    """The annotations of an object."""
    found: Plain = plain["metadata"].get("annotations") or {}
    return found


def command_of(plain: Plain) -> Plain:
    """The command record annotated on a NodeClaim; empty if there is none or it is unreadable."""
    text = annotations(plain).get(COMMAND)
    if not text:
        return {}
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def selector_matches(selector: Plain | None, labels: Plain | None) -> bool:
    """Whether a label selector matches labels. A missing selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_matches(each, labels) for each in selector.get("matchExpressions") or ())


def _expression_matches(expression: Plain, labels: Plain) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def is_paused(plain: Plain, now: datetime) -> bool:
    """Whether the annotation of a NodePool or ConfigMap pauses disruption: `true`, a future time or unreadable text."""
    text = annotations(plain).get(PAUSE)
    if text in (None, "false"):
        return False
    try:
        return now < parse_time(text)
    except ValueError:
        return True


def tolerates(tolerations: Iterable[Plain], key: str, value: str, effect: str = "NoSchedule") -> bool:
    """Whether one of the tolerations matches the taint."""
    for each in tolerations:
        if each.get("effect", "") not in ("", effect) or each.get("key", "") not in ("", key):
            continue
        if each.get("operator") == "Exists" or (each.get("key", "") == key and each.get("value", "") == value):
            return True
    return False
