"""An asyncio loop whose clock can run faster than the world's, with real sockets: minutes of waiting pass in seconds.

Only what waits is hurried; what is sent over HTTP takes as long as it takes. Timeouts are hurried too, so the pace has
to leave a slow server its time.
"""

import asyncio
import selectors
import time


class _Selector(selectors.DefaultSelector):
    pace = 1.0

    def select(self, timeout=None):
        return super().select(None if timeout is None else timeout / self.pace)


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop at normal speed until `hurry` is called."""

    def __init__(self):
        self._real, self._told, self._pace = time.monotonic(), 0.0, 1.0
        self._own = _Selector()
        super().__init__(self._own)

    def time(self):
        return self._told + (time.monotonic() - self._real) * self._pace

    def hurry(self, pace):
        """Let the clock of the loop run this many times faster from now on."""
        self._told, self._real, self._pace = self.time(), time.monotonic(), pace
        self._own.pace = pace


def hurry(main):
    """Run a coroutine to its end on this loop."""
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        return runner.run(main)
