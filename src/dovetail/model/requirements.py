"""Requirements on node labels: the values that a label may have, and whether two sets of requirements are compatible.

`Requirement` is one label and the values it admits: a set of values, or everything except a set (`complement`), with
optional inclusive integer bounds. `Requirements` has at most one requirement for each label; adding a second one for
the same label intersects them. A label without a requirement admits everything. A label that is not defined satisfies
only a requirement that also accepts its absence (NotIn, DoesNotExist).

The rules are Karpenter's, with two differences: nothing is random, and excluded values are kept when they are written
together with bounds. Checks return None, or the reason in words.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, ValuesView
from functools import lru_cache
from typing import NotRequired, TypedDict

import msgspec

from dovetail.model import labels

NORMALIZED_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": labels.ZONE,
    "failure-domain.beta.kubernetes.io/region": labels.REGION,
    "beta.kubernetes.io/arch": labels.ARCH,
    "beta.kubernetes.io/os": labels.OS,
    "beta.kubernetes.io/instance-type": labels.INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": labels.ZONE,
}
"""Deprecated and provider-specific keys, replaced in every requirement before it is used."""

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
BOUNDS = ("Gt", "Lt", "Gte", "Lte")
OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, *BOUNDS)

_LARGEST = (1 << 63) - 1
_SHOWN_VALUES = 5
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")  # no label value is longer


class RequirementFields(TypedDict):
    """A requirement as written in manifests."""

    key: str
    operator: str
    values: NotRequired[list[str]]
    minValues: NotRequired[int]


class Requirement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The values that one label may have. Only NotIn and DoesNotExist accept a missing label."""

    key: str
    complement: bool
    values: frozenset[str] = frozenset()
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @staticmethod
    def of(key: str, operator: str, values: Collection[str] = (), min_values: int | None = None) -> "Requirement":
        """Parse a requirement of a manifest; ValueError for an unknown operator or a bound that is not an integer."""
        key = NORMALIZED_LABELS.get(key, key)
        if operator in (IN, NOT_IN):
            excluded = operator == NOT_IN
            return Requirement(key=key, complement=excluded, values=frozenset(values), min_values=min_values)
        if operator in (EXISTS, DOES_NOT_EXIST):
            return Requirement(key=key, complement=operator == EXISTS, min_values=min_values)
        if operator in BOUNDS:
            return _bounded(key, operator, values, min_values)
        raise ValueError(f"operator {operator!r} of requirement {key!r} is unknown; use one of {', '.join(OPERATORS)}")

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist. With bounds it is Exists, or NotIn if values are excluded as well."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    @property
    def tolerates_absence(self) -> bool:
        """Whether a node without the label meets it."""
        return self.operator in (NOT_IN, DOES_NOT_EXIST)

    @property
    def is_empty(self) -> bool:
        """Whether no value is admitted (DoesNotExist)."""
        return not self.complement and not self.values

    def has(self, value: str) -> bool:
        """Whether the value is admitted."""
        return (value in self.values) is not self.complement and _within(value, self.gte, self.lte)

    def intersection(self, other: "Requirement") -> "Requirement":
        """The values that both admit. Bounds are applied to a set of values and then dropped."""
        gte, lte = _larger(self.gte, other.gte), _smaller(self.lte, other.lte)
        min_values = _larger(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(key=self.key, complement=False, min_values=min_values)
        complement = self.complement and other.complement
        values = self._common_values(other)
        if gte is not None or lte is not None:
            values = frozenset(value for value in values if _within(value, gte, lte))
        if not complement:
            gte = lte = None
        return Requirement(key=self.key, complement=complement, values=values, gte=gte, lte=lte, min_values=min_values)

    def _common_values(self, other: "Requirement") -> frozenset[str]:
        if self.complement and other.complement:
            return self.values | other.values
        if self.complement:
            return other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def intersects(self, other: "Requirement") -> bool:
        """Whether both admit a common value; two complements always do if their bounds overlap."""
        if self.complement and other.complement:
            gte, lte = _larger(self.gte, other.gte), _smaller(self.lte, other.lte)
            return gte is None or lte is None or gte <= lte
        concrete, against = (other, self) if self.complement else (self, other)
        if concrete.gte is None and concrete.lte is None and against.gte is None and against.lte is None:
            return (
                not concrete.values <= against.values
                if against.complement
                else not concrete.values.isdisjoint(against.values)
            )
        return any(concrete.has(value) and against.has(value) for value in concrete.values)

    def any(self) -> str:
        """One admitted value, always the same: the smallest listed, or an integer next to a bound; "" if none."""
        if not self.complement:
            return min(self.values, default="")
        return next((value for value in map(str, self._integers()) if self.has(value)), "")

    def _integers(self) -> Iterable[int]:
        """One more integer than there are excluded values, so that one of them is admitted if any is."""
        tries = len(self.values) + 1
        if self.gte is None and self.lte is not None:
            return range(self.lte, self.lte - tries, -1)
        start = self.gte or 0
        return range(start, start + tries)

    def to_wire(self) -> list[RequirementFields]:
        """As written in manifests: one entry, or one for each bound and one for excluded values."""
        entries: list[tuple[str, list[str]]] = []
        if self.gte is not None:
            entries.append(("Gte", [str(self.gte)]))
        if self.lte is not None:
            entries.append(("Lte", [str(self.lte)]))
        if not entries or self.values:
            entries.append((self.operator, sorted(self.values)))
        return [self._entry(operator, values) for operator, values in entries]

    def _entry(self, operator: str, values: list[str]) -> RequirementFields:
        entry = RequirementFields(key=self.key, operator=operator)
        if values:
            entry["values"] = values
        if self.min_values is not None:
            entry["minValues"] = self.min_values
        return entry

    def __str__(self) -> str:
        shown = f"{self.key} {self.operator}"
        if self.values:
            listed = sorted(self.values)
            more = len(listed) - _SHOWN_VALUES
            shown += f" [{' '.join(listed[:_SHOWN_VALUES])}{f' and {more} others' if more > 0 else ''}]"
        for sign, number in ((">=", self.gte), ("<=", self.lte), ("minValues ", self.min_values)):
            shown += "" if number is None else f" {sign}{number}"
        return shown


def _bounded(key: str, operator: str, values: Collection[str], min_values: int | None) -> Requirement:
    bound = _integer(next(iter(values))) if len(values) == 1 else None
    if bound is None:
        raise ValueError(
            f"requirement {key!r} with operator {operator} has the values {sorted(values)};"
            ' it needs exactly one integer, such as ["4"]'
        )
    gte = {"Gt": bound + 1, "Gte": bound}.get(operator)
    lte = {"Lt": bound - 1, "Lte": bound}.get(operator)
    if (gte is not None and gte > _LARGEST) or (lte is not None and lte < -_LARGEST - 1):
        return Requirement(key=key, complement=False, min_values=min_values)
    return Requirement(key=key, complement=True, gte=gte, lte=lte, min_values=min_values)


@lru_cache(maxsize=1 << 14)
def _integer(value: str) -> int | None:
    """The value as a 64-bit integer, if it is one."""
    number = int(value) if _INTEGER.fullmatch(value) else None
    return number if number is not None and -_LARGEST - 1 <= number <= _LARGEST else None


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    number = _integer(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def _larger(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


class Requirements:
    """An immutable set of requirements, at most one for each label."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, by_key: Mapping[str, Requirement]) -> None:
        self._by_key = by_key
        self._hash: int | None = None

    @staticmethod
    def of(requirements: Iterable[Requirement]) -> "Requirements":
        """Collect requirements; those of one label are intersected."""
        by_key: dict[str, Requirement] = {}
        for requirement in requirements:
            known = by_key.get(requirement.key)
            by_key[requirement.key] = requirement if known is None else known.intersection(requirement)
        return Requirements(by_key)

    @staticmethod
    def from_labels(labels: Mapping[str, str]) -> "Requirements":
        """Each label as a requirement for exactly its value."""
        return Requirements.of(_exactly(key, value) for key, value in labels.items())

    def get(self, key: str) -> Requirement:
        """The requirement on a label; a label without one admits everything."""
        return self._by_key.get(key) or self._by_key.get(NORMALIZED_LABELS.get(key, key)) or _anything(key)

    def add(self, *others: "Requirements") -> "Requirements":
        """This set intersected with others."""
        if not any(others):
            return self
        return Requirements.of(requirement for each in (self, *others) for requirement in each.values())

    def without_min_values(self) -> "Requirements":
        """The same requirements without `minValues`."""
        if all(each.min_values is None for each in self.values()):
            return self
        return Requirements({key: msgspec.structs.replace(each, min_values=None) for key, each in self.items()})

    def compatible(self, incoming: "Requirements", allow_undefined: frozenset[str] = frozenset()) -> str | None:
        """Why `incoming` cannot be met here, or None. Labels in `allow_undefined` need not be defined here."""
        undefined = [
            key
            for key, wanted in incoming.items()
            if key not in self._by_key and key not in allow_undefined and not wanted.tolerates_absence
        ]
        reasons = [
            f'label "{key}" does not have known values{self._hint(key, allow_undefined)}' for key in sorted(undefined)
        ]
        if (conflict := self.intersects(incoming)) is not None:
            reasons.append(conflict)
        return "; ".join(reasons) or None

    def intersects(self, incoming: "Requirements") -> str | None:
        """Why a label that both have requirements on has no common value, or None.

        Two requirements that accept the absence of the label are always compatible.
        """
        ours, theirs = self._by_key, incoming._by_key  # noqa: SLF001 - the same class
        conflicts = []
        for key in ours if len(ours) <= len(theirs) else theirs:
            existing, wanted = ours.get(key), theirs.get(key)
            if existing is None or wanted is None:
                continue
            if not existing.intersects(wanted) and not (existing.tolerates_absence and wanted.tolerates_absence):
                conflicts.append(_conflict(key, wanted, existing))
        return "; ".join(sorted(conflicts)) or None

    def _hint(self, key: str, known: frozenset[str]) -> str:
        """A known label that `key` may be a typo of, in words."""
        name = key.rpartition("/")[2]
        candidates = [*sorted(known), *sorted(self._by_key)]
        meant = next((each for each in candidates if key and key in each), None) or next(
            (each for each in candidates if name and each.endswith(name)), None
        )
        return f' (typo of "{meant}"?)' if meant else ""

    def labels(self) -> dict[str, str]:
        """The labels that have exactly one admitted value, with that value."""
        settled = (each for each in self.values() if not each.complement and len(each.values) == 1)
        return {each.key: each.any() for each in settled}

    def to_wire(self) -> list[RequirementFields]:
        """As written in manifests, sorted by label."""
        return [entry for key in sorted(self._by_key) for entry in self._by_key[key].to_wire()]

    def values(self) -> ValuesView[Requirement]:
        """The requirements."""
        return self._by_key.values()

    def items(self) -> Iterable[tuple[str, Requirement]]:
        """Labels and their requirements."""
        return self._by_key.items()

    def keys(self) -> Iterable[str]:
        """The labels with a requirement."""
        return self._by_key.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __eq__(self, other: object) -> bool:
        return self._by_key == other._by_key if isinstance(other, Requirements) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    def __str__(self) -> str:
        return ", ".join(str(self._by_key[key]) for key in sorted(self._by_key))

    def __repr__(self) -> str:
        return f"Requirements({self})"


@lru_cache(maxsize=4096)
def _anything(key: str) -> Requirement:
    return Requirement.of(key, EXISTS)


@lru_cache(maxsize=256)  # few entries, because a requirement may list a thousand instance types
def _conflict(key: str, wanted: Requirement, existing: Requirement) -> str:
    """The conflict in words; cached, because the same pairs are compared very often."""
    return f"key {key}, {wanted} not in {existing}"


@lru_cache(maxsize=1 << 14)
def _exactly(key: str, value: str) -> Requirement:
    return Requirement.of(key, "In", (value,))
