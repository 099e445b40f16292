"""Splits a text into documents: YAML streams and JSON, with the line of every field.

A stream is split as kubectl splits it, at lines that start with `---`, and each document is parsed separately, so a
broken one does not hide the others. The items of a List become documents. A duplicate key is a fault, because one of
the values would be lost.

`Report` has the faults and warnings of one document.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dovetail.manifest.json_documents import JsonInvalid, read_json
from dovetail.manifest.patterns import fill_placeholders, placeholder_in
from dovetail.manifest.safe_yaml import Yaml, YamlInvalid, read_yaml
from dovetail.manifest.schema_check import join
from dovetail.model.kube_object import Fault

T = TypeVar("T")
_SEPARATOR = re.compile(r"^---(.*)$", re.MULTILINE)
_JSON = re.compile(r"\s*{")
_JSON_KEY = re.compile(r"\s*{\s*\"")
_ITEM = re.compile(r"items\[(\d+)\]\.?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `content` is None if it could not be read; `faults` tell why, the line is that of `$`."""

    source: str
    index: int  # from 1
    line: int
    content: Any = None
    faults: tuple[Fault, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # by path, what was written for a number or boolean

    def line_of(self, path: str) -> int:
        """The line of a path, or that of its nearest parent."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, self.line)


def read_documents(text: str, source: str) -> Iterator[Document]:
    """Yield the documents of a text, without empty ones; the items of a List are separate documents."""
    index = 0
    for line, chunk, fault in _chunks(text.removeprefix("\ufeff")):
        broken = () if fault is None else (Document(source, 0, line, None, (fault,)),)
        for document in broken or _read_chunk(chunk, source, line):
            index += 1
            yield from _expand_list(replace(document, index=index))


def _chunks(text: str) -> Iterator[tuple[int, str, Fault | None]]:
    """Yield each document: its first line, its text without separator, and the fault of its separator."""
    line, start, separators = 1, 0, [*_SEPARATOR.finditer(text), None]
    fault = None
    for following in separators:
        end = following.start() if following else len(text)
        yield line, text[start:end], fault
        if following:
            line += text.count("\n", start, end)
            start, fault = following.end(), _separator_fault(following[1].strip())


def _separator_fault(rest: str) -> Fault | None:
    if not rest or rest.startswith("#"):
        return None
    problem = "has text after the separator ---, which kubectl rejects"
    return Fault("$", problem, rest, "start the document on the next line")


def _expand_list(document: Document) -> Iterator[Document]:
    content = document.content
    kind = str(content.get("kind")) if isinstance(content, dict) else ""
    items = content.get("items") if kind.endswith("List") else None
    if not isinstance(items, list):
        yield document
        return
    lines, texts = _by_item(document.lines), _by_item(document.texts)
    faults: dict[int, list[Fault]] = {}
    for fault in document.faults:
        found = _ITEM.fullmatch(fault.path)
        place, inner = (int(found[1]), found[2]) if found else (0, fault.path)
        faults.setdefault(place, []).append(fault._replace(path=inner))
    missing = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, each in enumerate(items):
        typed = kind == "List" or not isinstance(each, dict) or each.keys() & missing.keys()
        item = each if typed else {**missing, **each}
        here = lines.get(index, {})
        part = Document(document.source, index + 1, here.get("", document.line), item, (*faults.get(index, ()),), here)
        yield from _expand_list(replace(part, texts=texts.get(index, {})))


def _by_item(by_path: Mapping[str, T]) -> dict[int, dict[str, T]]:
    """The values of paths below each item of a List, by index and by path inside the item."""
    found: dict[int, dict[str, T]] = {}
    for path, value in by_path.items():
        if match := _ITEM.fullmatch(path):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return found


def _read_chunk(text: str, source: str, line: int) -> Iterator[Document]:
    """The documents of a text without separators: one of YAML, or several of JSON."""
    try:
        found = _read_json(text) if _JSON.match(text) else [read_yaml(text, located=True)]
    except YamlInvalid as error:
        fault, at = _parse_fault(text, line, error)
        yield Document(source, 0, line, None, (fault,), {"$": at})
        return
    for read in found:
        if not read.empty:
            lines = {path: at + line for path, at in read.lines.items()}
            faults = tuple(_duplicate_key(name, path) for path, name in dict.fromkeys(read.repeated))
            yield Document(source, 0, read.line + line, read.content, faults, lines, read.texts)


def _read_json(text: str) -> list[Yaml]:
    """Parse JSON, or YAML in flow style."""
    try:
        return read_json(text)
    except JsonInvalid as json_error:
        try:
            return [read_yaml(text, located=True)]
        except YamlInvalid as error:
            raise json_error if _JSON_KEY.match(text) else error from None


def _parse_fault(text: str, start: int, error: YamlInvalid) -> tuple[Fault, int]:
    """The fault of a document that starts on line `start` and cannot be read, and its line."""
    if mark := _template_mark(text):
        placeholder, at = mark.splitlines()[0], start + text.count("\n", 0, text.index(mark))
        remedy = "render it first (helm template, envsubst), then validate what comes out"
        return Fault("$", f"is a template, not a manifest: {placeholder} on line {at}", None, remedy), at
    remedy = error.remedy or "check indentation, colons and quotes there"
    if text.lstrip().startswith("%"):
        remedy = "remove the line that starts with %: kubectl does not read YAML directives"
    at = start + error.line
    return Fault("$", f"cannot be read as {error.language} (line {at}): {error}", None, remedy), at


def _template_mark(text: str) -> str | None:
    """The first placeholder of a text that would be YAML if its placeholders were filled."""
    mark = placeholder_in(text)
    if mark is None or "{{" in text or "{%" in text:  # lines of these templates are not YAML at all
        return mark
    try:
        read_yaml(fill_placeholders(text, "x"))
    except YamlInvalid:
        return None
    return mark


def _duplicate_key(name: str, path: str) -> Fault:
    return Fault(join(path, name), "occurs twice in one mapping; one of the two values would be lost", None, "keep one")


@dataclass(frozen=True, slots=True)
class Report:
    """Faults and warnings of one document. `note` is the reason why it was not checked, if any."""

    kind: str = ""
    name: str = ""
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    note: str = ""

    @property
    def valid(self) -> bool:
        """Whether there are no faults; warnings do not count."""
        return not self.faults


class DocumentInvalid(ValueError):
    """A document with faults; the report has all of them."""

    def __init__(self, report: Report) -> None:
        super().__init__("; ".join(map(str, report.faults)) or report.note)
        self.report = report
