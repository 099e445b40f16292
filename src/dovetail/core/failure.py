"""Turns an exception about one object into a refusal of that object.

Objects are checked when they are decoded, so this is the second line of defense: an unexpected error blocks only the
node, pod or NodePool that caused it, and not the pass for all others. Assertions are not caught, since they mean that
Dovetail itself is wrong.
"""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TypeVar

from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode

R = TypeVar("R")
T = TypeVar("T")


def attempt(about: ObjectRef, judge: Callable[[], R]) -> R | Refusal:
    """The result of `judge`, or a refusal if it raises."""
    try:
        return judge()
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - any error concerns this object alone
        return internal_error(about, error)


def internal_error(about: ObjectRef, error: Exception) -> Refusal:
    """The refusal of an object that caused an error."""
    return Refusal(RefusalCode.INTERNAL_ERROR, about, permanent=True, detail=_words(error))


def _words(error: Exception) -> str:
    trace, place = error.__traceback__, "?"
    while trace is not None:
        place, trace = f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}", trace.tb_next
    return f"{type(error).__name__} at {place}: {error}"


def find_culprits(items: Sequence[T], work: Callable[[Sequence[T]], object]) -> list[tuple[T, Exception]]:
    """The items that make `work` fail, found by bisection: about log2(n) calls for each of them.

    Raises the error of `work` if it fails without any item: then no item is the cause.
    """
    work(())
    found: list[tuple[T, Exception]] = []
    pending = [items]
    while pending:
        some = pending.pop()
        try:
            work(some)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            if len(some) == 1:
                found.append((some[0], error))
            else:
                half = len(some) // 2
                pending += [some[half:], some[:half]]
    return found
