"""The same seed gives the same event log, byte for byte, in every process."""

import os
import subprocess
import sys
from pathlib import Path

from dovetail.sim.virtual_loop import run
from sim.day import WEEK, day

SCRIPT = Path(__file__).with_name("day.py")


def test_the_same_seed_twice_gives_the_same_log():
    log = run(day(1), limit=WEEK)
    assert len(log.splitlines()) > 300
    assert run(day(1), limit=WEEK) == log


def test_another_seed_gives_another_log():
    assert run(day(1), limit=WEEK) != run(day(2), limit=WEEK)


def test_processes_with_different_hash_seeds_agree():
    logs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, SCRIPT, "1"], env=environment, capture_output=True, check=True)
        logs.append(done.stdout)
    assert logs[0] == logs[1] == run(day(1), limit=WEEK)
