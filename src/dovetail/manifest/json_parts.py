"""Finds the parts of a JSON text without reading them, at any depth of nesting.

The decoder gives up on a text as a whole when something in it is nested beyond the limit of recursion, so that one such
object would lose the list it is part of. This module cuts a text into its members or elements by brackets alone, in one
pass without recursion: what is good can be decoded, and what is bad still has its name. It is slow, used only after the
decoder has failed, and not meant for text that is no JSON: where a bracket or quote is missing, parts run together.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

UNDECODABLE = (ValueError, RecursionError)
"""What decoding may raise: errors of msgspec and bad UTF-8 are ValueErrors; nesting too deep is a RecursionError."""
LONGEST = 64 * 1024 * 1024
"""Bytes. A longer text would hold up everything else for more than a few seconds."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
UNDECODED = object()
"""In place of a value that cannot be decoded. It fits no type."""


def no_json(error: Exception) -> bool:
    """Whether a text could not be decoded because it is no JSON: cut or mangled, as may be what surrounds it."""
    return type(error) is msgspec.DecodeError


def parts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and text of each member of an object, or of each element of an array, where names are empty.

    ValueError if the text is neither, or ends before its last bracket.
    """
    if len(text) > LONGEST or text.lstrip()[:1] not in (b"{", b"["):
        raise ValueError("is not a JSON object or array of a size that can be taken apart")
    depth, name, start = 0, b"", 0
    for token in _TOKENS.finditer(text):
        mark = token[0][:1]
        if mark in b"{[":
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in b"}]":
            depth -= 1
        if depth == 0 or (depth == 1 and mark == b","):
            if part := text[start : token.start()].strip():
                yield name, part
            name, start = b"", token.end()
        elif depth == 1 and mark == b":":
            name, start = text[start : token.start()].strip().strip(b'"'), token.end()
        if depth == 0:
            return
    raise ValueError("is cut off")


def loose(text: bytes, depth: int = 3) -> Any:
    """The value of a text that cannot be decoded as a whole; what cannot be decoded in it is `UNDECODED`.

    Members of objects are tried one by one, down to a depth at which names, labels and `spec.nodeName` are found.
    """
    try:
        return msgspec.json.decode(text)
    except UNDECODABLE:
        if depth == 0 or text.lstrip()[:1] != b"{":
            return UNDECODED
    try:
        return {name.decode(): loose(part, depth - 1) for name, part in parts(text)}
    except UNDECODABLE:
        return UNDECODED
