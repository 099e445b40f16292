"""Chance in the words the generator needs, and the vocabulary that all parts of a random cluster share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from dovetail.model.labels import WELL_KNOWN

T = TypeVar("T")

ZONES = ("zone-a", "zone-b", "zone-c")
APPS = ("web", "db", "job")
NAMESPACES = {"default": {"tier": "front"}, "shop": {"tier": "back"}, "lab": {}}
TEAM = "example.com/team"  # a label of pools and nodes
RACK = "example.com/rack"  # a label that pools leave open
CPUS = "example.com/cpus"  # a number every type has; well-known to the provider
FAMILY = "example.com/family"  # a label of types that is not well-known
RESERVATION = "example.com/reservation"
GPU = "example.com/gpu"
DRIVER = "disk.example.com"
KNOWN = WELL_KNOWN | {CPUS, RESERVATION}

THEMES = (
    "requirements",
    "taints",
    "containers",
    "daemons",
    "ports",
    "volumes",
    "affinity",
    "spread",
    "preferences",
    "limits",
    "minvalues",
    "arrivals",
    "departures",
)


@dataclass
class Dice:
    """A seeded source of choices. A case has a few themes, so that features meet often and pods still find places."""

    random: Random
    size: str = "small"
    themes: frozenset[str] = frozenset()
    serial: dict[str, int] = field(default_factory=dict)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def about(self, theme: str, chance: float) -> bool:
        """More likely if the case is about it, never if it is not."""
        return theme in self.themes and self.maybe(chance)

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], least: int = 1) -> list[T]:
        count = self.random.randint(least, len(choices))
        return sorted(self.random.sample(choices, count), key=choices.index)

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def name(self, stem: str) -> str:
        """Names that do not come in the order things are made."""
        self.serial[stem] = self.serial.get(stem, 0) + 1
        return f"{stem}-{self.random.choice('abcdxyz')}{self.serial[stem]}"


def throw(seed: int, size: str) -> Dice:
    random = Random(seed)  # noqa: S311 - a reproducible cluster, no secret
    themes = frozenset(theme for theme in THEMES if random.random() < 0.3)
    return Dice(random, size, themes)
