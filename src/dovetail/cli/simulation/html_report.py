"""Writes simulation reports as one self-contained HTML file: comparison, plots (inline SVG) and tables, no scripts."""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.comparison import (
    BETTER_LOW,
    FIGURES,
    Row,
    differing,
    legend,
    short_names,
    without_disruption,
)
from dovetail.cli.simulation.report import Report, budget_use, length
from dovetail.cli.simulation.svg_chart import COLOURS, plot
from dovetail.cli.simulation.svg_chart import STYLE as CHART_STYLE
from dovetail.cli.simulation.variants import BASELINE, Variant
from dovetail.cli.view.printing import dollars
from dovetail.cli.view.simulation import savings_text

OPEN = 3  # with more variants than this, each is in a closed <details> element
STYLE = """
:root{color-scheme:light dark;background:#f6f5f1;color:#1f2726;--card:#fff;--line:#dcdad2;--dim:#5a6462}
:root{--a:#1f7a72;--b:#a85f00;--c:#23733c;--d:#3a64b8;--e:#b02a1e;--f:#8a4aa8}
@media(prefers-color-scheme:dark){:root{background:#14191a;color:#e3e8e6}
:root{--card:#1c2324;--line:#303a3b;--dim:#9daaa7;--a:#4fb3a8;--b:#e0a145;--c:#74c98b;--d:#7fa6ee;--e:#f08a7e;--f:#c295e0}}
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem}
.scroll{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse}
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}caption,.dim{color:var(--dim);text-align:left;white-space:nowrap}
.less{color:var(--c)}.more{color:var(--e)}
h1,h2,summary,p{overflow-wrap:anywhere}summary{cursor:pointer;font-size:1.2rem;font-weight:600;margin:.5rem 0}
"""


def write_html(path: Path, variants: Sequence[Variant], reports: Sequence[Report], rows: Sequence[Row]) -> None:
    """Write the report of one or several runs."""
    path.write_text(page(variants, reports, rows), encoding="utf-8")


