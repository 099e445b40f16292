"""Variants side by side: the figures people choose by, averaged over seeds, and how each differs from the first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.cli.simulation.report import Report
from dovetail.cli.simulation.variants import Variant

Take = Callable[[Report], float | None]

BETTER_LOW = frozenset({"cost", "overLowerBound", "evictions", "disruptions", "pendingPodHours", "p95Seconds"})
FIGURES: tuple[tuple[str, str, Take], ...] = (
    ("cost", "cost $", lambda report: report["cost"]["total"]),
    ("overLowerBound", "over floor %", lambda report: _percent(report["cost"]["overLowerBound"])),
    ("evictions", "evictions", lambda report: report["evictions"]),
    ("disruptions", "nodes disrupted", lambda report: sum(report["disruptions"].values())),
    ("nodesBorn", "nodes born", lambda report: report["nodes"]["born"]),
    ("mostNodes", "most nodes", lambda report: report["nodes"]["most"]),
    ("pendingPodHours", "pod hours pending", lambda report: report["pending"]["podHours"]),
    ("p95Seconds", "p95 wait s", lambda report: report["pending"]["p95Seconds"]),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One variant: figures by name, and by how much they differ from the first variant's."""

    name: str
    seeds: tuple[int, ...]
    figures: Mapping[str, float | None]
    differences: Mapping[str, float | None]
    disruptions: Mapping[str, float]
    disruption_differences: Mapping[str, float]
    spread: Mapping[str, float] = field(
        default_factory=dict
    )  # between seeds: how far a figure is from its mean at most


def compare(variants: Sequence[Variant], reports: Sequence[Report]) -> list[Row]:
    """A row for each variant, in the order they were asked for."""
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
    """A figure with its spread between seeds and, where there is one worth telling, its difference from the first."""
    shown = f"{value:,.2f}".removesuffix(".00")
    if round(spread, 2):
        shown += f" ±{spread:,.2f}".removesuffix(".00")
    if first or not difference or not round(difference, 2):
        return shown, ""
    return shown, f"({difference:+,.2f})".replace(".00)", ")")


def legend(rows: Sequence[Row]) -> str:
    """How to read what is compared."""
    seeds = len(rows[0].seeds)
    chance = ", ± is how far a single seed is from that at most" if seeds > 1 else ""
    return f"Averaged over {seeds} seed{'s' * (seeds > 1)}{chance}; differences are from the first variant"


def short_names(names: Sequence[str]) -> list[str]:
    """Each setting by the last step of its path, unless two that differ would be called the same."""
    paths = {setting.partition("=")[0] for name in names for setting in name.split(", ") if "=" in setting}
    ends = [path.rpartition(".")[2] for path in paths]
    short = {path: end for path in paths if ends.count(end := path.rpartition(".")[2]) == 1}

    def shortened(setting: str) -> str:
        path, equals, value = setting.partition("=")
        return f"{short.get(path, path)}{equals}{value}"

    return [", ".join(map(shortened, name.split(", "))) for name in names]


def as_document(rows: Sequence[Row], variants: Sequence[Variant], reports: Sequence[Report]) -> dict[str, Any]:
    """For JSON and YAML: every variant, and every run under the name of its variant."""
    runs = [{"variant": variant.name, **report} for variant, report in zip(variants, reports, strict=True)]
    return {"variants": [_figures(row) for row in rows], "runs": runs}


def _figures(row: Row) -> dict[str, Any]:
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
