"""A copy of the checkout in which bugs are planted one at a time and tests and torture trials run.

Bytecode is compiled once and validated by the hash of the source: modification time and size do not distinguish two
bugs of the same length planted within a second. Copy and checkout share only the installed packages.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from planted.bug import Bug

COPIED = ("pyproject.toml", "src", "tests", "deploy", "docs", "examples")
IGNORED = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.png", "*.gif")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "planted.reporting", "--tb=no")
UNUSABLE = frozenset({"SyntaxError", "ImportError", "NameError"})
"""Errors of the bug itself: it does not compile, or a name in it does not exist. It proves nothing."""


class Broken(Exception):
    """The run is inconclusive: it ended for a reason other than a failed test."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the failed tests or seeds with their messages."""

    failures: tuple[tuple[str, str], ...] = ()
    hangs: bool = False
    seconds: float = 0.0
    seconds_by_name: tuple[tuple[str, float], ...] = ()
    """The seconds of each test or trial."""

    @property
    def caught(self) -> bool:
        """Whether a test or trial failed."""
        return bool(self.failures)

    @property
    def failed(self) -> str:
        """The first failed test or seed; empty if all passed."""
        return self.failures[0][0] if self.failures else ""

    @property
    def said(self) -> str:
        """The message of the first failure."""
        return self.failures[0][1] if self.failures else ""


class Workspace:
    """One copy of the checkout."""

    def __init__(self, root: Path, place: Path) -> None:
        self._place = place
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, place / name, ignore=IGNORED)
            elif (root / name).exists():
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, place / name)
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{place / 'src'}{os.pathsep}{place / 'tests'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PLANTED_REPORT": str(place / "report.jsonl"),
            "CI": "1",  # makes property tests deterministic
        }
        compiling = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests")
        self._python(compiling, None)

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """Apply a bug to the copy, and remove it at the end."""
        path = self._place / bug.path
        text = path.read_text()
        path.write_text(bug.plant(text))
        try:
            yield
        finally:
            path.write_text(text)

    def run_tests(self, targets: Sequence[str], timeout: float | None = None, *, first: bool = True) -> Outcome:
        """Run tests, up to the first failure or all. Raises `Broken` if collection, setup or pytest itself fails."""
        report = self._place / "report.jsonl"
        report.unlink(missing_ok=True)
        began = perf_counter()
        ran = self._python((*PYTEST, *(["-x"] if first else []), *targets), timeout)
        seconds = perf_counter() - began
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        if ran is None:
            last = lines[-1]["test"] if lines else targets[0]
            return Outcome(((last, f"no end within {timeout:.0f} s"),), hangs=True, seconds=seconds)
        bad = [each for each in lines if each["outcome"] == "failed"]
        for each in bad if first else ():
            if each["when"] in {"collect", "setup"} or not UNUSABLE.isdisjoint(each["errors"]):
                raise Broken(f"{each['when']} of {each['test']}: {each['said'][-300:]}")
        if ran.returncode not in (0, 1) and (first or not bad):
            raise Broken(f"pytest ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-300:]}")
        times = tuple((each["test"], each["seconds"]) for each in lines if each["when"] == "call")
        failures = tuple((each["test"], each["said"]) for each in bad)
        return Outcome(failures, seconds=seconds, seconds_by_name=times)

    def run_torture(self, seeds: Sequence[int], timeout: float | None = None, *, first: bool = True) -> Outcome:
        """Run trials, up to the first violation or all."""
        began = perf_counter()
        ran = self._python(("-m", "planted.torture", *([] if first else ["--all"]), *map(str, seeds)), timeout)
        seconds = perf_counter() - began
        if ran is None:
            return Outcome((("torture", f"no end within {timeout:.0f} s"),), hangs=True, seconds=seconds)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        if ran.returncode not in (0, 1) or not lines:
            raise Broken(f"torture ended with {ran.returncode}: {ran.stderr[-300:]}")
        bad = [each for each in lines if each["said"]]
        for each in bad:
            if not UNUSABLE.isdisjoint(each["errors"]) or any(f"{name}(" in each["said"] for name in UNUSABLE):
                raise Broken(f"seed {each['seed']}: {each['said']}")
        times = tuple((str(each["seed"]), each["seconds"]) for each in lines)
        failures = tuple((str(each["seed"]), each["said"]) for each in bad)
        return Outcome(failures, seconds=seconds, seconds_by_name=times)

    def _python(self, arguments: Sequence[str], timeout: float | None) -> "subprocess.CompletedProcess[str] | None":
        """Run Python in the copy; None on a timeout."""
        try:
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=self._place,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
