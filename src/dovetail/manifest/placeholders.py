"""Reports the unfilled template placeholders of a document, such as `${CLUSTER_NAME}`, in one line.

Faults that follow from them are left out: what the values will be is not known. The line is a fault if there are such
faults; else it is a warning, because the API server would accept the document.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dovetail.manifest.documents import Report
from dovetail.manifest.patterns import placeholder_in
from dovetail.manifest.schema_check import join
from dovetail.model.kube_object import Fault

_MOST_SHOWN = 5
_FREE_TEXT = ("userData", "annotations")
_RENDER = "render the template first (helm template, envsubst), then validate what comes out"


def with_one_placeholder_line(report: Report, document: Mapping[str, Any]) -> Report:
    """The report with one line about all placeholders of the document."""
    found = list(_placeholders(document, ""))
    if not found:
        return report
    paths = [path for path, _ in found]
    marks = list(dict.fromkeys(mark.splitlines()[0] for _, mark in found))
    more = f" and {len(marks) - _MOST_SHOWN} more" if len(marks) > _MOST_SHOWN else ""
    shown = f"{', '.join(marks[:_MOST_SHOWN])}{more}"
    words = f"still contains the placeholder{'s' if marks[1:] else ''} {shown}"
    if others := len(set(paths)) - 1:
        words = f"still contains a placeholder, as {'does' if others == 1 else 'do'} {_fields(others)}: {shown}"
    line = Fault(paths[0], words, None, _RENDER)
    faults = [fault for fault in report.faults if not _follows(fault, paths)]
    if len(faults) < len(report.faults):
        return replace(report, faults=(line, *faults))
    return replace(report, warnings=(line, *report.warnings))


def _fields(number: int) -> str:
    return "1 other field" if number == 1 else f"{number} other fields"


def _follows(fault: Fault, paths: list[str]) -> bool:
    """Whether a fault is about a value with a placeholder in it."""
    return any(path == fault.path or path.startswith((f"{fault.path}.", f"{fault.path}[")) for path in paths)


def _placeholders(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            here = join(path, str(name))
            if name not in _FREE_TEXT:
                if mark := placeholder_in(str(name)):
                    yield here, mark
                yield from _placeholders(each, here)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _placeholders(each, f"{path}[{index}]")
    elif isinstance(value, str) and (mark := placeholder_in(value)):
        yield path, mark
