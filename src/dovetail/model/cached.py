"""A cached property: computed on first access and stored in the object's `__dict__`.

Like `functools.cached_property`, without the lock that it has up to Python 3.11. The objects are immutable, so two
threads that compute a value at the same time compute the same one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Self, TypeVar, overload

R = TypeVar("R")
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


def once(find: Callable[[T], R]) -> Callable[[T], R]:
    """As `lazy`, for a function of one such object that does not belong to its class."""
    name = f"_once_{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def kept(instance: T) -> R:
        known = instance.__dict__
        if name not in known:
            known[name] = find(instance)
        found: R = known[name]
        return found

    return kept
