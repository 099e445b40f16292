"""Reads the JSON report of a ginkgo suite into one result for each spec."""

import enum
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class Outcome(enum.StrEnum):
    """How a spec ended, or why it did not run."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    SKIPPED = "skipped"
    NOT_BUILT = "not built yet"
    NOT_RUN = "not run"

    @property
    def is_failure(self) -> bool:
        """Whether the spec ran and did not pass."""
        return self in {Outcome.FAILED, Outcome.TIMED_OUT}


_OUTCOMES = {
    "passed": Outcome.PASSED,
    "skipped": Outcome.SKIPPED,
    "pending": Outcome.SKIPPED,
    "timedout": Outcome.TIMED_OUT,
    "interrupted": Outcome.TIMED_OUT,
}
MESSAGE_LIMIT = 600  # characters; some assertions print whole objects


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one spec. `spec` is the text of its containers and its own, joined by spaces, as ginkgo does."""

    spec: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON, without the name."""
        written = asdict(self) | {"seconds": round(self.seconds, 1)}
        return {name: value for name, value in written.items() if name != "spec" and value not in ("", 0.0)}


def read_report(text: str) -> list[Result]:
    """Read the specs of a report in the order of the suite; set-up and clean-up nodes are left out."""
    reports: list[dict[str, Any]] = json.loads(text)
    return [_result(each) for suite in reports for each in suite.get("SpecReports") or () if _is_spec(each)]


def read_suite_failure(text: str) -> str:
    """Why the suite failed outside of its specs, such as in BeforeSuite; empty unless it did."""
    failures = [
        *(reason for suite in json.loads(text) for reason in suite.get("SpecialSuiteFailureReasons") or ()),
        *(_message(each) for each in _nodes(text) if not _is_spec(each) and each["State"] not in {"passed", "skipped"}),
    ]
    return "; ".join(filter(None, failures))


def only_result(path: Path, spec: str) -> Result:
    """The result of the one spec that ran; a failure where the report does not have it."""
    try:
        text = path.read_text()
        found = [each for each in read_report(text) if each.spec == spec]
        failure = read_suite_failure(text)
    except (OSError, ValueError) as unreadable:
        return Result(spec, Outcome.FAILED, message=f"the suite wrote no report: {unreadable}")
    if found and found[0].outcome is not Outcome.SKIPPED:
        return found[0]
    if failure or not found:
        return Result(spec, Outcome.FAILED, message=failure or "the report does not name this spec")
    return found[0]


def _nodes(text: str) -> Iterator[dict[str, Any]]:
    return (each for suite in json.loads(text) for each in suite.get("SpecReports") or ())


def _is_spec(node: dict[str, Any]) -> bool:
    return bool(node.get("LeafNodeType") == "It")


def _result(node: dict[str, Any]) -> Result:
    name = " ".join([*(node.get("ContainerHierarchyTexts") or ()), node["LeafNodeText"]])
    outcome = _OUTCOMES.get(node["State"], Outcome.FAILED)
    return Result(name, outcome, node.get("RunTime", 0) / 1e9, _message(node))


def _message(node: dict[str, Any]) -> str:
    failure = node.get("Failure") or {}
    place = failure.get("Location") or failure.get("FailureNodeLocation") or {}
    where = f"{Path(place['FileName']).name}:{place.get('LineNumber', 0)}: " if place.get("FileName") else ""
    return (where + " ".join(failure.get("Message", "").split()))[:MESSAGE_LIMIT] if failure.get("Message") else ""
