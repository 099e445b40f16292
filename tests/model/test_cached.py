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


def test_it_is_worked_out_once_for_each_object():
    asked = []
    two, three = Square(2, asked), Square(3, asked)
    assert [two.area, three.area, two.area, two.missing, two.missing] == [4, 9, 4, None, None]
    assert asked == [2, 3, 0]


def test_what_was_asked_of_a_value_changes_neither_what_it_equals_nor_its_fields():
    asked, fresh = Square(2, []), Square(2, [])
    assert asked.missing is None
    asked.asked.clear()
    assert asked == fresh
    with pytest.raises(AttributeError):
        asked.side = 3


def test_the_class_itself_tells_what_it_is():
    assert Square.area.__doc__ == "Side times side."
