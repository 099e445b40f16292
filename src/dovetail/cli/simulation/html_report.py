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
from dovetail.cli.simulation.variants import BASELINE, Variant
from dovetail.cli.view.printing import dollars
from dovetail.cli.view.simulation import savings_text

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 230, 56, 26, 24
COLOURS = ("var(--a)", "var(--b)", "var(--c)", "var(--d)", "var(--e)", "var(--f)")
STEPS = (1 / 60, 1 / 12, 1 / 6, 1 / 4, 1 / 2, 1, 2, 3, 6, 12, 24, 48, 120, 240, 720, 2400)  # hours between ticks
MOST_TICKS = 9
OPEN = 3  # with more variants than this, each is in a closed <details> element
STYLE = """
:root{color-scheme:light dark;background:#fff;color:#18181b;--line:#d4d4d8;--dim:#52525b}
:root{--a:#1d4ed8;--b:#b45309;--c:#15803d;--d:#7e22ce;--e:#b91c1c;--f:#0e7490}
@media(prefers-color-scheme:dark){:root{background:#18181b;color:#f4f4f5}
:root{--line:#3f3f46;--dim:#a1a1aa;--a:#60a5fa;--b:#fbbf24;--c:#4ade80;--d:#c084fc;--e:#f87171;--f:#22d3ee}}
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem}
.scroll{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse}
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}caption,.dim{color:var(--dim);text-align:left;white-space:nowrap}
figure{margin:1rem 0}svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--dim)}
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
        f"<style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _joint_plots(names: Sequence[str], reports: Sequence[Report]) -> Iterator[str]:
    """Plot cost and nodes of the first variants over time, one plot for each."""
    some = [*zip(names, reports, strict=True)][: len(COLOURS)]
    hours = [each["hour"] for each in reports[0]["samples"]]
    for title, key in (("Dollars an hour", "cost"), ("Most nodes at once", "nodes")):
        lines = {name: _series(report["samples"], key) for name, report in some if len(report["samples"]) == len(hours)}
        yield plot(title, hours, lines)


def _run(report: Report) -> str:
    cost, pending = report["cost"], report["pending"]
    floor = "not known" if cost["lowerBound"] is None else dollars(cost["lowerBound"])
    over = "" if cost["overLowerBound"] is None else f" ({cost['overLowerBound']:.1%} above the lower bound)"
    summary = (
        f"<p>Cost {dollars(cost['total'])}{over}, lower bound {floor}; {html.escape(savings_text(report))}; "
        f"{report['evictions']:,} evictions; "
        f"{report['nodes']['born']} nodes launched, {report['nodes']['gone']} removed; pods were pending "
        f"{pending['meanSeconds']:g} s on average, p95 {pending['p95Seconds']:g} s. Seed {report['seed']}.</p>"
    )
    samples = report["samples"]
    hours = [each["hour"] for each in samples]
    return "\n".join(
        [
            summary,
            plot("Dollars an hour", hours, {"cost": _series(samples, "cost"), "floor": _series(samples, "lowerBound")}),
            plot("Most nodes at once", hours, {"nodes": _series(samples, "nodes")}),
            plot(
                "Most pods at once", hours, {"pods": _series(samples, "pods"), "pending": _series(samples, "pending")}
            ),
            _day_table(report),
            _pool_table(report),
            *(f"<p>Note: {html.escape(each)}</p>" for each in report["missed"]),
        ]
    )


def _series(samples: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [float(each[key] or 0) for each in samples]


def plot(title: str, hours: Sequence[float], lines: dict[str, list[float]]) -> str:
    """Draw lines over time as SVG, with a text alternative."""
    top = max((max(values, default=0) for values in lines.values()), default=0) or 1.0
    end = max(hours, default=1) or 1.0
    width, height = WIDTH - LEFT, HEIGHT - BOTTOM
    hours, lines = [0.0, *hours], {name: [*values[:1], *values] for name, values in lines.items()}

    def point(hour: float, value: float) -> str:
        return f"{LEFT + width * hour / end:.1f},{height - (height - TOP) * value / top:.1f}"

    drawn, legend, spoken = [], [], []
    for number, (name, values) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(point(hour, value) for hour, value in zip(hours, values, strict=True))
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        legend.append(f'<tspan fill="{colour}" dx="12">{html.escape(name)}</tspan>')
        spoken.append(f"{name}: at most {max(values, default=0):g}, at the end {values[-1] if values else 0:g}")
    marks = []
    for share in range(3):
        y = height - (height - TOP) * share / 2
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{top * share / 2:,.3g}</text>')
        marks.append(f'<line x1="{LEFT}" y1="{y:.0f}" x2="{WIDTH}" y2="{y:.0f}" stroke="var(--line)"/>')
    for hour, when in _ticks(end):
        x = LEFT + width * hour / end
        anchor = "end" if x > WIDTH - 20 else "middle" if hour else "start"
        marks.append(f'<text x="{x:.0f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{when}</text>')
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}: '
        f'{html.escape("; ".join(spoken))}">{"".join(marks)}{"".join(drawn)}<text x="{LEFT}" y="12" font-weight="600">'
        f"{html.escape(title)}{''.join(legend)}</text></svg></figure>"
    )


def _ticks(end: float) -> Iterator[tuple[float, str]]:
    """Yield the ticks of the time axis: hours, and a label in minutes, hours or days."""
    step = next((each for each in STEPS if end / each <= MOST_TICKS), STEPS[-1])
    for number in range(int(end / step) + 1):
        hours = number * step
        in_hours = f"{hours:g} h" if step >= 1 else f"{hours * 60:.0f} min"
        yield hours, f"day {hours / 24:g}" if step >= 24 else in_hours


def _day_table(report: Report) -> str:
    heads = ("Day", "Cost $", "Floor $", "Evictions", "Launched", "Removed", "Pending pod h")
    keys = ("day", "cost", "lowerBound", "evictions", "nodesBorn", "nodesGone", "pendingPodHours")
    return _table("By day", heads, [[each[key] for key in keys] for each in report["days"]])


def _pool_table(report: Report) -> str:
    figures = ("Cost $", "Launched", "Removed", "Most", "Evictions", "Pending pod h", "Leaving")
    heads = ("NodePool", *figures, "Budget used", "Disrupted")
    rows = [
        [
            name,
            pool["cost"],
            pool["nodesBorn"],
            pool["nodesGone"],
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
