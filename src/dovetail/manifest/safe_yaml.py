"""Parses YAML into plain values with limits on depth, alias expansion and numbers.

Values are built from the events of the parser. A loader is not used: the composer of libyaml recurses in C and crashes
the process on deeply nested text, and constructors of explicit tags may raise anything. Here nesting is limited to
`DEEPEST` levels, aliases to `MOST_REPEATED` bytes of repeated values, and numbers to finite ones.
`manifest.input_file` limits the size of the text, and `yaml_scalars` gives scalars the meaning they have for kubectl.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import yaml

from dovetail.manifest.schema_check import join
from dovetail.manifest.yaml_scalars import PREFIX, Scalar, key_text, plain, tagged

DEEPEST = 100  # levels of nesting; a manifest has about a dozen
MOST_REPEATED = 32 * 1024 * 1024  # estimated bytes that aliases expand to
_WITHOUT_ALIAS = "remove the alias there, and write out its value where it is needed"
_MERGE = f"{PREFIX}merge"
_VALUE_BYTES = 64  # estimated bytes of a value in addition to its text


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

    language = "YAML"

    def __init__(self, problem: str, line: int = 0, path: str = "", remedy: str = "") -> None:
        super().__init__(f"{problem}{f' (at {path})' if path else ''}")
        self.problem = problem
        self.line = line  # from 0
        self.path = path
        self.remedy = remedy


class TooDeep(YamlInvalid):
    """Nested deeper than `DEEPEST` levels."""

    def __init__(self, line: int, path: str = "") -> None:
        super().__init__(
            f"it is nested more than {DEEPEST} levels deep", line, path, "look for brackets that are not closed"
        )


@dataclass(slots=True)
class Yaml:
    """One document: its content, the lines of its fields if requested, and its duplicate keys."""

    content: Any = None
    empty: bool = False
    line: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    repeated: list[tuple[str, str]] = field(default_factory=list)  # path of the mapping, key
    texts: dict[str, str] = field(default_factory=dict)  # by path, what was written for a number or boolean


def read_yaml(text: str, *, located: bool = False) -> Yaml:
    """Parse the only document of a text. Raises `YamlInvalid`."""
    composer = None
    try:
        composer = _Composer(text, located=located)
        return composer.document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, composer) from None
    except yaml.reader.ReaderError as error:
        sign = chr(error.character) if isinstance(error.character, int) else str(error.character)
        problem = f"the character U+{ord(sign[:1] or ' '):04X} is not allowed in YAML"
        line = text.count("\n", 0, max(text.find(sign), 0))
        raise YamlInvalid(problem, line, remedy="remove it; is this a text file?") from None
    except yaml.YAMLError as error:
        raise YamlInvalid(" ".join(str(error).split())) from None
    except UnicodeError:
        raise YamlInvalid("it contains half of a surrogate pair, which is not text") from None


_NOT_CLOSED = "is not closed, or a ',' is missing after it"
_CLOSE = "close it there, or add the ','"
_PLAIN_WORDS = {
    "found a tab character": "a tab is not allowed as indentation",
    "did not find expected alphabetic or numeric character": "text that starts with * or & needs quotes",
    "mapping values are not allowed": "': ' is not allowed here: the indentation is wrong, or text needs quotes",
    "did not find expected key": "the indentation differs from the lines above, or text needs quotes",
    "did not find expected '-' indicator": "the indentation differs from the list above, or '- ' is missing",
    "block sequence entries are not allowed": "'- ' is not allowed here: a list starts on its own line",
    "did not find expected <document start>": "text follows the end of the document",
}
"""Messages of libyaml, or parts of them, and their meaning."""
_AT_ITS_START = {
    "could not find expected ':'": ("the name of a field must be followed by ': '", "add ': ' and its value"),
    "did not find expected ',' or ']'": (f"the '[' {_NOT_CLOSED}", _CLOSE),
    "did not find expected ',' or '}'": (f"the '{{' {_NOT_CLOSED}", _CLOSE),
    "found unexpected end of stream": ("the quote is not closed", "close it"),
    "found unexpected document indicator": ("the quote is not closed", "close it"),
}
"""The same for messages about something that starts further up: its start is the line to look at."""


def _syntax_error(error: yaml.MarkedYAMLError, text: str, composer: "_Composer | None") -> YamlInvalid:
    """A syntax error in plain words, with the line to look at."""
    problem, mark = str(error.problem), error.problem_mark or error.context_mark
    opened, quoted = (composer.open, composer.quoted) if composer is not None else ([], None)
    if quoted is not None and mark is not None and mark.line == quoted[1]:
        return YamlInvalid("the quote is not closed on this line", quoted[0], remedy="close it")
    if "cannot start any token" in problem and mark is not None:
        sign = text.split("\n")[mark.line][mark.column]
        if sign == "\t":
            return YamlInvalid("a tab is not allowed as indentation", mark.line, remedy="use spaces")
        return YamlInvalid(f"text that starts with {sign} needs quotes", mark.line, remedy="put it in quotes")
    line = mark.line if mark else 0
    if "flow node" in str(error.context) and opened:
        return YamlInvalid(f"a bracket {_NOT_CLOSED}", opened[-1], remedy=_CLOSE)
    start = error.context_mark.line if error.context_mark is not None else line
    for part, words in _PLAIN_WORDS.items():
        if part in problem:
            return YamlInvalid(words, line)
    for part, (words, remedy) in _AT_ITS_START.items():
        if part in problem:
            return YamlInvalid(words, start, remedy=remedy)
    return YamlInvalid(" ".join(filter(None, (error.context, problem))), line)


class _Composer:
    """Builds the value of a document from parser events."""

    def __init__(self, text: str, *, located: bool) -> None:
        self._parser = PARSER(text)
        self._located = located
        self._read = Yaml()
        self._size = 0  # estimated bytes of all values so far
        self._repeated = 0
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and size; None while it is built
        self.open: list[int] = []  # lines on which the collections around the current value start
        self.quoted: tuple[int, int] | None = None  # first and last line of the last quoted text of several lines

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

    def _value(self, event: Any, path: str, *, named: bool = False) -> Any:
        """The value of an event, or of the name of a field."""
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event, path)
        before, anchor = self._size, event.anchor
        self._size += _VALUE_BYTES
        if anchor is not None:
            self._anchors[anchor] = None
        line = event.start_mark.line
        if isinstance(event, yaml.ScalarEvent):
            self._size += len(event.value)
            value = scalar(event, path)
            end = event.end_mark.line if event.end_mark is not None else line
            if event.style in ("'", '"') and end > line:
                self.quoted = (line, end)
            if isinstance(value, float) and not (named or math.isfinite(value)):
                problem = f"{event.value[:40]!r} is not a finite number; put it in quotes if it is text"
                raise YamlInvalid(problem, line, path)
            if self._located and not named and isinstance(value, bool | int | float):
                self._read.texts[path] = event.value
        else:
            value = self._collection(event, path)
        if anchor is not None:
            self._anchors[anchor] = (value, self._size - before)
        return value

    def _collection(self, event: Any, path: str) -> Any:
        if len(self.open) >= DEEPEST:
            raise TooDeep(event.start_mark.line, path)
        self.open.append(event.start_mark.line)
        value = self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._sequence(path)
        self.open.pop()
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
        written: set[str] = set()
        while not isinstance(event := self._parser.get_event(), yaml.MappingEndEvent):
            if is_merge(event):
                content.update(self._merged(path))  # it also replaces fields above it, as in kubectl
                continue
            key = self._key(event, path)
            item_path = join(path, key)
            if key in written:
                self._read.repeated.append((path, key))
            if self._located:
                self._read.lines.setdefault(item_path, event.start_mark.line)
            written.add(key)
            content[key] = self._value(self._parser.get_event(), item_path)
        return content

    def _merged(self, path: str) -> dict[str, Any]:
        event = self._parser.get_event()
        value = self._value(event, path)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise YamlInvalid("<< needs a mapping, or a list of mappings", event.start_mark.line, path)
        return {key: each for part in reversed(parts) for key, each in part.items()}

    def _key(self, event: Any, path: str) -> str:
        """The name of a field. Numbers and booleans become text, as in kubectl."""
        scalar_or_alias = isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)
        key = self._value(event, path, named=True) if scalar_or_alias else {}
        if isinstance(key, dict | list):
            raise YamlInvalid("a mapping or list cannot be the name of a field", event.start_mark.line, path)
        try:
            return key_text(key)
        except ValueError as error:
            raise YamlInvalid(str(error), event.start_mark.line, path) from None

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
        return self._copied(value, len(self.open), event, path)

    def _copied(self, value: Any, depth: int, event: Any, path: str) -> Any:
        """A copy of the anchor's value, so that changing a field in one place does not change it in another."""
        if not isinstance(value, dict | list):
            return value
        if depth >= DEEPEST:
            raise TooDeep(event.start_mark.line, path)
        if isinstance(value, list):
            return [self._copied(each, depth + 1, event, path) for each in value]
        return {key: self._copied(each, depth + 1, event, path) for key, each in value.items()}


def is_merge(event: Any) -> bool:
    """Whether a key is `<<`, which merges other mappings into this one."""
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE)


def scalar(event: Any, path: str) -> Scalar:
    """The value of a scalar."""
    tag: str | None = event.tag
    if tag is None and event.implicit[0]:
        return plain(event.value)
    try:
        return str(event.value) if tag in (None, "!") else tagged(tag, event.value)
    except ValueError as error:
        raise YamlInvalid(str(error), event.start_mark.line, path) from None
