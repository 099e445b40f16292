"""Attributes that are worked out once."""

from dataclasses import dataclass

import pytest

from dovetail.model.cached import lazy


@dataclass(frozen=True)
class Square:
    """Counts how often it was asked."""

    side: int
    asked: list[int]

    @lazy
    def area(self) -> int:
        """Side times side."""
        self.asked.append(self.side)
        return self.side * self.side

    @lazy
    def missing(self) -> int | None:
        """Nothing is an answer as well."""
        self.asked.append(0)


def test_the_value_is_computed_once_for_each_object():
    asked = []
    two, three = Square(2, asked), Square(3, asked)
    assert [two.area, three.area, two.area, two.missing, two.missing] == [4, 9, 4, None, None]
    assert asked == [2, 3, 0]


def test_cached_values_do_not_change_equality_or_fields():
    asked, fresh = Square(2, []), Square(2, [])
    assert asked.missing is None
    asked.asked.clear()
    assert asked == fresh
    with pytest.raises(AttributeError):
        asked.side = 3


def test_access_on_the_class_returns_the_descriptor():
    assert Square.area.__doc__ == "Side times side."
