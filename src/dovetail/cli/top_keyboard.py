"""Keys as they are pressed, from the terminal, without waiting for a line. The terminal is left as it was found."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_ESCAPES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
}


def keys_of(text: str) -> Iterator[str]:
    """The keys in what was typed; sequences nobody knows are passed over."""
    at = 0
    while at < len(text):
        found = next((escape for escape in _ESCAPES if text.startswith(escape, at)), None)
        if found is not None:
            yield _ESCAPES[found]
            at += len(found)
        elif text[at] == "\x1b":
            return
        else:
            yield text[at]
            at += 1


@contextmanager
def keyboard(loop: asyncio.AbstractEventLoop, press: Callable[[str], object]) -> Iterator[None]:
    """Call `press` for every key while inside. Without a terminal to read from, nothing is ever pressed."""
    import termios
    import tty

    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        yield
        return

    def read() -> None:
        with suppress(OSError):
            for key in keys_of(os.read(terminal, 1024).decode(errors="ignore")):
                press(key)

    try:
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        loop.add_reader(terminal, read)
        try:
            yield
        finally:
            loop.remove_reader(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    finally:
        os.close(terminal)
