"""Text to plain documents: YAML streams and JSON, with the line of every field.

Each document of a stream is read by itself, so one that is broken does not hide the others. Scalars mean what they mean
to kubectl: dates stay text, there are no base-60 numbers. A key that stands twice is a fault, because one of the two
values would be lost silently. Nothing is looked up in files here.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from dovetail.manifest.conformity import join
from dovetail.manifest.patterns import placeholder_in
from dovetail.model.wire import Fault

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_END = re.compile(r"^\.\.\.(?=\s|$).*\Z", re.MULTILINE | re.DOTALL)
_MOST_NODES = 200_000  # aliases that multiply must not exhaust memory
_DEEPEST = 100  # levels; a manifest has about a dozen
_MERGE = "tag:yaml.org,2002:merge"


_TOO_DEEP = Fault(
    "$", f"is nested more than {_DEEPEST} levels deep", None, "no manifest is; look for brackets that never close"
)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `content` is None when it could not be read; then `faults` say why."""

    source: str
    index: int  # from 1
    line: int
    content: Any = None
    faults: tuple[Fault, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, path: str) -> int:
        """The line a path stands on, or that of its nearest parent."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, self.line)


def read_documents(text: str, source: str) -> Iterator[Document]:
    """The documents of a text; empty ones are passed over, the items of a List stand for themselves."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[") and (found := _read_json(text, source)):
        yield from _unlisted(found)
        return
    index = 0
    for line, chunk in _chunks(text):
        document = _read_yaml(chunk, source, index + 1, line)
        if document is not None:
            index += 1
            yield from _unlisted(document)


def _unlisted(document: Document) -> Iterator[Document]:
    content = document.content
    if not (isinstance(content, dict) and content.get("kind") == "List" and isinstance(content.get("items"), list)):
        yield document
        return
    for index, item in enumerate(content["items"]):
        prefix = f"items[{index}]"
        lines = {
            path.removeprefix(prefix).removeprefix("."): line
            for path, line in document.lines.items()
            if path.startswith(prefix)
        }
        yield Document(document.source, index + 1, lines.get("", document.line), item, document.faults, lines)


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Each document with the line it starts on."""
    starts = [match.start() for match in _SEPARATOR.finditer(text)]
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        chunk = _END.sub("", text[start:end])
        yield text.count("\n", 0, start) + 1, _SEPARATOR.sub("   ", chunk, count=1)


def _read_json(text: str, source: str) -> Document | None:
    repeated: list[Fault] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend(_repeated(name, "") for name in content if names.count(name) > 1)
        return content

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        return Document(source, 1, 1, None, (_TOO_DEEP,))
    except ValueError:
        return None  # flow style is YAML too; its reader says what is wrong
    if not _shallow(content, _DEEPEST):
        return Document(source, 1, 1, None, (_TOO_DEEP,))
    return Document(source, 1, 1, content, tuple(repeated))


def _shallow(content: Any, levels: int) -> bool:
    """Whether nothing is nested deeper than so many levels."""
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return levels > 0 and all(_shallow(each, levels - 1) for each in inner)


def _read_yaml(text: str, source: str, index: int, line: int) -> Document | None:
    reader = None
    try:
        reader = _Reader(text, line)
        root = reader.loader.get_single_node()
        if root is None:
            return None
        content = reader.plain(root, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        broken = _broken(text, line, line + (mark.line if mark else 0), problem)
        return Document(source, index, line, None, (broken,))
    except RecursionError:
        return Document(source, index, line, None, (_TOO_DEEP,))
    except (yaml.YAMLError, ValueError) as error:
        return Document(source, index, line, None, (_broken(text, line, line, str(error)),))
    finally:
        if reader is not None:
            reader.loader.dispose()
    return Document(source, index, root.start_mark.line + line, content, tuple(reader.faults), reader.lines)


def _broken(text: str, start: int, line: int, problem: str) -> Fault:
    """Why a document that starts on line `start` could not be read on line `line`."""
    if mark := placeholder_in(text):
        shown, at = mark.splitlines()[0], start + text.count("\n", 0, text.index(mark))
        remedy = "render it first (helm template, envsubst), then validate what comes out"
        return Fault("$", f"is a template, not a manifest: {shown} stands on line {at}", None, remedy)
    remedy = "check indentation, colons and quotes there"
    return Fault("$", f"cannot be read as YAML (line {line}): {problem}", None, remedy)


def _repeated(name: str, path: str) -> Fault:
    return Fault(join(path, name), "stands twice in one mapping; one of the two values would be lost", None, "keep one")


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of kubectl."""


_DROPPED = (
    "tag:yaml.org,2002:timestamp",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:value",
)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+0123456789."),
)

SCALARS = _Loader.yaml_implicit_resolvers
"""What an unquoted scalar means, for loaders of other documents."""


class _Reader:
    """One document: its plain content, the lines of its fields, and keys that stand twice."""

    def __init__(self, text: str, line: int) -> None:
        self.loader = _Loader(text)
        self.faults: list[Fault] = []
        self.lines: dict[str, int] = {}
        self._line = line
        self._count = 0
        self._open: set[int] = set()

    def plain(self, node: yaml.Node, path: str) -> Any:
        """The value of a node."""
        self._count += 1
        if self._count > _MOST_NODES:
            raise ValueError("it has too many values; are there aliases that multiply?")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise ValueError("it contains itself through an alias")
        if len(self._open) >= _DEEPEST:
            raise RecursionError
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._entry(each, f"{path}[{index}]") for index, each in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)
            return self._mapping(node, path)
        finally:
            self._open.remove(id(node))

    def _entry(self, node: yaml.Node, path: str) -> Any:
        self.lines[path] = node.start_mark.line + self._line
        return self.plain(node, path)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag.endswith(":float") and not node.value.lstrip("+-").startswith("."):
            return float(node.value.replace("_", ""))
        return self.loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[Any, Any]:
        content: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = {**self._merged(value_node, path), **merged}
                continue
            key = self._key(key_node)
            here = join(path, key)
            if key in content:
                self.faults.append(_repeated(key, path))
            self.lines.setdefault(here, key_node.start_mark.line + self._line)
            content[key] = self.plain(value_node, here)
        return {**merged, **content}

    def _merged(self, node: yaml.Node, path: str) -> dict[Any, Any]:
        value = self.plain(node, path)
        parts = value if isinstance(value, list) else [value]
        return {key: each for part in reversed(parts) if isinstance(part, dict) for key, each in part.items()}

    def _key(self, node: yaml.Node) -> str:
        """Names of fields are text; numbers and booleans become it, as kubectl has it."""
        if not isinstance(node, yaml.ScalarNode):
            problem = "a mapping or list cannot be the name of a field"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        key = self._scalar(node)
        return str(key).lower() if isinstance(key, bool) else str(key)
