"""Reads JSON documents, one after the other in a text, with the line of every field and the keys that occur twice.

Python's decoder gives the values, but no lines; a scan of the tokens gives the lines. Both take linear time.
"""

import json
import math
import re
from typing import Any, NoReturn

from dovetail.manifest.safe_yaml import DEEPEST, TooDeep, Yaml, YamlInvalid
from dovetail.manifest.schema_check import join
from dovetail.manifest.yaml_scalars import plain

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s"{}\[\],:]+')
_BLANK = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonInvalid(YamlInvalid):
    """A text that is not JSON."""

    language = "JSON"


def read_json(text: str) -> list[Yaml]:
    """Read all documents of a text. Raises `JsonInvalid`, or `YamlInvalid` for values that are not supported."""
    found: list[Yaml] = []
    at, line = 0, 0
    while (start := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr] # it always matches
        line += text.count("\n", at, start)
        try:
            content, at = _DECODER.raw_decode(text, start)
        except RecursionError:
            raise TooDeep(line) from None
        except json.JSONDecodeError as error:
            raise JsonInvalid(f"{error.msg[:1].lower()}{error.msg[1:]}", error.lineno - 1) from None
        if _SURROGATE.search(text, start, at):
            _check_surrogates(content, line)
        scan = _Scan(Yaml(content, line=line), line)
        scan.run(text, start, at)
        found.append(scan.read)
        line = scan.line
    return found


class _Scan:
    """A scan of the tokens of one document, which is known to be valid."""

    def __init__(self, read: Yaml, line: int) -> None:
        self.read = read
        self.line = line
        self._open: list[tuple[str, int | None]] = []  # path and index of the next item; no index in a mapping
        self._path = ""  # of the value that follows

    def run(self, text: str, start: int, end: int) -> None:
        """Record the lines and repeated keys of the document between two positions."""
        key_follows = False
        for found in _TOKEN.finditer(text, start, end):
            sign = found[0]
            if sign == "\n":
                self.line += 1
            elif sign in ("}", "]"):
                self._open.pop()
                key_follows = False
            elif sign == ",":
                key_follows = self._next_entry()
            elif key_follows:
                self._key(json.loads(sign))
                key_follows = False
            elif sign != ":":
                key_follows = self._value(sign)

    def _next_entry(self) -> bool:
        path, index = self._open[-1]
        if index is None:
            return True
        self._open[-1] = (path, index + 1)
        self._path = f"{path}[{index + 1}]"
        return False

    def _key(self, name: str) -> None:
        parent = self._open[-1][0]
        self._path = join(parent, name)
        if self._path in self.read.lines:
            self.read.repeated.append((parent, name))
        self.read.lines.setdefault(self._path, self.line)

    def _value(self, sign: str) -> bool:
        if self._open and self._open[-1][1] is not None:
            self.read.lines[self._path] = self.line
        if sign not in ("{", "["):
            return False
        if len(self._open) >= DEEPEST:
            raise TooDeep(self.line)
        self._open.append((self._path, None if sign == "{" else 0))
        self._path = self._path if sign == "{" else f"{self._path}[0]"
        return sign == "{"


def _check_surrogates(content: Any, line: int) -> None:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise YamlInvalid("it contains half of a surrogate pair, which is not text", line) from None


def _number(text: str) -> Any:
    value = plain(text)
    if isinstance(value, str) or not math.isfinite(value or 0):
        raise YamlInvalid(f"{text[:40]!r} is not a finite number; put it in quotes if it is text")
    return value


def _not_json(text: str) -> NoReturn:
    raise json.JSONDecodeError(f"{text} is not JSON", text, 0)


_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_not_json)
