"""A copy of the checkout in which one bug after the other is planted, and tests and torture stories run.

Bytecode is made once, checked by the hash of the source: two bugs of the same length within a second must not be taken
for each other. Nothing else is shared between the copy and the checkout but the installed packages.
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
"""Errors of the bug itself: it does not compile, or a name in it does not exist. Such a failure proves nothing."""


class Broken(Exception):
    """A run that says nothing about the bug: it ended for another reason than a test that failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: the tests or seeds that failed, each with what it said."""

    failures: tuple[tuple[str, str], ...] = ()
    hangs: bool = False
    seconds: float = 0.0
    seconds_by_name: tuple[tuple[str, float], ...] = ()
    """How long each test or story took."""

    @property
    def caught(self) -> bool:
        """Whether it found something."""
        return bool(self.failures)

    @property
    def failed(self) -> str:
        """What failed first; empty if nothing did."""
        return self.failures[0][0] if self.failures else ""

    @property
    def said(self) -> str:
        """What that said."""
        return self.failures[0][1] if self.failures else ""


class Workspace:
    """One copy."""

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
            "CI": "1",  # property tests try the same examples every time
        }
        compiling = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests")
        self._python(compiling, None)

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """The copy with a bug in it."""
        path = self._place / bug.path
        text = path.read_text()
        path.write_text(bug.plant(text))
        try:
            yield
        finally:
            path.write_text(text)

    def run_tests(self, targets: Sequence[str], timeout: float | None = None, *, first: bool = True) -> Outcome:
        """Run tests, up to the first that fails or all. `Broken` where the first that fails is not a test."""
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
        """Live through stories, up to the first that breaks an invariant or all."""
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
        """Run Python in the copy; None if it does not end in time."""
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
