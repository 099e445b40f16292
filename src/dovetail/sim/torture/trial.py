"""A story for the world to live through: what there is, what people do, and what fails, each piece with a name.

A piece keeps its name and its content whatever else is left out, so a story can be cut down piece by piece and told
again. Nothing here acts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Terms = Mapping[str, Any]


@dataclass(frozen=True)
class TrialPiece:
    """One thing that is there from the start (`at` is 0), that somebody does, or that fails."""

    id: str
    at: float  # seconds since the start
    what: str
    terms: Terms = field(default_factory=dict)
    needed: bool = False  # no story works without it

    def __str__(self) -> str:
        told = ", ".join(f"{name} {_short(value)}" for name, value in self.terms.items())
        return f"{self.at:7.0f} s  {self.id:<4} {self.what}{': ' + told if told else ''}"


@dataclass(frozen=True)
class Trial:
    """All pieces of a seed, or what is left of them."""

    seed: int
    pieces: tuple[TrialPiece, ...]
    peace_at: float  # from here on nothing fails any more

    def keeping(self, wanted: Callable[[TrialPiece], bool]) -> "Trial":
        """The story with those pieces alone, and what no story works without."""
        return replace(self, pieces=tuple(each for each in self.pieces if each.needed or wanted(each)))

    def only(self, ids: Iterable[str]) -> "Trial":
        """The story with the pieces of these names."""
        kept = set(ids)
        return self.keeping(lambda piece: piece.id in kept)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the pieces that could be left out."""
        return tuple(each.id for each in self.pieces if not each.needed)

    @property
    def incidents(self) -> tuple[TrialPiece, ...]:
        """What happens on the way, in order."""
        return tuple(sorted((each for each in self.pieces if each.at > 0), key=lambda each: (each.at, each.id)))

    @property
    def scene(self) -> tuple[TrialPiece, ...]:
        """What is there from the start."""
        return tuple(each for each in self.pieces if each.at == 0)

    def __str__(self) -> str:
        lines = [*map(str, self.scene), *map(str, self.incidents)]
        return "\n".join([*lines, f"{self.peace_at:7.0f} s       nothing fails any more"])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else text[:300] + "..."
