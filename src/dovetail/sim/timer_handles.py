"""Handles for the callbacks and timers of the virtual event loop.

They replace asyncio's handles, which tasks and timeouts hold and cancel, and leave out everything that only asyncio's
debug mode needs: a simulated month creates millions of them.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.sim.virtual_loop import VirtualLoop


class VirtualHandle(asyncio.Handle):
    """A callback to run. Without a context it runs in the context of the loop."""

    __slots__ = ()
    _repr = None
    _source_traceback = None
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _context: Context | None

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "VirtualLoop", context: Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop: VirtualLoop = loop
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        """Do not run the callback."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()


def _nothing() -> None:
    """Stands in for a cancelled callback."""


class VirtualTimer(VirtualHandle, asyncio.TimerHandle):
    """A callback to run at an instant of virtual time."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "VirtualLoop",
        context: Context | None,
    ) -> None:
        self._callback = callback  # repeats VirtualHandle.__init__, because a super() call is measurable here
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._scheduled = False
        self._when = when

    def cancel(self) -> None:
        """Do not run the callback, and notify the loop."""
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)  # noqa: SLF001 - as asyncio does
        VirtualHandle.cancel(self)
