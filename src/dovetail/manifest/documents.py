"""Splits a text into documents: YAML streams and JSON, with the line of every field.

Each document of a stream is parsed separately, so a broken one does not hide the others. The items of a List become
documents. Scalars have the meaning they have for kubectl: dates stay text, and there are no base-60 numbers. A
duplicate key is a fault, because one of the values would be lost.

`Report` has the faults and warnings of one document.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dovetail.manifest.patterns import placeholder_in
from dovetail.manifest.safe_yaml import DEEPEST, TooDeep, YamlInvalid, integer, number, read_yaml
from dovetail.manifest.schema_check import join
from dovetail.model.kube_object import Fault

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_END = re.compile(r"^\.\.\.(?=\s|$).*\Z", re.MULTILINE | re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ITEM = re.compile(r"items\[(\d+)\]\.?(.*)", re.DOTALL)
_TOO_DEEP = Fault("$", f"is nested more than {DEEPEST} levels deep", None, "look for brackets that are not closed")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `content` is None if it could not be read; then `faults` tell why."""

    source: str
    index: int  # from 1
    line: int
    content: Any = None
    faults: tuple[Fault, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, path: str) -> int:
        """The line of a path, or that of its nearest parent."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, self.line)


def read_documents(text: str, source: str) -> Iterator[Document]:
    """Yield the documents of a text, without empty ones; the items of a List are separate documents."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") and (found := _read_json(text, source)):
        yield from _expand_list(found)
        return
    index = 0
    for line, chunk in _chunks(text):
        document = _read_yaml(chunk, source, index + 1, line)
        if document is not None:
            index += 1
            yield from _expand_list(document)


def _expand_list(document: Document) -> Iterator[Document]:
    content = document.content
    if not (isinstance(content, dict) and content.get("kind") == "List" and isinstance(content.get("items"), list)):
        yield document
        return
    lines: dict[int, dict[str, int]] = {}
    for path, line in document.lines.items():
        if found := _ITEM.fullmatch(path):
            lines.setdefault(int(found[1]), {})[found[2]] = line
    for index, item in enumerate(content["items"]):
        item_lines = lines.get(index, {})
        yield Document(document.source, index + 1, item_lines.get("", document.line), item, document.faults, item_lines)


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text of each document and the line it starts on."""
    starts = [match.start() for match in _SEPARATOR.finditer(text)]
    line = 1
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        yield line, _SEPARATOR.sub("   ", _END.sub("", text[start:end]), count=1)
        line += text.count("\n", start, end)


def _read_json(text: str, source: str) -> Document | None:
    """Parse JSON; None if it is not JSON: it may be flow-style YAML, whose parser gives better errors."""
    repeated: list[Fault] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            times = Counter(name for name, _ in pairs)
            repeated.extend(_duplicate_key(name, "") for name in content if times[name] > 1)
        return content

    try:
        content = json.loads(
            text, object_pairs_hook=unique, parse_int=_integer, parse_float=_number, parse_constant=_not_finite
        )
        if _SURROGATE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        return Document(source, 1, 1, None, (_TOO_DEEP,))
    except (YamlInvalid, UnicodeEncodeError) as error:
        bad = error if isinstance(error, YamlInvalid) else YamlInvalid("it contains half of a surrogate pair")
        return Document(source, 1, 1, None, (_parse_fault(text, 1, bad),))
    except ValueError:
        return None
    if not _shallow(content, DEEPEST):
        return Document(source, 1, 1, None, (_TOO_DEEP,))
    return Document(source, 1, 1, content, tuple(repeated))


def _integer(text: str) -> int:
    try:
        return integer(text)
    except ValueError as error:
        raise YamlInvalid(str(error)) from None


def _number(text: str) -> float:
    try:
        return number(text)
    except ValueError as error:
        raise YamlInvalid(str(error)) from None


def _not_finite(text: str) -> NoReturn:
    raise YamlInvalid(f"{text} is not a finite number; put it in quotes if it is text")


def _shallow(content: Any, levels: int) -> bool:
    """Whether the nesting is at most `levels` deep."""
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return levels > 0 and all(_shallow(each, levels - 1) for each in inner)


def _read_yaml(text: str, source: str, index: int, line: int) -> Document | None:
    try:
        read = read_yaml(text, located=True)
    except TooDeep:
        return Document(source, index, line, None, (_TOO_DEEP,))
    except YamlInvalid as error:
        return Document(source, index, line, None, (_parse_fault(text, line, error),))
    if read.empty:
        return None
    lines = {path: at + line for path, at in read.lines.items()}
    faults = tuple(_duplicate_key(name, path) for path, name in read.repeated)
    return Document(source, index, read.line + line, read.content, faults, lines)


def _parse_fault(text: str, start: int, error: YamlInvalid) -> Fault:
    """The fault of a document that starts on line `start` and cannot be read."""
    if mark := placeholder_in(text):
        placeholder, at = mark.splitlines()[0], start + text.count("\n", 0, text.index(mark))
        remedy = "render it first (helm template, envsubst), then validate what comes out"
        return Fault("$", f"is a template, not a manifest: {placeholder} on line {at}", None, remedy)
    remedy = error.remedy or "check indentation, colons and quotes there"
    return Fault("$", f"cannot be read as YAML (line {start + error.line}): {error}", None, remedy)


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
