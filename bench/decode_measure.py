"""One measurement of decoding, in the process that runs it: seconds spent, memory held, peak memory."""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

CHUNK = 64 * 1024  # what a socket brings at once

R = TypeVar("R")


class Meter:
    """Adds up the time of what it is handed, and weighs the process before and after."""

    def __init__(self) -> None:
        gc.collect()
        self._baseline = bound_pod("VmRSS")
        self._seconds = 0.0

    def clocked(self, work: Callable[..., R], *args: Any) -> R:
        """Do it on the clock."""
        began = time.perf_counter()
        try:
            return work(*args)
        finally:
            self._seconds += time.perf_counter() - began

    def reading(self, pods: int) -> dict[str, float]:
        """What was measured, while the pods are still held."""
        gc.collect()
        held = bound_pod("VmRSS") - self._baseline
        return {"pods": pods, "seconds": self._seconds, "held_mb": held, "peak_mb": bound_pod("VmHWM")}


def bound_pod(field: str) -> float:
    """Megabytes, from the kernel: `VmRSS` now, `VmHWM` at most."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this benchmark reads /proc/self/status, which this system does not have")


def chunks(file: Path) -> Iterator[bytes]:
    """A file as a socket would bring it."""
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def run(measurements: dict[str, Callable[[Path], dict[str, float]]]) -> None:
    """Run the measurement named on the command line over the corpus named beside it."""
    what, corpus = sys.argv[1:]
    print(json.dumps(measurements[what](Path(corpus))))
