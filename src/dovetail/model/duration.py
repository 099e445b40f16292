"""Durations in the format of Go, and delays, which may also be `Never`.

Parses and prints exactly as Go's `time.ParseDuration` and `Duration.String` do, to the nanosecond, overflow included,
and keeps the original text: `60s` is written back as `60s`, not as `1m0s`. Whether a duration is valid for a field
(positive, whole minutes) is checked by that field's rules.
"""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Final, Self

_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu: Go reads both
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LIMIT = 1 << 63  # magnitude of the most negative duration; the most positive is one less
_REMEDY = 'write numbers with the units h, m, s, ms, us or ns, for example "1h30m"'


def parse_duration(text: str) -> int:
    """Nanoseconds in `text`; ValueError says what is wrong with it."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _fault(text, "it has no number")
    total, at = 0, 0
    while at < len(unsigned):
        part = _PART.match(unsigned, at)
        if part is None or part.end() == at:
            raise _fault(text, f"{unsigned[at:]!r} is not a number with a unit")
        total += _nanoseconds(text, part)
        if total > _LIMIT:
            raise _fault(text, "it is longer than 292 years")
        at = part.end()
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise _fault(text, "it is longer than 292 years")
    return total


def _nanoseconds(text: str, part: re.Match[str]) -> int:
    whole, fraction, unit = part.groups()
    if not whole and not fraction:
        raise _fault(text, f"{part.string[part.start() :]!r} does not start with a number")
    if not unit:
        raise _fault(text, f"{part.group()!r} has no unit")
    if unit not in _UNITS:
        raise _fault(text, f"{unit!r} is not a unit{' (a day is 24h)' if unit == 'd' else ''}")
    digits = whole.lstrip("0") or "0"
    nanoseconds = int(digits) * _UNITS[unit] if len(digits) <= len(str(_LIMIT)) else _LIMIT + 1
    if nanoseconds > _LIMIT:
        raise _fault(text, "it is longer than 292 years")
    return nanoseconds + _fraction_of(fraction or "", _UNITS[unit])


def _fraction_of(digits: str, unit: int) -> int:
    """Nanoseconds in `.digits` of a unit, by Go's floating point, so that the last nanosecond agrees with Go."""
    value, scale = 0, 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if value > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        value, scale = longer, scale * 10
    return int(float(value) * (float(unit) / scale))


def _fault(text: str, problem: str) -> ValueError:
    return ValueError(f"{text!r} is not a duration: {problem}; {_REMEDY}")


def format_duration(nanoseconds: int) -> str:
    """How Go prints a duration: `1h30m0s`, `1.5s`, `2.2ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if size < _SECOND:
        unit = next(unit for unit in ("ms", "µs", "ns") if size >= _UNITS[unit])
        return f"{sign}{_decimal(size, _UNITS[unit])}{unit}"
    minutes, rest = divmod(size, 60 * _SECOND)
    seconds = f"{_decimal(rest, _SECOND)}s"
    if minutes == 0:
        return f"{sign}{seconds}"
    if minutes < 60:
        return f"{sign}{minutes}m{seconds}"
    return f"{sign}{minutes // 60}h{minutes % 60}m{seconds}"


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")


class Duration:
    """A span of time that keeps its original text. Equal if equally long."""

    __slots__ = ("_span", "nanoseconds", "text")

    def __init__(self, text: str, nanoseconds: int) -> None:
        self.text: Final = text
        self.nanoseconds: Final = nanoseconds
        self._span: timedelta | None = None  # computed on first use

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the format of Go; ValueError otherwise."""
        return cls(text, _cached(text))

    @classmethod
    def of(cls, span: timedelta) -> Self:
        """The duration of a span, in the format of Go."""
        nanoseconds = (span // timedelta(microseconds=1)) * 1_000
        return cls(format_duration(nanoseconds), nanoseconds)

    @property
    def span(self) -> timedelta:
        """As a timedelta; fractions of a microsecond are cut off."""
        if self._span is None:
            size = timedelta(microseconds=abs(self.nanoseconds) // 1_000)
            self._span = -size if self.nanoseconds < 0 else size
        return self._span

    def __eq__(self, other: object) -> bool:
        return self.nanoseconds == other.nanoseconds if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Duration({self.text!r})"


class Delay:
    """How long to wait: a duration, or `Never`. Equal if equally long."""

    __slots__ = ("duration",)

    def __init__(self, duration: Duration | None) -> None:
        self.duration: Final = duration

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `Never` or a duration; ValueError otherwise."""
        if text == "Never":
            return cls(None)
        try:
            return cls(Duration.parse(text))
        except ValueError as fault:
            raise ValueError(f'{fault}, or "Never"') from None

    @classmethod
    def of(cls, span: timedelta | None) -> Self:
        """The delay of a span; None is `Never`."""
        return cls(None if span is None else Duration.of(span))

    @property
    def never(self) -> bool:
        """Whether it is `Never`."""
        return self.duration is None

    @property
    def span(self) -> timedelta | None:
        """As a timedelta; None for `Never`."""
        return None if self.duration is None else self.duration.span

    @property
    def text(self) -> str:
        """The original text."""
        return "Never" if self.duration is None else self.duration.text

    def __eq__(self, other: object) -> bool:
        return self.duration == other.duration if isinstance(other, Delay) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.duration)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Delay({self.text!r})"


NEVER = Delay(None)

_cached = lru_cache(maxsize=4096)(parse_duration)
