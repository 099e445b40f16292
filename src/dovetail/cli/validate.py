"""`dovetail validate`: reports every fault of every manifest in files, directories and standard input, offline.

Exit code 0: no faults; 1: faults, or warnings with --strict; 2: input that cannot be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.safe_output import echo, json_text, make_console, yaml_text

if TYPE_CHECKING:
    from rich.console import Console

    from dovetail.manifest.documents import Document, Report
    from dovetail.model.kube_object import Fault

_SUFFIXES = {".yaml", ".yml", ".json"}


class ValidateOutput(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Checked:
    """A document and its report."""

    document: "Document"
    report: "Report"

    @property
    def verdict(self) -> str:
        """Return valid, invalid or skipped."""
        if self.report.faults:
            return "invalid"
        return "skipped" if self.report.note else "valid"


def validate(
    paths: Annotated[list[str], typer.Argument(help="Manifests: files, directories, or - for standard input.")],
    output: Annotated[ValidateOutput, typer.Option("--output", "-o", help="The output format.")] = ValidateOutput.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as faults.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only documents with faults or warnings.")] = False,
) -> None:
    """Report every fault in manifests with line, field, value and fix. Needs no cluster.

    Exit code 0: no faults; 1: faults, or warnings with --strict; 2: input that cannot be read.
    """
    checked: list[Checked] = []
    unreadable: list[str] = []
    for path in paths:
        found = [each for source, text in _texts(path, unreadable) for each in _check(source, text)]
        if not found and not unreadable:
            unreadable.append(f"{'standard input' if path == '-' else path}: has no documents to validate")
        checked.extend(found)
    if output is ValidateOutput.TEXT:
        _print_text(checked, unreadable, quiet=quiet)
    else:
        _print_data([_as_data(each) for each in checked if not quiet or _has_findings(each)], output)
        for problem in unreadable:
            echo(problem, err=True)
    if unreadable:
        raise typer.Exit(2)
    if any(each.report.faults or (strict and each.report.warnings) for each in checked):
        raise typer.Exit(1)


def _texts(path: str, unreadable: list[str]) -> Iterator[tuple[str, str]]:
    from dovetail.manifest.input_file import InputUnreadable, read_text

    for file in ["-"] if path == "-" else _files(Path(path), unreadable):
        name = "<stdin>" if file == "-" else str(file)
        try:
            yield name, read_text(file)
        except InputUnreadable as error:
            unreadable.append(f"{name}: {error}")


def _files(path: Path, unreadable: list[str]) -> "Sequence[Path | str]":
    if not path.exists():
        unreadable.append(f"{path}: no such file or directory")
        return []
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    if not found:
        unreadable.append(f"{path}: has no .yaml, .yml or .json files")
    return found


def _check(source: str, text: str) -> Iterator[Checked]:
    from dataclasses import replace

    from dovetail.manifest.documents import Report, read_documents
    from dovetail.manifest.validation import faults_of

    for document in read_documents(text, source):
        report = Report() if document.content is None else faults_of(document.content)
        yield Checked(document, replace(report, faults=(*document.faults, *report.faults)))


def _has_findings(checked: Checked) -> bool:
    return bool(checked.report.faults or checked.report.warnings)


def _as_data(checked: Checked) -> dict[str, Any]:
    document, report = checked.document, checked.report
    return {
        "source": document.source,
        "document": document.index,
        "line": document.line,
        "kind": report.kind,
        "name": report.name,
        "verdict": checked.verdict,
        "note": report.note,
        "faults": [_fault_as_data(document, fault) for fault in report.faults],
        "warnings": [_fault_as_data(document, fault) for fault in report.warnings],
    }


def _fault_as_data(document: "Document", fault: "Fault") -> dict[str, Any]:
    return {
        "path": fault.path,
        "line": document.line_of(fault.path),
        "value": fault.value,
        "problem": fault.problem,
        "remedy": fault.remedy,
    }


def _print_data(rows: list[dict[str, Any]], output: ValidateOutput) -> None:
    echo(json_text(rows) if output is ValidateOutput.JSON else yaml_text(rows).removesuffix("\n"))


def _print_text(checked: list[Checked], unreadable: list[str], *, quiet: bool) -> None:
    console = make_console(soft_wrap=True)
    for each in checked:
        if not quiet or _has_findings(each):
            _print_document(console, each)
    for problem in unreadable:
        echo(problem, err=True)
    faults, warnings = (sum(len(getattr(each.report, name)) for each in checked) for name in ("faults", "warnings"))
    console.print(f"{_count(len(checked), 'document')}: {_count(faults, 'fault')}, {_count(warnings, 'warning')}")


def _print_document(console: "Console", checked: Checked) -> None:
    document, report = checked.document, checked.report
    name = " ".join(filter(None, (report.kind or "document", report.name)))
    console.print(f"{document.source}:{document.line} {name}: ", end="")
    colour = {"valid": "green", "invalid": "red", "skipped": "dim"}[checked.verdict]
    console.print(report.note or {"valid": "ok"}.get(checked.verdict, checked.verdict), style=colour)
    for faults, word, style in ((report.faults, "fault", "red"), (report.warnings, "warning", "yellow")):
        for fault in faults:
            console.print(f"  {word:<8}", style=style, end="")
            console.print(f"line {document.line_of(fault.path)}  ", style="dim", end="")
            console.print(_in_one_line(fault))
            if fault.remedy:
                console.print(f"            {fault.remedy}", style="dim")


def _in_one_line(fault: "Fault") -> str:
    shown = "" if fault.value is None else f" (got {_short(fault.value)})"
    return f"{fault.path}: {fault.problem}{shown}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
