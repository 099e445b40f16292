"""A cached property: computed on first access and stored in the object's `__dict__`.

Like `functools.cached_property`, without the lock that it has up to Python 3.11. The objects are immutable, so two
threads that compute a value at the same time compute the same one.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, used as @lazy
    """Decorates a method without arguments of a class whose objects have a `__dict__`."""

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
