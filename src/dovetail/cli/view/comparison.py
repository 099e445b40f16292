"""Variants of a simulation side by side, with the differences from the first: lines, or columns where it is narrow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.simulation.comparison import BETTER_LOW, FIGURES, Row, differing, legend, short_names
from dovetail.cli.view.printing import plain_table, print_document

_NO_EDGE = 4000
_HEADING, _COLUMN = 20, 24


def print_comparison(rows: Sequence[Row], document: Mapping[str, Any], output: str) -> None:
    """All variants, in the form asked for."""
    print_document(document, output, lambda console: _comparison(console, rows))


def _comparison(console: Console, rows: Sequence[Row]) -> None:
    names = short_names([row.name for row in rows])
    table = _lines(rows, names)
    if console.measure(table, options=console.options.update(width=_NO_EDGE)).maximum <= console.width:
        console.print(table)
    else:
        for number, name in enumerate(names, 1):
            console.print(Text(f"{number:>3}  {name}"))
        numbered = [*enumerate(rows, 1)]
        for some in _batches(numbered, max(1, (console.width - _HEADING) // _COLUMN)):
            console.print()
            console.print(_columns(some, rows))
    console.print()
    console.print(Text(f"{legend(rows)}.", style="dim"))


def _lines(rows: Sequence[Row], names: Sequence[str]) -> Table:
    table = plain_table("VARIANT", *(title.upper() for _, title, _ in FIGURES), "DISRUPTED BY REASON")
    for row, name in zip(rows, names, strict=True):
        first = row is rows[0]
        table.add_row(name, *(_cell(row, figure, first=first) for figure, _, _ in FIGURES), _reasons(row, first=first))
    return table


def _columns(some: Sequence[tuple[int, Row]], rows: Sequence[Row]) -> Table:
    """A column for each variant, by its number."""
    table = plain_table("VARIANT", *(str(number) for number, _ in some))
    for figure, title, _ in FIGURES:
        table.add_row(title, *(_cell(row, figure, first=row is rows[0]) for _, row in some))
    for reason in sorted({reason for row in rows for reason in row.disruptions}):
        table.add_row(f"  {reason}", *(_reason(row, reason, first=row is rows[0]) for _, row in some))
    return table


def _batches(rows: Sequence[tuple[int, Row]], size: int) -> Iterator[Sequence[tuple[int, Row]]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _cell(row: Row, figure: str, *, first: bool) -> Text:
    value, difference = row.figures[figure], row.differences[figure]
    if value is None:
        return Text("-")
    shown = differing(value, difference, first=first, spread=row.spread.get(figure, 0.0))
    return _marked(*shown, lower=figure in BETTER_LOW)


def _marked(shown: str, mark: str, *, lower: bool) -> Text:
    """Green where lower is better and it is, red where it is not; where neither is better, just told."""
    style = ("green" if mark.startswith("(-") else "red") if lower else "cyan"
    return Text.assemble(shown, (f" {mark}", style) if mark else "")


def _reason(row: Row, reason: str, *, first: bool) -> Text:
    difference = row.disruption_differences.get(reason)
    return _marked(*differing(row.disruptions.get(reason, 0.0), difference, first=first), lower=True)


def _reasons(row: Row, *, first: bool) -> Text:
    told = [Text.assemble(_reason(row, reason, first=first), f" {reason}") for reason in row.disruption_differences]
    return Text(", ").join(told) if told else Text("-")
