"""A pytest plugin that writes one line of JSON for each phase of a test: its outcome, duration and error classes.

Load it with `-p planted.reporting`; the environment variable `PLANTED_REPORT` is the path of the file.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def error_names(error: BaseException | None) -> Iterator[str]:
    """The class names of an error, its bases, its cause and, for a group, its members."""
    if error is None:
        return
    for kind in type(error).__mro__:
        if kind is not BaseException and issubclass(kind, BaseException):
            yield kind.__name__
    for each in getattr(error, "exceptions", ()):
        yield from error_names(each)
    yield from error_names(error.__cause__)


def _write(**facts: Any) -> None:
    with Path(os.environ["PLANTED_REPORT"]).open("a") as report:
        report.write(json.dumps(facts) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Write the outcome of each phase of a test."""
    report = yield
    errors = sorted(set(error_names(call.excinfo.value))) if call.excinfo is not None and report.failed else []
    said = call.excinfo.exconly(tryshort=True) if call.excinfo is not None and report.failed else ""
    _write(test=item.nodeid, when=report.when, outcome=report.outcome, seconds=call.duration, errors=errors, said=said)
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write collection failures."""
    if report.failed:
        _write(test=report.nodeid, when="collect", outcome="failed", seconds=0.0, errors=[], said=str(report.longrepr))
