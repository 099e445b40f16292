"""Compares simulation variants: figures averaged over seeds, and their differences from the first variant.

`compare` groups the reports by variant into `Row` values. The text form has one line per variant, or one column per
variant if the terminal is too narrow. The HTML report uses the same rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.simulation.report import Report
from dovetail.cli.simulation.variants import BASELINE, WITHOUT_DISRUPTION, Variant
from dovetail.cli.view.printing import document_type, dollars, plain_table, print_document

Take = Callable[[Report], float | None]

BETTER_LOW = frozenset({"cost", "overLowerBound", "evictions", "disruptions", "pendingPodHours", "p95Seconds"})
FIGURES: tuple[tuple[str, str, Take], ...] = (
    ("cost", "cost $", lambda report: report["cost"]["total"]),
    ("saved", "saved $", lambda report: report["savings"]["total"]),
    ("overLowerBound", "over floor %", lambda report: _percent(report["cost"]["overLowerBound"])),
    ("evictions", "evictions", lambda report: report["evictions"]),
    ("disruptions", "nodes disrupted", lambda report: sum(report["disruptions"].values())),
    ("nodesLaunched", "nodes launched", lambda report: report["nodes"]["launched"]),
    ("mostNodes", "most nodes", lambda report: report["nodes"]["most"]),
    ("pendingPodHours", "pod hours pending", lambda report: report["pending"]["podHours"]),
    ("p95Seconds", "p95 pending s", lambda report: report["pending"]["p95Seconds"]),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One variant: its figures by name, and their differences from those of the first variant."""

    name: str
    seeds: tuple[int, ...]
    figures: Mapping[str, float | None]
    differences: Mapping[str, float | None]
    disruptions: Mapping[str, float]
    disruption_differences: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)  # largest distance of a seed from the mean


def compare(variants: Sequence[Variant], reports: Sequence[Report]) -> list[Row]:
    """Build a row for each variant, in the order of the variants."""
    grouped: dict[str, list[tuple[int, Report]]] = {}
    for variant, report in zip(variants, reports, strict=True):
        grouped.setdefault(variant.name, []).append((variant.seed, report))
    rows: list[Row] = []
    for name, runs in grouped.items():
        values = {figure: [take(report) for _, report in runs] for figure, _, take in FIGURES}
        figures = {figure: _mean(each) for figure, each in values.items()}
        base = rows[0].figures if rows else figures
        by_reason = _by_reason([report for _, report in runs])
        first = rows[0].disruptions if rows else by_reason
        rows.append(
            Row(
                name=name,
                seeds=tuple(seed for seed, _ in runs),
                figures=figures,
                differences={figure: _difference(figures[figure], base[figure]) for figure in figures},
                disruptions=by_reason,
                disruption_differences={
                    reason: round(by_reason.get(reason, 0.0) - first.get(reason, 0.0), 4)
                    for reason in sorted({*by_reason, *first})
                },
                spread={figure: _spread(each, figures[figure]) for figure, each in values.items()},
            )
        )
    return rows


def _by_reason(reports: Sequence[Report]) -> dict[str, float]:
    reasons = sorted({reason for report in reports for reason in report["disruptions"]})
    return {reason: _mean([each["disruptions"].get(reason, 0) for each in reports]) or 0.0 for reason in reasons}


def differing(value: float, difference: float | None, *, first: bool, spread: float = 0.0) -> tuple[str, str]:
    """Format a figure with its spread between seeds, and its difference from the first variant if there is one."""
    shown = f"{value:,.2f}".removesuffix(".00")
    if round(spread, 2):
        shown += f" ±{spread:,.2f}".removesuffix(".00")
    if first or not difference or not round(difference, 2):
        return shown, ""
    return shown, f"({difference:+,.2f})".replace(".00)", ")")


def legend(rows: Sequence[Row]) -> str:
    """Explain averages and differences."""
    seeds = len(rows[0].seeds)
    chance = "; ± is the largest distance of a seed from the average" if seeds > 1 else ""
    return f"Averaged over {seeds} seed{'s' * (seeds > 1)}{chance}; differences are from the first variant"


