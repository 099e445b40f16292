"""A `dovetail` command in a terminal of its own: what it draws, keys, and how it ends."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from contextlib import contextmanager, suppress
from pathlib import Path

DOVETAIL = str(Path(sys.executable).with_name("dovetail"))


class Terminal:
    """What is seen so far, and the keyboard."""

    def __init__(self, process, handle):
        self.process, self.handle = process, handle
        self.exit_code = None

    def until(self, wanted, within=90.0):
        """What was drawn, up to something; a command is slow to start on a busy machine."""
        seen, deadline = b"", time.monotonic() + within
        while wanted not in seen and time.monotonic() < deadline:
            if select.select([self.handle], [], [], 0.2)[0]:
                try:
                    seen += os.read(self.handle, 65536)
                except OSError:  # the other side is closed
                    break
        assert wanted in seen, seen[-2000:]
        return seen

    def press(self, keys):
        os.write(self.handle, keys)

    def reap(self, within=60.0):
        """How it ended; one that does not end is killed, and has no exit code."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if select.select([self.handle], [], [], 0.1)[0]:
                with suppress(OSError):
                    os.read(self.handle, 65536)
            found, status = os.waitpid(self.process, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        return None


@contextmanager
def terminal(*arguments, columns=100, lines=24, **variables):
    """The command, until it ends by itself."""
    process, handle = pty.fork()
    if process == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **variables}
        os.execve(DOVETAIL, ["dovetail", *map(str, arguments)], environment)  # noqa: S606 - our own command
    opened = Terminal(process, handle)
    try:
        fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        yield opened
    finally:
        opened.exit_code = opened.reap()
        os.close(handle)
