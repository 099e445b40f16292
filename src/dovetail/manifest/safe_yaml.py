"""Parses YAML into plain values with limits on depth, alias expansion and numbers.

Values are built from the events of the parser. A loader is not used: the composer of libyaml recurses in C and crashes
the process on deeply nested text, and constructors of explicit tags may raise anything. Here nesting is limited to
`DEEPEST` levels, aliases to `MOST_REPEATED` bytes of repeated values, and numbers to finite ones of at most
`LONGEST_NUMBER` characters; tags other than those of JSON values are rejected. `manifest.input_file` limits the size of
the text.

Scalars have the meaning they have for kubectl: dates stay text, and there are no base-60 numbers.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from dovetail.manifest.schema_check import join

DEEPEST = 100  # levels of nesting; a manifest has about a dozen
MOST_REPEATED = 32 * 1024 * 1024  # estimated bytes that aliases expand to
LONGEST_NUMBER = 309  # characters; no float has more digits before its point
_WITHOUT_ALIAS = "remove the alias there, and write out its value where it is needed"
_VALUE_BYTES = 64  # estimated bytes of a value in addition to its text
_PREFIX = "tag:yaml.org,2002:"
_BOOLEANS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
_IMPLICIT: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile("|".join(f"{word}|{word.title()}|{word.upper()}" for word in _BOOLEANS))),
    ("int", re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")),
    (
        "float",
        re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
    ),
    ("merge", re.compile("<<")),
)
_NOT_TEXT = frozenset("~nNyYtTfFoO-+.<0123456789")
"""First characters of scalars that may be something other than text."""


class _PythonParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """The pure-Python parser of PyYAML without composer and constructor."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


# libyaml is ten times as fast; PyYAML has it where wheels are installed.
PARSER: Any = getattr(getattr(yaml, "cyaml", None), "CParser", _PythonParser)


class YamlInvalid(ValueError):
    """A text that is not YAML, or uses features that are rejected. `remedy` is empty for syntax errors."""

    def __init__(self, problem: str, line: int = 0, path: str = "", remedy: str = "") -> None:
        super().__init__(f"{problem}{f' (at {path})' if path else ''}")
        self.problem = problem
        self.line = line  # from 0
        self.path = path
        self.remedy = remedy


class TooDeep(YamlInvalid):
    """Nested deeper than `DEEPEST` levels."""


@dataclass(slots=True)
class Yaml:
    """One document: its content, the lines of its fields if requested, and its duplicate keys."""

    content: Any = None
    empty: bool = False
    line: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    repeated: list[tuple[str, str]] = field(default_factory=list)  # path of the mapping, key


def read_yaml(text: str, *, located: bool = False) -> Yaml:
    """Parse the only document of a text. Raises `YamlInvalid`."""
    try:
        return _Composer(text, located=located).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise YamlInvalid(problem, mark.line if mark else 0) from None
    except yaml.YAMLError as error:
        raise YamlInvalid(" ".join(str(error).split())) from None
    except UnicodeError:
        raise YamlInvalid("it contains half of a surrogate pair, which is not text") from None