def without_disruption(rows: Sequence[Row]) -> str:
    """Say what the first variant would have cost without disruption; empty if that was not run."""
    first = rows[0]
    wanted = WITHOUT_DISRUPTION if first.name == BASELINE else f"{first.name}, {WITHOUT_DISRUPTION}"
    found = next((row for row in rows if row.name == wanted), None)
    if found is None:
        return ""
    cost, more = found.figures["cost"] or 0.0, found.differences["cost"] or 0.0
    difference = f"{dollars(abs(more))} {'more' if more >= 0 else 'less'} than with it"
    return (
        f"Without disruption it would have cost {dollars(cost)}, {difference}. "
        f"Of that, the savings model counts {dollars(first.figures['saved'] or 0.0)}."
    )


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten each setting to the last step of its path, unless two different paths end with the same step."""
    paths = {setting.partition("=")[0] for name in names for setting in name.split(", ") if "=" in setting}
    ends = [path.rpartition(".")[2] for path in paths]
    short = {path: end for path in paths if ends.count(end := path.rpartition(".")[2]) == 1}

    def shortened(setting: str) -> str:
        path, equals, value = setting.partition("=")
        return f"{short.get(path, path)}{equals}{value}"

    return [", ".join(map(shortened, name.split(", "))) for name in names]


def as_document(rows: Sequence[Row], variants: Sequence[Variant], reports: Sequence[Report]) -> dict[str, Any]:
    """Build the document: every variant, and every run with the name of its variant."""
    runs = [{"variant": variant.name, **report} for variant, report in zip(variants, reports, strict=True)]
    return {**document_type("SimulationComparison"), "variants": [figures_document(row) for row in rows], "runs": runs}


def figures_document(row: Row) -> dict[str, Any]:
    """Build the document of one variant."""
    return {
        "variant": row.name,
        "seeds": list(row.seeds),
        **row.figures,
        "spread": dict(row.spread),
        "disruptionsByReason": dict(row.disruptions),
        "difference": {**row.differences, "disruptionsByReason": dict(row.disruption_differences)},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


def _spread(values: Sequence[float | None], mean: float | None) -> float:
    return round(max((abs(value - (mean or 0.0)) for value in values if value is not None), default=0.0), 4)


def _difference(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else round(value - base, 4)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


_NO_EDGE = 4000  # wide enough for any table
_HEADING, _COLUMN = 20, 24  # widths in the narrow form


def print_comparison(rows: Sequence[Row], document: Mapping[str, Any], output: str) -> None:
    """Print the comparison in an output format."""
    print_document(document, output, lambda console: draw_comparison(console, rows))


def draw_comparison(console: Console, rows: Sequence[Row]) -> None:
    """Draw a line for each variant, or a column if the terminal is too narrow."""
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
    counterfactual = without_disruption(rows)
    if counterfactual:
        console.print(Text(counterfactual))
    console.print(Text(f"{legend(rows)}.", style="dim"))


def _lines(rows: Sequence[Row], names: Sequence[str]) -> Table:
    table = plain_table("VARIANT", *(title.upper() for _, title, _ in FIGURES), "DISRUPTED BY REASON")
    for row, name in zip(rows, names, strict=True):
        first = row is rows[0]
        table.add_row(name, *(_cell(row, figure, first=first) for figure, _, _ in FIGURES), _reasons(row, first=first))
    return table


def _columns(some: Sequence[tuple[int, Row]], rows: Sequence[Row]) -> Table:
    """Build a table with a column for each variant, headed by its number."""
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
    """Color a difference: green for better, red for worse, cyan for figures that are neither."""
    style = ("green" if mark.startswith("(-") else "red") if lower else "cyan"
    return Text.assemble(shown, (f" {mark}", style) if mark else "")


def _reason(row: Row, reason: str, *, first: bool) -> Text:
    difference = row.disruption_differences.get(reason)
    return _marked(*differing(row.disruptions.get(reason, 0.0), difference, first=first), lower=True)


def _reasons(row: Row, *, first: bool) -> Text:
    counts = [Text.assemble(_reason(row, reason, first=first), f" {reason}") for reason in row.disruption_differences]
    return Text(", ").join(counts) if counts else Text("-")
