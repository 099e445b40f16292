"""The recorded results of both controllers (`results.json`), and the table that shows them spec by spec.

A run replaces the entries of the specs it ran; what it did not run stays as it was. The recorded durations order the
next run: a worker that is free takes the longest spec that is left, so that no long one begins last.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.report import Outcome, Result

FILE = Path(__file__).with_name("results.json")
CONTROLLERS = ("dovetail", "karpenter")
UNKNOWN_SECONDS = 120.0
"""How long a spec is taken to last that never ran."""

Recorded = dict[str, dict[str, dict[str, Any]]]
"""By spec, in the order of the suite; then by controller: outcome, seconds, message, date."""


def read_results(path: Path = FILE) -> Recorded:
    """What earlier runs recorded, nothing at first."""
    recorded: Recorded = json.loads(path.read_text())["specs"] if path.exists() else {}
    return recorded


def write_results(recorded: Recorded, about: Mapping[str, Any], path: Path = FILE) -> None:
    """Write it for the next run and for people; `about` says what was tested."""
    path.write_text(json.dumps({**about, "specs": recorded}, indent=1) + "\n")


def merge(recorded: Recorded, specs: Iterable[str], controller: str, results: Iterable[Result], date: str) -> Recorded:
    """Take in new results. Specs that the suite no longer has are dropped."""
    merged = {spec: dict(recorded.get(spec, {})) for spec in specs}
    for result in results:
        merged[result.spec][controller] = {**result.plain(), "date": date}
    return merged


def longest_first(specs: Iterable[str], recorded: Recorded) -> list[str]:
    """The order in which workers take the specs."""
    return sorted(specs, key=lambda spec: -_seconds(recorded.get(spec, {})))


def _seconds(entries: Mapping[str, Mapping[str, Any]]) -> float:
    known = [entry["seconds"] for entry in entries.values() if entry.get("seconds")]
    return max(known, default=UNKNOWN_SECONDS)


def outcome_of(recorded: Recorded, spec: str, controller: str) -> Outcome:
    """The last recorded outcome."""
    return Outcome(recorded.get(spec, {}).get(controller, {}).get("outcome", Outcome.NOT_RUN))


def table(recorded: Recorded, specs: Iterable[str]) -> str:
    """Spec by spec, below the names of their containers, with the sum at the end."""
    lines = ["".join(f"{name:15}" for name in CONTROLLERS) + "spec"]
    container = ""
    for spec in specs:
        if spec.split(" ", 1)[0] != container:
            container = spec.split(" ", 1)[0]
            lines.append("")
        lines.append("".join(f"{outcome_of(recorded, spec, name):15}" for name in CONTROLLERS) + spec)
    return "\n".join([*lines, "", *summary(recorded)])


def summary(recorded: Recorded) -> list[str]:
    """How many specs ended how, a line for each controller."""
    lines = []
    for controller in CONTROLLERS:
        counts = Counter(outcome_of(recorded, spec, controller) for spec in recorded)
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
        lines.append(f"{controller}: {told} of {len(recorded)}")
    return lines
