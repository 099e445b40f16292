"""`dovetail validate`: reports every fault of every manifest in files, directories and standard input, offline.

Exit code 0: no faults; 1: faults, or warnings with --strict; 2: input that cannot be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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


class Target(StrEnum):
    """The controller that is to use the manifests."""

    DOVETAIL = "dovetail"
    KARPENTER = "karpenter"


class ValidateOutput(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"


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
    target: Annotated[
        Target,
        typer.Option("--target", help="karpenter: also report what Karpenter v1.14 rejects, drops or ignores."),
    ] = Target.DOVETAIL,
    output: Annotated[
        ValidateOutput, typer.Option("--output", "-o", help="The output format; sarif is for code scanning services.")
    ] = ValidateOutput.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as faults.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only documents with faults or warnings.")] = False,
) -> None:
    """Report every fault in manifests with line, field, value and fix. Needs no cluster.

    Exit code 0: no faults; 1: faults, or warnings with --strict; 2: input that cannot be read.
    """
    checked: list[Checked] = []
    unreadable: list[str] = []
    for path in paths:
        found = [each for source, text in _texts(path, unreadable) for each in _check(source, text, target)]
        if not found and not unreadable:
            unreadable.append(f"{'standard input' if path == '-' else path}: has no documents to validate")
        checked.extend(found)
    checked = [_by_line(each) for each in _with_duplicates(checked)]
    if output is ValidateOutput.TEXT:
        _print_text(checked, unreadable, quiet=quiet)
        _print_own_fields(checked, target)
    else:
        rows = [_as_data(each) for each in checked if not quiet or _has_findings(each)]
        sarif = output is ValidateOutput.SARIF
        _print_data(_sarif(rows, unreadable, strict=strict) if sarif else _report(rows, unreadable), output)
        for problem in unreadable:
            echo(_one_line(problem), err=True)
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


def _check(source: str, text: str, target: Target) -> Iterator[Checked]:
    from dovetail.manifest.corrections import as_written
    from dovetail.manifest.documents import Report, read_documents
    from dovetail.manifest.portability import for_karpenter
    from dovetail.manifest.validation import faults_of

    for document in read_documents(text, source):
        report = Report() if document.content is None else faults_of(document.content)
        if target is Target.KARPENTER:
            report = for_karpenter(report, document.content)
        texts = document.texts
        found = (as_written(each, texts[each.path]) if each.path in texts else each for each in report.faults)
        yield Checked(document, replace(report, faults=(*document.faults, *found)))


def _with_duplicates(checked: list[Checked]) -> Iterator[Checked]:
    """Yield the documents with a finding for each one that has the kind and name of an earlier one.

    In one directory, which is applied as a whole, it is a fault; two directories may be for two clusters.
    """
    from dovetail.model.kube_object import Fault

    first: dict[tuple[str, ...], Document] = {}
    for each in checked:
        document, report = each.document, each.report
        earlier = first.setdefault(_identity(document, report), document)
        if earlier is document or report.note or not isinstance(_metadata(document).get("name"), str):
            yield each
            continue
        together = Path(earlier.source).parent == Path(document.source).parent
        effect = "applying both keeps only one" if together else "in one cluster, applying both keeps only one"
        problem = f"is also the name of the {report.kind} at {earlier.source}:{earlier.line}: {effect}"
        remedy = "rename one of them, or remove it" if together else "ignore this if they are for different clusters"
        found = (Fault("metadata.name", problem, report.name, remedy),)
        faults, warnings = (found, ()) if together else ((), found)
        added = replace(report, faults=(*report.faults, *faults), warnings=(*report.warnings, *warnings))
        yield Checked(document, added)


def _identity(document: "Document", report: "Report") -> tuple[str, ...]:
    content = document.content if isinstance(document.content, dict) else {}
    namespace = _metadata(document).get("namespace", "")
    return (str(content.get("apiVersion")).rpartition("/")[0], report.kind, str(namespace), report.name)


def _metadata(document: "Document") -> dict[str, Any]:
    content = document.content if isinstance(document.content, dict) else {}
    metadata = content.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _by_line(checked: Checked) -> Checked:
    document, report = checked.document, checked.report
    faults, warnings = (
        tuple(sorted(each, key=lambda fault: document.line_of(fault.path))) for each in (report.faults, report.warnings)
    )
    return Checked(document, replace(report, faults=faults, warnings=warnings))


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
        "fix": fault.fix,
    }


def _sarif(rows: list[dict[str, Any]], unreadable: list[str], *, strict: bool) -> dict[str, Any]:
    from importlib.metadata import version

    from dovetail.cli.view.sarif import sarif_log

    return sarif_log(rows, unreadable, version=version("dovetail"), strict=strict)


def _report(rows: list[dict[str, Any]], unreadable: list[str]) -> dict[str, Any]:
    from dovetail.cli.view.printing import document_type

    return {**document_type("ValidationReport"), "documents": rows, "unreadable": unreadable}


def _print_data(document: Any, output: ValidateOutput) -> None:
    echo(yaml_text(document).removesuffix("\n") if output is ValidateOutput.YAML else json_text(document))


def _print_text(checked: list[Checked], unreadable: list[str], *, quiet: bool) -> None:
    console = make_console(soft_wrap=True)
    for each in checked:
        if not quiet or _has_findings(each):
            _print_document(console, each)
    for problem in unreadable:
        echo(_one_line(problem), err=True)
    faults, warnings = (sum(len(getattr(each.report, name)) for each in checked) for name in ("faults", "warnings"))
    console.print(f"{_count(len(checked), 'document')}: {_count(faults, 'fault')}, {_count(warnings, 'warning')}")


def _print_own_fields(checked: list[Checked], target: Target) -> None:
    """Name the fields that work only with Dovetail's CRDs, unless they are faults already."""
    from dovetail.model.annotated_fields import INSTALL, written_fields

    fields = dict.fromkeys(path for each in checked for path in written_fields(each.document.content))
    if fields and target is Target.DOVETAIL:
        echo(f"Karpenter's CRDs drop {', '.join(fields)}: {INSTALL}, or write annotations (see --target karpenter).")


