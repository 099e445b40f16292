"""Reads values of plain API objects: durations, quantities, label selectors, conditions, annotations, command records.

Written for the invariants alone and shared with nothing they judge: if the product misreads a field, these readers do
not. They take the plain objects of the API server and never raise on objects that the API server accepted, except where
the caller has to decide what an unreadable value means (`ValueError`).
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
"""The span of a duration written as `Never`."""
COMMAND = "dovetail.sh/command"
REPLACES = "dovetail.sh/replaces"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"
PAUSE = "dovetail.sh/pause"
DISRUPTION_TAINTS = (("karpenter.sh/disrupted", ""), ("karpenter.sh/disruption", "disrupting"))
"""Keys and values of the two taints of a node that goes; both have the effect NoSchedule."""

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+|[A-Za-z]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def duration(written: str) -> float:
    """Seconds of a Go duration such as `1h30m`; infinite for `Never`. ValueError for anything else."""
    if written == "Never":
        return NEVER
    sign, digits = (-1.0, written[1:]) if written[:1] == "-" else (1.0, written.removeprefix("+"))
    if digits == "0":
        return 0.0
    parts = _PART.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError(f"{written!r} is no duration")
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)


def quantity(written: str | float) -> Decimal:
    """A quantity such as `1500m` or `2Gi`. ValueError for anything else."""
    match = _QUANTITY.fullmatch(str(written))
    if match is None:
        raise ValueError(f"{written!r} is no quantity")
    number, suffix = match.groups()
    try:
        if suffix in _BINARY:
            return Decimal(number) * Decimal(2 ** _BINARY[suffix])
        if suffix in _DECIMAL:
            return Decimal(number).scaleb(_DECIMAL[suffix])
        return Decimal(number + suffix)
    except InvalidOperation:
        raise ValueError(f"{written!r} is no quantity") from None


def share(written: str | int, total: int) -> int:
    """A count, or a percentage of a total rounded up. ValueError if it is neither, or negative."""
    text = str(written)
    if re.fullmatch(r"\d+%", text):
        return -(-int(text[:-1]) * total // 100)
    if re.fullmatch(r"\d+", text):
        return int(text)
    raise ValueError(f"{written!r} is neither a count nor a percentage")


def instant(written: str) -> datetime:
    """An instant as the API writes it."""
    read = datetime.fromisoformat(written)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def conditions(plain: Plain) -> dict[str, Plain]:
    """The conditions of an object's status by type."""
    return {each["type"]: each for each in (plain.get("status") or {}).get("conditions") or ()}


def annotations(plain: Plain) -> Plain:
    """The annotations of an object."""
    found: Plain = plain["metadata"].get("annotations") or {}
    return found


def command_of(plain: Plain) -> Plain:
    """The command that is written on a NodeClaim, or nothing."""
    written = annotations(plain).get(COMMAND)
    if not written:
        return {}
    try:
        read = json.loads(written)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def selects(selector: Plain | None, labels: Plain | None) -> bool:
    """Whether a label selector matches these labels; an absent selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: Plain, labels: Plain) -> bool:
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
    """Whether a NodePool or ConfigMap pauses disruption: `true`, an instant still to come, or anything unreadable."""
    written = annotations(plain).get(PAUSE)
    if written in (None, "false"):
        return False
    try:
        return now < instant(written)
    except ValueError:
        return True


def tolerates(tolerations: Iterable[Plain], key: str, value: str, effect: str = "NoSchedule") -> bool:
    """Whether one of the tolerations matches a taint."""
    for each in tolerations:
        if each.get("effect", "") not in ("", effect) or each.get("key", "") not in ("", key):
            continue
        if each.get("operator") == "Exists" or (each.get("key", "") == key and each.get("value", "") == value):
            return True
    return False
