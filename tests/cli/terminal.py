"""Runs a `dovetail` command in a pseudo-terminal: reads its screen, sends keys, and gets its exit code."""

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager, suppress
from pathlib import Path

DOVETAIL = str(Path(sys.executable).with_name("dovetail"))
LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal it is given its own, and becomes the command. Forking here would not be safe beside threads."""


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
            if self.process.poll() is not None:
                return self.process.returncode
        self.process.kill()
        self.process.wait()
        return None


@contextmanager
def terminal(*arguments, columns=100, lines=24, **variables):
    """The command, until it ends by itself. How large its terminal is, the terminal alone says."""
    handle, other = os.openpty()
    fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    environment = {**inherited, "TERM": "xterm-256color", "LANG": "C.UTF-8", **variables}
    command = [sys.executable, "-c", LEADER, DOVETAIL, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
    os.close(other)
    opened = Terminal(process, handle)
    try:
        yield opened
    finally:
        opened.exit_code = opened.reap()
        os.close(handle)
