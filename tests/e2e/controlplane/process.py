"""Runs one program of the control plane: its log goes to a file, and it never outlives the test session.

On Linux the kernel kills the program when the session dies, however it dies; elsewhere only an orderly end stops it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

# Runs in a fresh interpreter that then becomes the program. The parent may be gone before it asks, hence the check.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Process:
    """One running program. Starting it again appends to the same log."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._env = dict(env) if env is not None else None
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the program with the log as its output."""
        launcher = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*launcher, *self._argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env
            )
        return self

    @property
    def pid(self) -> int:
        """The process id, also of a program that has ended."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while the program runs or before it is started."""
        return self._popen.poll() if self._popen else None

    def terminate(self) -> None:
        """Ask the program to end, without waiting for it."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program at once and wait until it is gone."""
        self._signal(signal.SIGKILL)
        if self._popen:
            self._popen.wait()

    def stop(self, grace: float = 5.0) -> int | None:
        """End the program in order if it ends within `grace` seconds, else by force. Answers its exit code."""
        self.terminate()
        if self._popen:
            try:
                self._popen.wait(grace)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.exit_code

    def tail(self, lines: int = 20) -> str:
        """The end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(line[:400] for line in text.splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        if self._popen and self._popen.poll() is None:
            self._popen.send_signal(number)
