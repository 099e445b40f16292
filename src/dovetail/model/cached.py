"""An attribute that is worked out when it is first asked for, and kept.

As `functools.cached_property`, without the lock that one has up to Python 3.11. Values do not change, so what is
worked out by two at once is the same twice.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - reads as what it is for: @lazy
    """Decorates a method of a class whose objects have a `__dict__`: from then on the answer stands there."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._find(instance)
        return found
