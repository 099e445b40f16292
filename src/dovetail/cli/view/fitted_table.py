"""A table that fits the terminal: text that is too long is wrapped between words, and names after punctuation.

Rich shrinks the widest columns first, and folds a word that is longer than its column at any character:
`compute.intern` / `al`. Here every column is at least as wide as its longest word, where names of objects may be broken
after `/`, `.`, `-`, `=`, `,`, `:` or `_`; the rest of the width is shared. A table with too many columns for the
terminal is drawn as records: the first heading and cell of a row, and below it those of the others.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.containers import Lines
from rich.table import Table
from rich.text import Text

_INDENT = 2  # spaces before the second and further lines of a record, and between its pairs
_SHORT = 14  # characters of a word that is never broken, such as a date or a reason
_CHUNK = re.compile(r"\s*(?:[^\s/.\-=,:_]*[/.\-=,:_]+|[^\s/.\-=,:_]+)\s*|\s+")


def break_offsets(text: str, width: int) -> list[int]:
    """Return where to break a line, so that every part has at most `width` characters, spaces at its end apart."""
    offsets, start = [], 0
    words = list(_words(text))
    for begin, end in words:
        if len(text[start:end].rstrip()) <= width:
            continue
        if begin > start:
            offsets.append(begin)
            start = begin
        if len(text[start:end].rstrip()) <= width:
            continue
        for cut in _cuts(text, (begin, end), width):
            offsets.append(cut)
            start = cut
    return offsets


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of every word, with the spaces after it."""
    for found in re.finditer(r"^\s*\S+\s*|\S+\s*", text):
        yield found.span()


def _cuts(text: str, bounds: tuple[int, int], width: int) -> Iterator[int]:
    """Yield where to cut a word that is longer than a line."""
    start, end = bounds
    last = start
    for found in _CHUNK.finditer(text, start, end):
        if len(text[start : found.end()].rstrip()) > width and last > start:
            yield last
            start = last
        while len(text[start : found.end()].rstrip()) > width:
            start += width
            yield start
        last = found.end()


class CellText(Text):
    """Text that is wrapped at `break_offsets`."""

    def wrap(self, _console: Console, width: int, **_options: Any) -> Lines:  # type: ignore[override]  # fewer options
        """Return the lines of this text for a column."""
        lines = Lines()
        for line in self.split(allow_blank=True):
            for part in line.divide(break_offsets(line.plain, width)):
                part.rstrip()
                lines.append(part)
        return lines


class FittedTable(Table):
    """A table whose cells are `CellText`, with columns that are not narrower than their words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Set the widths of the columns for this terminal, and render."""
        texts = [[_plain(column.header), *map(_plain, column.cells)] for column in self.columns]
        _, right, _, left = self.padding
        widths = fitted_widths(texts, options.max_width - (left + right) * (len(self.columns) - 1))
        if widths is None and self.show_header:
            yield from self._records(options.max_width)
            return
        for column, width in zip(self.columns, widths or (), strict=False):  # without widths, Rich folds
            column.width = width
        yield from super().__rich_console__(console, options)

    def _records(self, width: int) -> Iterator[Text]:
        """Yield each row as lines: its first heading and cell, then `HEADING value` pairs, as many on a line as fit."""
        headings = [_plain(column.header) for column in self.columns]
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield Text.assemble((f"{headings[0]} ", "dim"), (_plain(cells[0]), "bold"))
            line = Text()
            for heading, cell in zip(headings[1:], cells[1:], strict=True):
                pair = Text.assemble((f"{heading} ", "dim"), cell) if _plain(cell).strip() else Text()
                if line and len(line) + len(pair) + 2 * _INDENT > width:
                    yield from _indented(line, width)
                    line = Text()
                line = Text.assemble(line, " " * _INDENT if line and pair else "", pair)
            if line:
                yield from _indented(line, width)

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row of text."""
        super().add_row(*(_cell(each) for each in cells), **options)


def _indented(line: Text, width: int) -> Iterator[Text]:
    for part in line.divide(break_offsets(line.plain, width - _INDENT)):
        part.rstrip()
        yield Text.assemble(" " * _INDENT, part)


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def fitted_widths(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Return the width of each column, given the texts in it; None if not even the longest words fit."""
    widest = [max((len(line) for text in texts for line in text.split("\n")), default=0) for texts in columns]
    widths = [max((_least(word) for text in texts for word in text.split()), default=0) for texts in columns]
    left = room - sum(widths)
    if sum(widest) <= room:
        return widest
    if left < 0:
        return None
    by_need = sorted(range(len(columns)), key=lambda number: widest[number] - widths[number])
    for place, number in enumerate(by_need):
        share = min(widest[number] - widths[number], left // (len(columns) - place))
        widths[number] += share
        left -= share
    return widths


def _least(word: str) -> int:
    """Return the width that a word needs, if it is broken where it may be."""
    return len(word) if len(word) <= _SHORT else max(len(found.group()) for found in _CHUNK.finditer(word))


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str | Text):
        return cell
    made = CellText(overflow="fold")
    made.append(cell)
    if isinstance(cell, Text):
        made.style = cell.style
    return made
