"""What is known to fail, and why: the committed list `expected.json`, and how a run is judged by it.

An entry names a controller and the beginning of the specs' names. `run: false` is for features that do not exist yet:
those specs are listed and not run, because a failing spec of Karpenter's suite takes fifteen minutes.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report import Outcome, Result

FILE = Path(__file__).with_name("expected.json")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known failure."""

    controller: str
    spec: str
    reason: str
    run: bool = True

    def covers(self, spec: str) -> bool:
        """Whether it is about a spec: the whole name, or the containers that a name begins with."""
        return spec == self.spec or spec.startswith(self.spec + " ")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run beside the list."""

    unexpected: tuple[Result, ...]
    """Failed and not on the list."""
    repaired: tuple[Result, ...]
    """On the list and passed: the entry can go."""


def read_expectations(controller: str, text: str | None = None) -> list[Expectation]:
    """The entries of one controller."""
    entries = [Expectation(**entry) for entry in json.loads(text or FILE.read_text())]
    return [entry for entry in entries if entry.controller == controller]


def expectation_of(spec: str, known: Iterable[Expectation]) -> Expectation | None:
    """The first entry that covers a spec."""
    return next((entry for entry in known if entry.covers(spec)), None)


def split_unbuilt(specs: Iterable[str], known: Sequence[Expectation]) -> tuple[list[str], list[Result]]:
    """What to run, and a result for each spec of a feature that does not exist yet."""
    runnable: list[str] = []
    unbuilt: list[Result] = []
    for spec in specs:
        entry = expectation_of(spec, known)
        if entry is None or entry.run:
            runnable.append(spec)
        else:
            unbuilt.append(Result(spec, Outcome.NOT_BUILT, message=entry.reason))
    return runnable, unbuilt


def judge(results: Iterable[Result], known: Sequence[Expectation]) -> Verdict:
    """Sort out what nobody expected."""
    unexpected, repaired = [], []
    for result in results:
        expected = expectation_of(result.spec, known) is not None
        if result.outcome.is_failure and not expected:
            unexpected.append(result)
        if result.outcome is Outcome.PASSED and expected:
            repaired.append(result)
    return Verdict(tuple(unexpected), tuple(repaired))
