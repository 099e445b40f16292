"""Percentages of the API, such as `60%`: whole numbers, which may exceed 100."""

import re
from typing import Final, Self

_FORM = re.compile(r"[0-9]{1,4}%")


class Percentage:
    """A percentage as it is written. Equal if equally large."""

    __slots__ = ("percent",)

    def __init__(self, percent: int) -> None:
        self.percent: Final = percent

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a percentage; ValueError otherwise."""
        if not _FORM.fullmatch(text):
            raise ValueError(f"{text!r} is not a percentage such as 60%")
        return cls(int(text[:-1]))

    @property
    def share(self) -> float:
        """As a factor: 0.6 for 60%."""
        return self.percent / 100

    def __eq__(self, other: object) -> bool:
        return self.percent == other.percent if isinstance(other, Percentage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.percent)

    def __str__(self) -> str:
        return f"{self.percent}%"

    def __repr__(self) -> str:
        return f"Percentage({self.percent})"