def page(variants: Sequence[Variant], reports: Sequence[Report], rows: Sequence[Row]) -> str:
    """Build the page."""
    first = reports[0]
    title = html.escape(f"{first['scenario']}: {length(first['simulatedSeconds'])} from {first['start']}")
    parts = [f"<h1>{title}</h1>"]
    shown: dict[str, Report] = {}
    for variant, report in zip(variants, reports, strict=True):
        shown.setdefault(variant.name, report)  # the first seed stands for the variant
    names = short_names([*shown])
    if rows:
        parts.append(_comparison(rows, names))
        parts.extend(_joint_plots(names, [*shown.values()]))
    for name, report in zip(names, shown.values(), strict=True):
        folded = len(shown) > OPEN
        heading = html.escape(name if len(shown) > 1 or name != BASELINE else "As written")
        head = f"<summary>{heading}</summary>" if folded else f"<h2>{heading}</h2>"
        section = f"{head}\n{_run(report)}"
        parts.append(f"<details>{section}</details>" if folded else section)
    body = "\n".join(parts)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}{CHART_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _joint_plots(names: Sequence[str], reports: Sequence[Report]) -> Iterator[str]:
    """Plot cost and nodes of the first variants over time, one plot for each."""
    some = [*zip(names, reports, strict=True)][:COLOURS]
    hours = [each["hour"] for each in reports[0]["samples"]]
    for title, key, unit in (("Cost per hour", "cost", "$"), ("Most nodes at once", "nodes", "")):
        lines = {name: _series(report["samples"], key) for name, report in some if len(report["samples"]) == len(hours)}
        yield plot(title, hours, lines, unit)


def _run(report: Report) -> str:
    cost, pending = report["cost"], report["pending"]
    floor = "not known" if cost["lowerBound"] is None else dollars(cost["lowerBound"])
    over = "" if cost["overLowerBound"] is None else f" ({cost['overLowerBound']:.1%} above the lower bound)"
    summary = (
        f"<p>Cost {dollars(cost['total'])}{over}, lower bound {floor}; {html.escape(savings_text(report))}; "
        f"{report['evictions']:,} evictions; "
        f"{report['nodes']['launched']} nodes launched, {report['nodes']['removed']} removed; pods were pending "
        f"{pending['meanSeconds']:g} s on average, p95 {pending['p95Seconds']:g} s. Seed {report['seed']}.</p>"
    )
    samples = report["samples"]
    hours = [each["hour"] for each in samples]
    return "\n".join(
        [
            summary,
            plot(
                "Cost per hour",
                hours,
                {"cost": _series(samples, "cost"), "lower bound": _series(samples, "lowerBound")},
                "$",
            ),
            plot("Most nodes at once", hours, {"nodes": _series(samples, "nodes")}),
            plot(
                "Most pods at once", hours, {"pods": _series(samples, "pods"), "pending": _series(samples, "pending")}
            ),
            _day_table(report),
            _pool_table(report),
            *(f"<p>Note: {html.escape(each)}</p>" for each in report["missed"]),
        ]
    )


def _series(samples: Sequence[dict[str, Any]], key: str) -> list[float | None]:
    return [each[key] for each in samples]


def _day_table(report: Report) -> str:
    heads = ("Day", "Cost $", "Floor $", "Evictions", "Launched", "Removed", "Pending pod h")
    keys = ("day", "cost", "lowerBound", "evictions", "nodesLaunched", "nodesRemoved", "pendingPodHours")
    return _table("By day", heads, [[each[key] for key in keys] for each in report["days"]])


def _pool_table(report: Report) -> str:
    figures = ("Cost $", "Launched", "Removed", "Most", "Evictions", "Pending pod h", "Leaving")
    heads = ("NodePool", *figures, "Budget used", "Disrupted")
    rows = [
        [
            name,
            pool["cost"],
            pool["nodesLaunched"],
            pool["nodesRemoved"],
            pool["mostNodes"],
            pool["evictions"],
            pool["pendingPodHours"],
            pool["mostLeavingAtOnce"],
            budget_use(pool["budgets"]),
            ", ".join(f"{number} {reason}" for reason, number in pool["disruptions"].items()) or "-",
        ]
        for name, pool in report["nodePools"].items()
    ]
    return _table("By NodePool", heads, rows)


def _comparison(rows: Sequence[Row], names: Sequence[str]) -> str:
    reasons = sorted({reason for row in rows for reason in row.disruption_differences})
    heads = ("Variant", *(title for _, title, _ in FIGURES), *(f"{reason}, nodes" for reason in reasons))
    cells = [
        [
            name,
            *(_figure(row, figure, first=row is rows[0]) for figure, _, _ in FIGURES),
            *_reasons(row, reasons, rows[0]),
        ]
        for name, row in zip(names, rows, strict=True)
    ]
    if len(rows) <= OPEN:  # few variants are columns
        cells = [[title, *(line[at] for line in cells)] for at, title in enumerate(heads) if at]
        heads = ("Figure", *names)
    counterfactual = without_disruption(rows)
    answer = f"<p>{html.escape(counterfactual)}</p>" if counterfactual else ""
    return answer + _table(legend(rows), heads, cells)


class _Marked(str):
    """A cell that is HTML and must not be escaped."""

    __slots__ = ()


def _figure(row: Row, figure: str, *, first: bool) -> str:
    value = row.figures[figure]
    if value is None:
        return "-"
    shown = differing(value, row.differences[figure], first=first, spread=row.spread.get(figure, 0.0))
    return _colored(*shown, lower=figure in BETTER_LOW)


def _reasons(row: Row, reasons: Sequence[str], base: Row) -> Iterator[str]:
    for reason in reasons:
        difference = row.disruption_differences.get(reason)
        yield _colored(*differing(row.disruptions.get(reason, 0.0), difference, first=row is base), lower=True)


def _colored(shown: str, mark: str, *, lower: bool) -> _Marked:
    """Color a difference: green for better, red for worse."""
    colour = ("less" if mark.startswith("(-") else "more") if lower else "dim"
    return _Marked(f'{shown} <span class="{colour}">{mark}</span>' if mark else shown)


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, _Marked):
            return value
        return html.escape(f"{value:,.2f}" if isinstance(value, float) else "-" if value is None else str(value))

    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell(each)}</td>" for each in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{html.escape(caption)}">'
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        "</div>"
    )