class _Composer:
    """Builds the value of a document from parser events."""

    def __init__(self, text: str, *, located: bool) -> None:
        self._parser = PARSER(text)
        self._located = located
        self._read = Yaml()
        self._size = 0  # estimated bytes of all values so far
        self._repeated = 0
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and size; None while it is built
        self._depth = 0

    def document(self) -> Yaml:
        """Build the only document of the stream."""
        read = self._read
        self._parser.get_event()  # the stream starts
        event = self._parser.get_event()
        if isinstance(event, yaml.StreamEndEvent):
            read.empty = True
            return read
        event = self._parser.get_event()
        read.line = event.start_mark.line
        read.content = self._value(event, "")
        self._parser.get_event()  # the document ends
        event = self._parser.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            raise YamlInvalid("expected a single document, but found another one", event.start_mark.line)
        return read

    def _value(self, event: Any, path: str) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event, path)
        before, anchor = self._size, event.anchor
        self._size += _VALUE_BYTES
        if anchor is not None:
            self._anchors[anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            self._size += len(event.value)
            value = scalar(event, path)
        else:
            value = self._collection(event, path)
        if anchor is not None:
            self._anchors[anchor] = (value, self._size - before)
        return value

    def _collection(self, event: Any, path: str) -> Any:
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _PREFIX + kind):
            raise _unsupported_tag(event, path)
        if self._depth >= DEEPEST:
            raise TooDeep(f"is nested more than {DEEPEST} levels deep", event.start_mark.line, path)
        self._depth += 1
        value = self._mapping(path) if kind == "map" else self._sequence(path)
        self._depth -= 1
        return value

    def _sequence(self, path: str) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            item_path = f"{path}[{len(values)}]"
            if self._located:
                self._read.lines[item_path] = event.start_mark.line
            values.append(self._value(event, item_path))
        return values

    def _mapping(self, path: str) -> dict[str, Any]:
        content: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and kind_of(event) == "merge":
                merged = {**self._merged(path), **merged}
                continue
            key = self._key(event, path)
            item_path = join(path, key)
            if key in content:
                self._read.repeated.append((path, key))
            if self._located:
                self._read.lines.setdefault(item_path, event.start_mark.line)
            content[key] = self._value(self._parser.get_event(), item_path)
        return {**merged, **content} if merged else content

    def _merged(self, path: str) -> dict[str, Any]:
        event = self._parser.get_event()
        value = self._value(event, path)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise YamlInvalid("<< needs a mapping, or a list of mappings", event.start_mark.line, path)
        return {key: each for part in reversed(parts) for key, each in part.items()}

    def _key(self, event: Any, path: str) -> str:
        """The name of a field. Numbers and booleans become text, as in kubectl."""
        key = self._value(event, path) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else {}
        if isinstance(key, dict | list):
            raise YamlInvalid("a mapping or list cannot be the name of a field", event.start_mark.line, path)
        return str(key).lower() if isinstance(key, bool) else str(key)

    def _aliased(self, event: Any, path: str) -> Any:
        line = event.start_mark.line
        if event.anchor not in self._anchors:
            remedy = "define the anchor above the alias, or put the text in quotes if it begins with *"
            raise YamlInvalid(f"there is no anchor &{event.anchor[:40]} before this alias", line, path, remedy)
        known = self._anchors[event.anchor]
        if known is None:
            raise YamlInvalid("it contains itself through an alias", line, path, _WITHOUT_ALIAS)
        value, size = known
        self._size += size
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            limit = MOST_REPEATED // (1024 * 1024)
            problem = f"it has too many values: aliases repeat more than {limit} MiB"
            raise YamlInvalid(problem, line, path, _WITHOUT_ALIAS)
        return self._copied(value, self._depth, event, path)

    def _copied(self, value: Any, depth: int, event: Any, path: str) -> Any:
        """A copy of the anchor's value, so that changing a field in one place does not change it in another."""
        if not isinstance(value, dict | list):
            return value
        if depth >= DEEPEST:
            raise TooDeep(f"is nested more than {DEEPEST} levels deep", event.start_mark.line, path)
        if isinstance(value, list):
            return [self._copied(each, depth + 1, event, path) for each in value]
        return {key: self._copied(each, depth + 1, event, path) for key, each in value.items()}


def scalar(event: Any, path: str) -> Any:
    """The value of a scalar."""
    kind, text = kind_of(event), event.value
    if kind in {"str", "timestamp", "merge"}:
        return text
    try:
        return _PARSERS[kind](text)
    except KeyError:
        raise _unsupported_tag(event, path) from None
    except ValueError as error:
        raise YamlInvalid(str(error), event.start_mark.line, path) from None


def kind_of(event: Any) -> str:
    """The type of a scalar: from its tag, or from the form of its text."""
    tag: str | None = event.tag
    text: str = event.value
    if tag == "!" or (tag is None and not event.implicit[0]):
        return "str"
    if tag is not None:
        return tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag
    if text and text[0] not in _NOT_TEXT:
        return "str"
    return next((kind for kind, form in _IMPLICIT if form.fullmatch(text)), "str")


def _null(_text: str) -> None:
    return None


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError(f"{text[:40]!r} is not a boolean; write true or false") from None


def integer(text: str) -> int:
    """An integer in YAML 1.1 syntax, within bounds."""
    _check_length(text)
    digits = text.replace("_", "").removeprefix("+")
    bare = digits.removeprefix("-")
    try:
        if bare.startswith("0b"):
            return int(digits, 2)
        if bare.startswith("0x"):
            return int(digits, 16)
        return int(digits, 8) if bare.startswith("0") and bare != "0" else int(digits)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a whole number") from None


def number(text: str) -> float:
    """A finite number: JSON has no others."""
    _check_length(text)
    plain = text.replace("_", "").lower()
    try:
        value = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]!r} is not a finite number; put it in quotes if it is text")
    return value


def _check_length(text: str) -> None:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters is too long; put it in quotes if it is text")


def _unsupported_tag(event: Any, path: str) -> YamlInvalid:
    shown = "!!" + event.tag.removeprefix(_PREFIX) if event.tag.startswith(_PREFIX) else event.tag
    return YamlInvalid(f"the tag {shown[:60]!r} is not supported; write a plain value", event.start_mark.line, path)


_PARSERS: Mapping[str, Callable[[str], Any]] = {"null": _null, "bool": _boolean, "int": integer, "float": number}
