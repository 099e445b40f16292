"""Runs a target on mutated inputs: a case is known by target, seed and number, has a time limit, and can be minimized.

A case may take `CPU_SECONDS` of processor time, however busy the machine is, and `REAL_SECONDS` by the clock, which
only a wait without end takes. What a target raises is a finding; the answers that the product may give are no errors of
the target.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

CPU_SECONDS = 5.0
REAL_SECONDS = 120.0
_MOST_TRIES = 400  # inputs tried to make a failing one smaller


class TooSlow(BaseException):
    """The case did not end in its time. Not an Exception, so that no handler of the product takes it for one."""


@dataclass(frozen=True)
class Target:
    """Something that reads inputs: how one is made, and what happens to it. `run` raises if a property is broken."""

    name: str
    make: Callable[[Random], bytes]
    run: Callable[[bytes], None]
    cases: int = 100  # in `make test`


@dataclass(frozen=True)
class Finding:
    """A case that broke a property."""

    target: str
    seed: int
    case: int
    content: bytes
    error: str

    def __str__(self) -> str:
        shown = (
            repr(self.content)
            if len(self.content) <= 2000
            else f"{self.content[:2000]!r}... ({len(self.content)} bytes)"
        )
        replay = f"make fuzz TARGET={self.target} SEED={self.seed} CASE={self.case}"
        return f"{self.target}: seed {self.seed}, case {self.case}\ninput: {shown}\n{self.error}\nreplay: {replay}"


def input_of(target: Target, seed: int, case: int) -> bytes:
    """The input of a case."""
    return target.make(Random(f"{target.name}/{seed}/{case}"))  # noqa: S311 - chance that can be repeated


def try_case(target: Target, seed: int, case: int, *, minimize: bool = True) -> Finding | None:
    """Run one case; what breaks is made smaller first."""
    content = input_of(target, seed, case)
    error = failure_of(target, content)
    if error is None:
        return None
    if minimize:
        content = minimized(target, content, _kind(error))
        error = failure_of(target, content) or error
    return Finding(target.name, seed, case, content, error)


def failure_of(target: Target, content: bytes) -> str | None:
    """What running an input breaks."""
    try:
        with time_limit():
            target.run(content)
    except TooSlow as error:
        return "".join(traceback.format_exception(error)[-6:])
    except MemoryError:
        return "MemoryError: it took more memory than the limit of this run\n"
    except Exception as error:  # noqa: BLE001 - every exception is a finding
        return "".join(traceback.format_exception(error)[-12:])
    return None


def _kind(error: str) -> str:
    """The last line up to its first digit or quote: what a smaller input must break, too."""
    last = error.strip().splitlines()[-1]
    return last.partition(":")[0]


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise `TooSlow` inside when it takes too long."""

    def over(_signal: int, _frame: object) -> None:
        raise TooSlow("the case did not end in its time")

    before = {each: signal.signal(each, over) for each in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, REAL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def minimized(target: Target, content: bytes, kind: str) -> bytes:
    """A smaller input that breaks the same: halves, quarters and so on are left out while that is so."""
    tries, size = 0, max(1, len(content) // 2)
    while size and tries < _MOST_TRIES:
        at, smaller = 0, False
        while at < len(content) and tries < _MOST_TRIES:
            candidate = content[:at] + content[at + size :]
            tries += 1
            error = failure_of(target, candidate)
            if error is not None and _kind(error) == kind:
                content, smaller = candidate, True
            else:
                at += size
        size = size if smaller and size < len(content) else size // 2
    return content
