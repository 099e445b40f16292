"""Requirements of several labels at once, and whether those of a pod can be met by those of a node.

Keeps Karpenter's rules: adding a label twice intersects, a missing label admits everything, and a label nobody defined
satisfies only a requirement that also accepts its absence. Answers are None, or the reason in words.
"""

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from functools import lru_cache

from dovetail.model.requirement import EXISTS, NORMALISED_LABELS, Requirement, RequirementFields


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
        return self._by_key.get(key) or self._by_key.get(NORMALISED_LABELS.get(key, key)) or _anything(key)

    def add(self, *others: "Requirements") -> "Requirements":
        """This set narrowed by others."""
        if not any(others):
            return self
        return Requirements.of(requirement for each in (self, *others) for requirement in each.values())

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
        """Why a label that both speak of has no common value, or None. Absence satisfies two that both accept it."""
        ours, theirs = self._by_key, incoming._by_key  # noqa: SLF001 - of its own kind
        conflicts = []
        for key in ours if len(ours) <= len(theirs) else theirs:
            existing, wanted = ours.get(key), theirs.get(key)
            if existing is None or wanted is None:
                continue
            if not existing.intersects(wanted) and not (existing.tolerates_absence and wanted.tolerates_absence):
                conflicts.append(_conflict(key, wanted, existing))
        return "; ".join(sorted(conflicts)) or None

    def _hint(self, key: str, known: frozenset[str]) -> str:
        """A label that `key` may have been meant to be."""
        name = key.rpartition("/")[2]
        candidates = [*sorted(known), *sorted(self._by_key)]
        meant = next((each for each in candidates if key and key in each), None) or next(
            (each for each in candidates if name and each.endswith(name)), None
        )
        return f' (typo of "{meant}"?)' if meant else ""

    def labels(self) -> dict[str, str]:
        """The labels whose value is settled: those with exactly one admitted value."""
        settled = (each for each in self.values() if not each.complement and len(each.values) == 1)
        return {each.key: each.any() for each in settled}

    def to_wire(self) -> list[RequirementFields]:
        """As manifests spell it, by label."""
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


@lru_cache(maxsize=256)  # requirements on types may name a thousand of them
def _conflict(key: str, wanted: Requirement, existing: Requirement) -> str:
    """In words; often nobody reads them, and the same two meet over and over."""
    return f"key {key}, {wanted} not in {existing}"


@lru_cache(maxsize=1 << 14)
def _exactly(key: str, value: str) -> Requirement:
    return Requirement.of(key, "In", (value,))
