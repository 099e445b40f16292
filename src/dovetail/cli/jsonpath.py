r"""Templates of `-o jsonpath=...`, as in kubectl: text with paths in braces, evaluated on a document.

    {.commands[*].nodes}                      fields, indexes, slices, [*] and recursive descent (..name)
    {.leftAlone[?(@.permanent==true)].node}   filters, with == != < <= > >= or for a field that exists
    {range .nodes[*]}{.name}{"\n"}{end}       text for each of several values

`compile_template` parses a template into nodes and reports a fault with its text; `Template.render` evaluates it. As in
kubectl, a path that matches nothing renders as nothing, several values are separated by spaces, and mappings and lists
are rendered as JSON.
"""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Step = Callable[[Any], Iterator[Any]]
"""Maps a value to the values that one step of a path selects in it."""

_STEP = re.compile(
    r"\.\.(?P<deep>[\w-]+)"
    r"|\.(?P<field>[\w-]+|\*)"
    r"|\[\?\(\s*@(?P<tested>(?:\.[\w-]+|\['[^']*'\])*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<literal>'[^']*'|\"[^\"]*\"|[^)]+?))?\s*\)\]"
    r"|\[(?P<index>\*|-?\d+|-?\d*:-?\d*(?::-?\d+)?|'[^']*'|\"[^\"]*\")\]"
)
_PIECE = re.compile(r"\{(?P<inside>(?:\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*'|[^{}])*)\}|(?P<text>[^{}]+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TemplateInvalid(ValueError):
    """The template cannot be parsed; the message names the faulty part."""


@dataclass(frozen=True, slots=True)
class _Path:
    steps: tuple[Step, ...]

    def select(self, value: Any) -> list[Any]:
        found = [value]
        for step in self.steps:
            found = [each for one in found for each in step(one)]
        return found

    def render(self, value: Any) -> str:
        return " ".join(map(_text, self.select(value)))


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str

    def render(self, _value: Any) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Range:
    path: _Path
    body: "tuple[_Node, ...]"

    def render(self, value: Any) -> str:
        return "".join(node.render(each) for each in self.path.select(value) for node in self.body)


_Node = _Path | _Literal | _Range


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    nodes: tuple[_Node, ...]

    def render(self, document: Any) -> str:
        """Return the text of the template for a document."""
        return "".join(node.render(document) for node in self.nodes)


def compile_template(text: str) -> Template:
    """Parse a template; a path without braces is one in braces, as in kubectl."""
    written = text if "{" in text else f"{{{text if text.startswith(('.', '$', '[')) else f'.{text}'}}}"
    pieces, at = [], 0
    while at < len(written):
        piece = _PIECE.match(written, at)
        if piece is None:
            raise TemplateInvalid(f"a brace is not closed: {written[at:]!r}")
        pieces.append(piece)
        at = piece.end()
    nodes, rest = _parse(pieces, inside_range=False)
    assert not rest
    return Template(nodes)


def _parse(pieces: Sequence[re.Match[str]], *, inside_range: bool) -> tuple[tuple[_Node, ...], Sequence[re.Match[str]]]:
    """Parse pieces up to the end of the range, or of the template; returns the pieces after it."""
    nodes: list[_Node] = []
    while pieces:
        piece, pieces = pieces[0], pieces[1:]
        inside = piece["inside"]
        if inside is None:
            nodes.append(_Literal(piece["text"]))
        elif inside.strip() == "end":
            if not inside_range:
                raise TemplateInvalid("{end} without {range ...}")
            return tuple(nodes), pieces
        elif inside.strip().startswith("range "):
            body, pieces = _parse(pieces, inside_range=True)
            nodes.append(_Range(_path(inside.strip().removeprefix("range ")), body))
        elif inside.strip()[:1] in {'"', "'"}:
            nodes.append(_Literal(_unquote(inside.strip())))
        else:
            nodes.append(_path(inside))
    if inside_range:
        raise TemplateInvalid("{range ...} without {end}")
    return tuple(nodes), ()


def _unquote(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise TemplateInvalid(f"a quote is not closed: {text}")
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), text[1:-1])


def _path(text: str) -> _Path:
    written = text.strip().removeprefix("$").removeprefix("@")
    written = "" if written == "." else written
    steps, at = [], 0
    while at < len(written):
        step = _STEP.match(written, at)
        if step is None:
            raise TemplateInvalid(f"{written[at:]!r} in {text.strip()!r} is not a field, an index or a filter")
        steps.append(_step(step))
        at = step.end()
    return _Path(tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["deep"] is not None:
        return lambda value: _descend(value, found["deep"])
    if found["tested"] is not None:
        return _filter(_path(found["tested"]), found["op"], found["literal"])
    name = found["field"] or found["index"]
    if name == "*":
        return _all
    if found["field"] is not None or name[0] in {"'", '"'}:
        key = name if found["field"] is not None else name[1:-1]
        return lambda value: iter([value[key]] if isinstance(value, dict) and key in value else [])
    if ":" in name:
        bounds = slice(*(int(each) if each else None for each in name.split(":")))
        return lambda value: iter(value[bounds] if isinstance(value, list) else [])
    number = int(name)
    return lambda value: iter([value[number]] if isinstance(value, list) and -len(value) <= number < len(value) else [])


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict) and key in value:
        yield value[key]
    for each in _all(value):
        yield from _descend(each, key)


def _filter(path: _Path, name: str | None, literal: str | None) -> Step:
    if name is None or literal is None:
        return lambda value: (each for each in _all(value) if path.select(each))
    wanted, compare = _value(literal), _COMPARE[name]

    def holds(each: Any) -> bool:
        try:
            return any(compare(found, wanted) for found in path.select(each))
        except TypeError:  # values of two types have no order
            return False

    return lambda value: (each for each in _all(value) if holds(each))


def _value(literal: str) -> Any:
    if literal[0] in {"'", '"'}:
        return literal[1:-1]
    try:
        return msgspec.json.decode(literal)
    except msgspec.DecodeError:
        raise TemplateInvalid(f"{literal!r} is neither a number nor true, false or null; quote text") from None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