def _print_document(console: "Console", checked: Checked) -> None:
    document, report = checked.document, checked.report
    name = " ".join(filter(None, (report.kind or "document", report.name)))
    console.print(_one_line(f"{document.source}:{document.line} {name}: "), end="")
    colour = {"valid": "green", "invalid": "red", "skipped": "dim"}[checked.verdict]
    console.print(_one_line(report.note or {"valid": "ok"}.get(checked.verdict, checked.verdict)), style=colour)
    for faults, word, style in ((report.faults, "fault", "red"), (report.warnings, "warning", "yellow")):
        for fault in faults:
            line = document.line_of(fault.path)
            start, words = f"  {word:<8}line {line}  ", _in_one_line(fault)
            for known in (f" (line {line})", f" on line {line}"):
                words = words.replace(known, "") if fault.path == "$" else words
            console.print(start, style=style, end="")
            console.print(_wrapped(console, words, len(start)))
            if fault.remedy:
                console.print(f"{' ' * 10}{_wrapped(console, _one_line(fault.remedy), 10)}", style="dim")


def _wrapped(console: "Console", text: str, indent: int) -> str:
    """The text, broken at the width of a terminal; in files and pipes a finding stays on one line."""
    if not console.is_terminal:
        return text
    from textwrap import wrap

    lines = wrap(text, max(console.width - indent, 20), break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def _in_one_line(fault: "Fault") -> str:
    shown = "" if fault.value is None else f" (got {_short(fault.value)})"
    return _one_line(f"{'' if fault.path == '$' else f'{fault.path}: '}{fault.problem}{shown}")


def _one_line(text: str) -> str:
    """The text without line breaks, so that a name cannot look like a line of this command."""
    return text.replace("\n", "\\n")


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
