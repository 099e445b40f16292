"""What the virtual loop keeps of a callback until its turn comes.

As asyncio's own handles, which tasks and timeouts hold and cancel, without what only debugging needs: a simulated month
makes millions of them.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.sim.virtual_loop import VirtualLoop


class VirtualHandle(asyncio.Handle):
    """A callback to be run. Without a context of its own it runs in that of the loop, which nobody changes."""

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
        """Do not run it."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()


def _nothing() -> None:
    """What is left of a callback that was cancelled."""


class VirtualTimer(VirtualHandle, asyncio.TimerHandle):
    """A callback to be run at an instant."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "VirtualLoop",
        context: Context | None,
    ) -> None:
        self._callback = callback  # as a handle does: there are very many
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._scheduled = False
        self._when = when

    def cancel(self) -> None:
        """Do not run it, and tell the loop."""
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)  # noqa: SLF001 - as asyncio does
        VirtualHandle.cancel(self)
