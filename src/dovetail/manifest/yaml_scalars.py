"""Reads YAML scalars as kubectl does, that is as `sigs.k8s.io/yaml` converts them to JSON.

`y`, `n`, `yes`, `no`, `on` and `off` are booleans, `014` and `0o14` are 12, `1_000` and `1e3` are 1000. Dates and
base-60 numbers stay text, as do numbers that no 64-bit type can hold. Tags of other applications are ignored.
`tests/data/kubectl_yaml` compares the results with those of kubectl's modules.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Mapping

Scalar = str | bool | int | float | None

PREFIX = "tag:yaml.org,2002:"
_WORDS: Mapping[str, Scalar] = {
    form: value
    for words, value in ((("y", "yes", "true", "on"), True), (("n", "no", "false", "off"), False), (("null",), None))
    for word in words
    for form in (word, word.title(), word.upper())
} | {"": None, "~": None}
_NOT_FINITE = {
    sign + form: value
    for signs, forms, value in (
        (("", "+"), (".inf", ".Inf", ".INF"), math.inf),
        (("-",), (".inf", ".Inf", ".INF"), -math.inf),
        (("",), (".nan", ".NaN", ".NAN"), math.nan),
    )
    for sign in signs
    for form in forms
}
_FIRST = frozenset("~nNyYtTfFoO-+.0123456789")
"""First characters of scalars that may be something other than text."""
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FRACTION = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].+)?")
_LONGEST_INTEGER = 80  # characters of a 64-bit integer in any base, with leading zeros
_BASES = {"x": 16, "b": 2, "o": 8}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "null": type(None),
}


def plain(text: str) -> Scalar:
    """The value of a scalar without quotes and tag."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if text[0] == ".":
        return _finite(text) if _FRACTION.fullmatch(text) else text
    return _number(text) if text[0] in "-+0123456789" else text


def tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag. Raises ValueError if the text does not fit the tag."""
    name = tag.removeprefix(PREFIX) if tag.startswith(PREFIX) else ""
    if name == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")
        except binascii.Error:
            raise ValueError(f"{text[:40]!r} is not base64") from None
    if name == "timestamp" and not _TIMESTAMP.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a date")
    if name not in _TYPES:
        return text
    value = plain(text)
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "bool"):
        raise ValueError(f"{text[:40]!r} does not fit its tag !!{name}")
    return float(value) if name == "float" and isinstance(value, int) else value


def key_text(value: Scalar) -> str:
    """The name of a field that is written as a number or boolean. Raises ValueError for other values."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _shortest(value)
    if value is None or (isinstance(value, int) and value >= 1 << 63):
        raise ValueError(f"{'null' if value is None else value} cannot be the name of a field; put it in quotes")
    return str(value)


def _number(text: str) -> Scalar:
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST_INTEGER and (found := _INTEGER.fullmatch(digits)):
        sign, bare = found.groups()
        base = 10 if bare == "0" or bare[0] != "0" else _BASES.get(bare[1].lower(), 8)
        value = int(bare[2:] if bare[1:2].isalpha() else bare, base)
        if value < 1 << (63 if sign == "+" else 64) and sign != "-":
            return value
        if sign == "-" and value <= 1 << 63:
            return -value
    return _finite(digits, text) if _FLOAT.fullmatch(digits) else text


def _finite(digits: str, text: str | None = None) -> Scalar:
    """The number, or the text if a float cannot hold it."""
    value = float(digits)
    return value if math.isfinite(value) else text or digits


def _shortest(value: float) -> str:
    """A number with the fewest digits that identify it as a 32-bit float, as kubectl names such a field."""
    try:
        single = _single(value)
    except OverflowError:
        single = math.copysign(math.inf, value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    for places in range(9):
        scientific = f"{single:.{places}e}"
        if _single(float(scientific)) == single:
            break
    exponent = int(scientific.partition("e")[2])
    return f"{single:.{max(places - exponent, 0)}f}" if -4 <= exponent < 6 else scientific


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
