"""Virtual time over real sockets: time jumps to the next timer as soon as no socket has anything to say.

Client and server run on one loop in one process and talk over loopback, where what is sent can be received at once. So
when no socket is ready, nothing is under way, and waiting for the next timer would be waiting for the clock alone.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

GRACE = 0.0002
"""Real seconds the kernel gets to deliver before time jumps."""


class JumpingSelector(selectors.DefaultSelector):
    """Never waits longer than the grace; what is left of a wait passes as virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(GRACE)
        if not ready:
            assert timeout is not None, "nothing is left to do, and no timer is set"
            self.now += max(timeout, 0.0)
        return ready


class SocketLoop(asyncio.SelectorEventLoop):
    """A loop with sockets whose time is the selector's."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a fresh loop to its end."""
    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        return runner.run(main)
