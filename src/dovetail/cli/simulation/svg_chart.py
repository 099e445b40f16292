"""Draws charts over time as inline SVG, in the style of the dashboard: axes with round ticks and units, and a legend.

There are no scripts: the values at a time are the tooltip of their column, and a table below. A value holds from the
previous hour until its own; None is a gap, because what is not known is not zero.
"""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 250, 64, 8, 10, 26
STEPS = (1 / 60, 1 / 12, 1 / 6, 1 / 4, 1 / 2, 1, 2, 3, 6, 12, 24, 48, 120, 240, 720, 2400)  # hours between ticks
MOST_TICKS = 9
MOST_AMOUNTS = 5
MOST_ROWS = 48  # of the table
COLOURS = 6
STYLE = """
.chart{margin:1rem 0;padding:.6rem .8rem;border:1px solid var(--line);border-radius:8px;background:var(--card)}
.chart figcaption{font-weight:600}.chart figcaption span{font-weight:400;color:var(--dim)}
.chart ul{display:flex;flex-wrap:wrap;gap:0 1.2rem;list-style:none;margin:.2rem 0;padding:0;font-size:12px}
.chart li::before{content:"";display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.chart li::before{background:var(--of)}.chart svg{display:block;width:100%;min-width:780px;height:auto}
.chart .plot{overflow-x:auto}
.chart text{font:11px system-ui,sans-serif;fill:var(--dim)}.grid{stroke:var(--line)}.zero{stroke:var(--dim)}
.edge{fill:none;stroke:var(--of);stroke-width:1.75}.area{fill:var(--of);opacity:.16}
.at rect{fill:transparent}.at line{stroke:currentcolor;stroke-dasharray:3 3;visibility:hidden}
.at:hover line{visibility:visible}.chart summary{font-size:12px;font-weight:400;color:var(--dim);margin:0}
.l0{--of:var(--a)}.l1{--of:var(--b)}.l2{--of:var(--c)}.l3{--of:var(--d)}.l4{--of:var(--e)}.l5{--of:var(--f)}
"""

Values = Sequence[float | None]


def plot(title: str, hours: Sequence[float], lines: Mapping[str, Values], unit: str = "") -> str:
    """Draw lines over time, with text alternatives. `unit` "$": amounts of dollars."""
    known = [value for values in lines.values() for value in values if value is not None]
    end, top = max(hours, default=1) or 1.0, (max(known, default=0) or 1.0) * 1.05
    spans = [*pairwise((0.0, *hours))]
    scale = _Scale(end, top)
    drawn = [
        scale.draw(spans, values, number % COLOURS, filled=number == 0) for number, values in enumerate(lines.values())
    ]
    spoken = "; ".join(_spoken(name, values, unit) for name, values in lines.items())
    legend = "".join(f'<li class="l{number % COLOURS}">{html.escape(name)}</li>' for number, name in enumerate(lines))
    columns = "".join(_column(scale, span, at, lines, unit) for at, span in enumerate(spans))
    return (
        f'<figure class="chart"><figcaption>{html.escape(title)}</figcaption><ul>{legend}</ul>'
        f'<div class="plot" tabindex="0" role="group" aria-label="{html.escape(title)}">'  # a narrow screen scrolls it
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(f"{title}: {spoken}")}">'
        f"{''.join(scale.axes(unit))}{''.join(drawn)}{columns}</svg></div>{_values(title, spans, lines, unit)}</figure>"
    )


class _Scale:
    """Maps hours and amounts to pixels."""

    def __init__(self, end: float, top: float) -> None:
        self.end = end
        self.top = top

    def x(self, hour: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * hour / self.end

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top

    def axes(self, unit: str) -> Iterator[str]:
        for amount in _amounts(self.top):
            y, kind = self.y(amount), "grid" if amount else "zero"
            yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{_tick(amount, unit)}</text>'
        for hour, when in _ticks(self.end):
            x = self.x(hour)
            anchor = "end" if x > WIDTH - RIGHT - 20 else "middle" if hour else "start"
            yield f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            yield f'<text x="{x:.0f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{when}</text>'

    def draw(self, spans: Sequence[tuple[float, float]], values: Values, color: int, *, filled: bool) -> str:
        """Draw each run of known values as steps."""
        runs: list[list[str]] = [[]]
        for (since, until), value in zip(spans, values, strict=True):
            if value is None:
                runs.append([])
            else:
                runs[-1] += (f"{self.x(hour):.1f},{self.y(value):.1f}" for hour in (since, until))
        return "".join(self._run(points, color, filled=filled) for points in runs if points)

    def _run(self, points: Sequence[str], color: int, *, filled: bool) -> str:
        floor = " ".join(f"{point.split(',')[0]},{self.y(0):.1f}" for point in (points[-1], points[0]))
        area = f'<polygon class="area l{color}" points="{" ".join(points)} {floor}"/>' if filled else ""
        return f'{area}<polyline class="edge l{color}" points="{" ".join(points)}"/>'


def _spoken(name: str, values: Values, unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return f"{name}: not known"
    return f"{name}: at most {_text(max(known), unit)}, at the end {_text(values[-1], unit)}"


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    return f"{unit}{value:,.3f}" if unit else f"{value:,g}"


def _column(scale: _Scale, span: tuple[float, float], at: int, lines: Mapping[str, Values], unit: str) -> str:
    """The tooltip of one column."""
    left, right = (scale.x(hour) for hour in span)
    middle = (left + right) / 2
    said = "\n".join((_span(span), *(f"{name}: {_text(values[at], unit)}" for name, values in lines.items())))
    return (
        f'<g class="at"><title>{html.escape(said)}</title>'
        f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>'
        f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/></g>'
    )


def _span(span: tuple[float, float]) -> str:
    return " to ".join(f"{int(hour):02}:{round(hour % 1 * 60) % 60:02}" for hour in span) + " h"


def _values(title: str, spans: Sequence[tuple[float, float]], lines: Mapping[str, Values], unit: str) -> str:
    """A closed table with at most `MOST_ROWS` of the values."""
    every = -(-len(spans) // MOST_ROWS)
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in ("Time", *lines))
    rows = "".join(
        f"<tr><td>{_span(spans[at])}</td>{''.join(f'<td>{_text(each[at], unit)}</td>' for each in lines.values())}</tr>"
        for at in range(0, len(spans), every or 1)
    )
    scroll = f'<div class="scroll" tabindex="0" role="group" aria-label="{html.escape(title)}, values">'
    return (
        f"<details><summary>Values as a table</summary>{scroll}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _amounts(top: float) -> Iterator[float]:
    """Yield round amounts from zero up to the top."""
    rough = top / MOST_AMOUNTS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    for number in range(int(top / step + 1e-9) + 1):
        yield number * step


def _tick(amount: float, unit: str) -> str:
    digits = 2 if unit and round(amount, 2) == round(amount, 9) else None
    return f"{unit}{amount:,.10g}" if digits is None else f"{unit}{amount:,.{digits}f}"


def _ticks(end: float) -> Iterator[tuple[float, str]]:
    """Yield the ticks of the time axis: hours, and a label in minutes, hours or days."""
    step = next((each for each in STEPS if end / each <= MOST_TICKS), STEPS[-1])
    for number in range(int(end / step) + 1):
        hours = number * step
        in_hours = f"{hours:g} h" if step >= 1 else f"{hours * 60:.0f} min"
        yield hours, f"day {hours / 24:g}" if step >= 24 else in_hours
