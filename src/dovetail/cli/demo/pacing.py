"""How fast virtual time goes by: waits in real time before each jump, and asks for a frame whenever one is due.

The world never learns of it, so a run is the same at every speed. Asked to stop, it waits no more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

_LONGEST_LAG = 0.5  # seconds behind before the world is no longer hurried to catch up


@dataclass(slots=True)
class Pacer:
    """The pace of one run. `draw` gets the virtual time to show; `clock` and `sleep` are those of the machine."""

    speed: float | None
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    draw: Callable[[float], None] | None = None
    frame: float = 0.125
    on_stop: Callable[[], None] | None = None
    _stopped: bool = False
    _began: tuple[float, float] | None = None  # real and virtual
    _drawn_at: float = field(default=float("-inf"))

    def stop(self) -> None:
        """Wait no more; tell the run at the next jump. Safe in a signal handler."""
        self._stopped = True

    def __call__(self, when: float) -> None:
        """Time is about to jump to `when`."""
        if self._stopped:
            if self.on_stop is not None:
                self.on_stop()
            return
        if self.speed is None:
            self._draw_if_due(self.clock(), when)
        else:
            self._wait(when, self.speed)

    def _wait(self, when: float, speed: float) -> None:
        now = self.clock()
        if self._began is None:
            self._began = (now, 0.0)
        real, virtual = self._began
        target = real + (when - virtual) / speed
        while now < target and not self._stopped:
            self._draw_if_due(now, virtual + (now - real) * speed)
            self.sleep(max(0.0, min(target - now, self.frame)))
            now = self.clock()
        self._draw_if_due(now, when)
        if now - target > _LONGEST_LAG:
            self._began = (now, when)

    def _draw_if_due(self, now: float, virtual: float) -> None:
        if self.draw is not None and now - self._drawn_at >= self.frame:
            self._drawn_at = now
            self.draw(virtual)
