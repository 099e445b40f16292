"""Quantities of resources, with the exact arithmetic and format of Kubernetes, and arithmetic on resource lists.

A `Quantity` is an integer number of nano units, never a float. Anything finer is rounded away from zero, as Kubernetes
does, so that a tiny request never becomes zero.

Resource lists map names to quantities; a missing name counts as zero. Nothing here knows which resources exist, or how
the request of a pod is computed.
"""

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Self

_NANO = 1_000_000_000
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_STEPS = tuple((10 ** (power + 9), suffix) for suffix, power in reversed(_DECIMAL.items()))
_BINARY_STEPS = tuple((1 << power, suffix) for suffix, power in reversed(_BINARY.items()))
_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(|[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)")
_REMEDY = 'write a number with a suffix n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, such as "500m" or "2Gi"'
_BINARY_CEILING = ((1 << 63) - 1) * _NANO  # Kubernetes caps amounts written in a binary suffix
_FURTHEST_EXPONENT = 400  # Kubernetes has no limit; larger exponents would exhaust memory
_LONGEST_TEXT = 256


class Quantity:
    """An exact amount. Compares, adds and hashes by value; prints its original text."""

    __slots__ = ("_text", "binary", "nano")

    def __init__(self, nano: int, *, binary: bool = False, text: str = "") -> None:
        self.nano: Final = nano
        self.binary: Final = binary  # prefers Ki, Mi, ... when printed
        self._text: Final = text

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Parse `1500m`, `2Gi`, `1e3`, `0.5`; ValueError otherwise."""
        return _parse(text)

    @staticmethod
    def of(value: int | float | str) -> "Quantity":  # noqa: PYI041 - YAML and JSON have both kinds of numbers
        """Parse a value of a YAML or JSON document, where amounts may be numbers."""
        if type(value) is str:  # the usual case
            return _parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise _fault(value, f"it is of type {type(value).__name__}")
        return _parse(value if isinstance(value, str) else repr(value))

    @property
    def milli(self) -> int:
        """Thousandths, rounded up (away from zero)."""
        return _rounded_up(self.nano, 1_000_000)

    @property
    def units(self) -> int:
        """Whole units, rounded up (away from zero)."""
        return _rounded_up(self.nano, _NANO)

    @property
    def number(self) -> float:
        """In units as a float, for metrics and display; at most the largest float."""
        try:
            return self.nano / _NANO
        except OverflowError:
            return sys.float_info.max if self.nano > 0 else -sys.float_info.max

    def __add__(self, other: Self) -> "Quantity":
        return Quantity(self.nano + other.nano, binary=self.binary if self.nano else other.binary)

    def __sub__(self, other: Self) -> "Quantity":
        return Quantity(self.nano - other.nano, binary=self.binary if self.nano else other.binary)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Self) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Self) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Self) -> bool:
        return self.nano >= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        return self._text or self.canonical

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    @property
    def canonical(self) -> str:
        """The canonical format of Kubernetes: the largest suffix that leaves a whole number."""
        if self.binary and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            return _with_suffix(self.nano // _NANO, _BINARY_STEPS)
        return _with_suffix(self.nano, _DECIMAL_STEPS)


ZERO = Quantity(0, text="0")


@lru_cache(maxsize=1 << 16)
def _parse(text: str) -> Quantity:
    if len(text) > _LONGEST_TEXT:
        raise _fault(text[:20] + "...", f"it is {len(text)} characters long")
    form = _FORM.fullmatch(text)
    if form is None or not (form[2] or form[3]):
        raise _fault(text, "it is empty" if not text else "the format is wrong")
    sign, whole, fraction, suffix = form.group(1), form.group(2), form.group(3) or "", form.group(4)
    digits, binary = int(whole + fraction), suffix in _BINARY
    if binary:
        size = _scaled(digits << _BINARY[suffix], 9 - len(fraction))
        binary, size = size >= _NANO or size == 0, min(size, _BINARY_CEILING)
    else:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(power) > _FURTHEST_EXPONENT:
            raise _fault(text, f"its exponent is beyond {_FURTHEST_EXPONENT}")
        size = _scaled(digits, power + 9 - len(fraction))
    return Quantity(-size if sign == "-" else size, binary=binary, text=text)


def _scaled(digits: int, power: int) -> int:
    return digits * 10**power if power >= 0 else _rounded_up(digits, 10**-power)


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) if value >= 0 else value // unit


def _with_suffix(value: int, steps: tuple[tuple[int, str], ...]) -> str:
    """The value with the largest suffix that leaves a whole number."""
    if value == 0:
        return "0"
    for size, suffix in steps:
        if value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)


def _fault(value: object, problem: str) -> ValueError:
    return ValueError(f"{value!r} is not a quantity: {problem}; {_REMEDY}")


CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
NODES = "nodes"

Resources = Mapping[str, Quantity]


def add(*many: Resources) -> dict[str, Quantity]:
    """The sum by resource name."""
    total: dict[str, Quantity] = {}
    for resources in many:
        for name, amount in resources.items():
            known = total.get(name)
            total[name] = amount if known is None else known + amount
    return total


def subtract(a: Resources, b: Resources) -> dict[str, Quantity]:
    """`a` minus `b` by resource name; may be negative."""
    rest = dict(a)
    for name, amount in b.items():
        rest[name] = rest.get(name, ZERO) - amount
    return rest


def maximum(a: Resources, b: Resources) -> dict[str, Quantity]:
    """The larger amount by resource name; a missing amount is ignored, even against a negative one."""
    larger = dict(a)
    for name, amount in b.items():
        known = larger.get(name)
        if known is None or known < amount:
            larger[name] = amount
    return larger


def fits(request: Resources, free: Resources) -> bool:
    """Whether every requested amount is free. Nothing fits if any free amount is negative."""
    for amount in free.values():
        if amount.nano < 0:
            return False
    return all(amount.nano <= free.get(name, ZERO).nano for name, amount in request.items())


def shortfall(request: Resources, free: Resources) -> tuple[str, ...]:
    """The resources, sorted, for which `request` exceeds the free amount, or whose free amount is negative."""
    short = {name for name, amount in request.items() if amount.nano > free.get(name, ZERO).nano}
    short.update(name for name, amount in free.items() if amount.nano < 0)
    return tuple(sorted(short))
