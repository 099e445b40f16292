"""A trial: the initial objects of a cluster, user actions and faults, as a list of independent, named pieces.

A piece keeps its id and its content when other pieces are removed, so `runner.shrink` and `dovetail torture --only` can
run a subset of the pieces. This module holds data only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Parameters = Mapping[str, Any]
"""Parameters of a piece, by name."""


@dataclass(frozen=True)
class TrialPiece:
    """An initial object (`at` is 0), a user action or a fault."""

    id: str
    at: float  # seconds since the start
    what: str  # names the action, fault or kind of object, such as "scale"
    parameters: Parameters = field(default_factory=dict)
    needed: bool = False  # never removed when a trial is shrunk

    def __str__(self) -> str:
        parameters = ", ".join(f"{name} {_shorten(value)}" for name, value in self.parameters.items())
        return f"{self.at:7.0f} s  {self.id:<4} {self.what}{': ' + parameters if parameters else ''}"


@dataclass(frozen=True)
class Trial:
    """The pieces drawn from a seed, or a subset of them."""

    seed: int
    pieces: tuple[TrialPiece, ...]
    faults_end_at: float  # no faults are injected from this second on

    def filtered(self, keep: Callable[[TrialPiece], bool]) -> "Trial":
        """The trial with the pieces that `keep` accepts and those marked `needed`."""
        return replace(self, pieces=tuple(each for each in self.pieces if each.needed or keep(each)))

    def only(self, ids: Iterable[str]) -> "Trial":
        """The trial with the pieces of these ids and those marked `needed`."""
        kept = set(ids)
        return self.filtered(lambda piece: piece.id in kept)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the pieces that can be removed."""
        return tuple(each.id for each in self.pieces if not each.needed)

    @property
    def incidents(self) -> tuple[TrialPiece, ...]:
        """The user actions and faults, ordered by time."""
        return tuple(sorted((each for each in self.pieces if each.at > 0), key=lambda each: (each.at, each.id)))

    @property
    def initial_pieces(self) -> tuple[TrialPiece, ...]:
        """The pieces that exist from the start."""
        return tuple(each for each in self.pieces if each.at == 0)

    def __str__(self) -> str:
        lines = [*map(str, self.initial_pieces), *map(str, self.incidents)]
        return "\n".join([*lines, f"{self.faults_end_at:7.0f} s       end of faults"])


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else text[:300] + "..."
