"""Escapes text before it is shown, so that it cannot move the cursor, ring the bell, or hide or reorder other text.

Names, messages and values come from files and from objects of a cluster, and may contain anything. Characters that are
not printable (control characters, escape sequences, direction marks, lone surrogates) are written as the escapes of a
Python literal. Line breaks and tabs stay.
"""

import re

_UNSAFE = re.compile(r"[^\x20-\x7e\n\t]")


def printable(text: str) -> str:
    """The text with everything that is not printable escaped."""
    if text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable_json(text: str) -> str:
    """JSON text with the same meaning, with JSON escapes: characters that are not printable occur only in strings."""
    if text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found[0] if found[0].isprintable() else _escaped_json(found[0]), text)


def _escaped_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
