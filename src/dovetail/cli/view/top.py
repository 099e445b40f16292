"""Draws `dovetail top`: NodePools and nodes with price, age, state, utilization and what they wait for.

The values are the node summaries ("tiles") of the dashboard. This module sorts them, sums them by NodePool and fits
them to the terminal: rows by scroll position, columns by width; narrow terminals drop the less important columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dovetail.cli.view.nodes import STATES, bar
from dovetail.cli.view.printing import WIDEST, age, counted, document_type, moment, worth
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.dashboard.nodes import sums_of

Plain = dict[str, Any]
ORDERS: dict[str, Callable[[Plain], Any]] = {
    "pool": lambda tile: tile["pool"],
    "price": lambda tile: -tile["price"],
    "cpu": lambda tile: percent(tile["cpu"]),
    "memory": lambda tile: percent(tile["memory"]),
    "waits": lambda tile: tile.get("code", ""),
    "age": lambda tile: tile["created"] or "",
}
"""Sort keys by name of the order, as on the dashboard. Equal nodes are sorted by name."""

_KEYS = "s order  n NodePool  arrows, space, b scroll  q quit"
_MIN_WIDTHS = {"$/H": 6, "AGE": 4, "STATE": 11, "PODS": 4}
_RIGHT = frozenset({"$/H", "AGE", "PODS"})
_WIDTHS = (  # least width of the terminal, columns of the table, length of the bars
    (150, ("NODE", "TYPE", "CAPACITY", "ZONE", "$/H", "AGE", "STATE", "CPU", "MEM", "PODS", "WAITS FOR"), 8),
    (112, ("NODE", "TYPE", "$/H", "AGE", "STATE", "CPU", "MEM", "PODS", "WAITS FOR"), 4),
    (84, ("NODE", "TYPE", "$/H", "STATE", "CPU", "MEM", "WAITS FOR"), 3),
    (56, ("NODE", "STATE", "CPU", "MEM", "WAITS FOR"), 0),
    (0, ("NODE", "STATE", "CPU"), 0),
)
_NAME_SHARE = 0.3  # largest share of the width for node names


@dataclass(frozen=True)
class TopView:
    """The chosen order and NodePool, and the scroll position."""

    order: str = "pool"
    nodepool: str = ""
    first: int = 0  # index of the top row


def percent(pair: Sequence[float]) -> int:
    """Return used of total in percent, rounded half up as on the dashboard."""
    return int(100 * pair[0] / pair[1] + 0.5) if pair[1] else 0


def top_document(tiles: Iterable[Plain], summary: Plain, choice: TopView) -> Plain:
    """Build the document: the summary of the cluster, the chosen nodes in order, and their sums."""
    key = ORDERS[choice.order]
    chosen = [tile for tile in tiles if not choice.nodepool or tile["pool"] == choice.nodepool]
    nodes = sorted(chosen, key=lambda tile: (key(tile), tile["name"]))
    return {**document_type("ClusterNodes"), "summary": summary, "shown": sums_of(nodes), "nodes": nodes}


def draw_top(console: Console, document: Plain, choice: TopView) -> None:
    """Draw all rows once."""
    room = console.width
    for line in _head(document, choice, room):
        console.print(line)
    console.print()
    console.print(_table(_rows(document, choice), document, room, unicode=_unicode(console)))


def top_screen(document: Plain, choice: TopView, console: Console) -> tuple[RenderableType, TopView]:
    """Draw the rows that fit on the screen; returns the view with a scroll position that is not past the end."""
    width, height = console.size
    head = _head(document, choice, width)
    rows = _rows(document, choice)
    page = page_size(height, len(head))
    first = max(0, min(choice.first, len(rows) - page))
    shown = rows[first : first + page]
    last = first + len(shown)
    where = "all rows" if len(shown) == len(rows) else f"rows {first + 1}-{last} of {len(rows)}"
    foot = Text(f" {where}  {_KEYS}", style="dim", no_wrap=True, overflow="ellipsis")
    table = _table(shown, document, width, unicode=_unicode(console))
    blank = [Text("")] * max(0, page - len(shown))
    return Group(*head, table, *blank, foot), TopView(choice.order, choice.nodepool, first)


def page_size(height: int, head: int) -> int:
    """Return the number of rows between the header and the footer."""
    return max(1, height - head - 2)


def waiting_screen(missing: Sequence[str]) -> RenderableType:
    """Draw the screen while data is missing."""
    lines = [Text(f"  {each}", style="dim") for each in missing]
    return Group(Text(" Dovetail ", style="bold reverse"), Text("Waiting for data:"), *lines)


def _rows(document: Plain, choice: TopView) -> list[Plain]:
    """Return the rows; in the order by NodePool, each NodePool starts with a row of its sums."""
    nodes: list[Plain] = document["nodes"]
    if choice.order != "pool":
        return nodes
    rows: list[Plain] = []
    for pool, tiles in groupby(nodes, key=lambda tile: str(tile["pool"])):
        members = list(tiles)
        rows += [{"heading": pool or "unmanaged", "managed": bool(pool), **sums_of(members)}, *members]
    return rows


def _head(document: Plain, choice: TopView, width: int) -> list[Text]:
    summary, shown = document["summary"], document["shown"]
    at = datetime.fromisoformat(summary["at"])
    kind = "a snapshot" if summary["still"] else "live"
    chosen = f"  nodepool {choice.nodepool}" if choice.nodepool else ""
    lines = [
        Text.assemble(
            (" Dovetail ", "bold reverse"),
            (f" {at:%a %d %b %Y %H:%M:%S} UTC", "bold"),
            (f"  {kind}  by {choice.order}{chosen}", "dim"),
        ),
        Text.assemble(
            (f" {counted(shown['nodes'], 'node')}", "bold"),
            f"  {counted(shown['pods'], 'pod')}",
            (f"  {summary['pending']} pending", "bold yellow" if summary["pending"] else "dim"),
            *_cost(shown["costPerHour"], shown["unpricedNodes"]),
            f"  cpu {percent(shown['cpu'])}%  memory {percent(shown['memory'])}%",
        ),
        _next(summary),
    ]
    if summary["paused"]:
        lines.append(Text(f" Paused: {summary['paused']}", style="bold yellow"))
    lines += [Text(f" No prices: {each['message']}", style="bold red") for each in summary["missingCatalogs"]]
    for line in lines:
        line.truncate(max(1, width), overflow="ellipsis")
    return lines


def _cost(per_hour: float, unpriced: int) -> Iterator[str | tuple[str, str]]:
    """Yield the parts of the cost. Without the prices of some nodes it is only the least that it can be."""
    if unpriced and not per_hour:
        yield "  cost not known", "yellow"
        return
    yield f"  {'at least ' if unpriced else ''}${per_hour:,.3f}/h", "bold"
    yield f" ${per_hour * HOURS_PER_MONTH:,.2f} a month"
    if unpriced:
        yield f" without {counted(unpriced, 'node')} of unknown price", "yellow"


def _next(summary: Plain) -> Text:
    planned = summary.get("planned")
    if planned is None:
        return Text(" Next pass: not computed yet", style="dim")
    if not planned["nodes"] and summary["missingCatalogs"]:
        return Text(" Next pass: not known", style="yellow")
    if not planned["nodes"]:
        return Text(" Next pass: disrupts nothing", style="dim")
    saving = worth(planned["savingPerMonth"], planned.get("unpricedNodes", 0))
    return Text(f" Next pass: disrupts {counted(planned['nodes'], 'node')}, {saving}", style="bold green")


def _table(rows: Iterable[Plain], document: Plain, width: int, *, unicode: bool) -> Table:
    headings, length = next((names, size) for least, names, size in _WIDTHS if width >= least)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold dim", width=_edge(width))
    for heading in headings:
        side: Literal["left", "right"] = "right" if heading in _RIGHT else "left"
        rest = heading == ("WAITS FOR" if "WAITS FOR" in headings else "NODE")
        firm = length + 5 if heading in {"CPU", "MEM"} else _MIN_WIDTHS.get(heading)
        widest = max(8, int(width * _NAME_SHARE)) if heading == "NODE" and not rest else None
        table.add_column(
            heading,
            no_wrap=True,
            overflow="ellipsis",
            justify=side,
            min_width=firm,
            max_width=widest,
            ratio=1 if rest and _edge(width) else None,
        )
    now = datetime.fromisoformat(document["summary"]["at"])
    for row in rows:
        cells = _sums(row, length, unicode=unicode) if "heading" in row else _cells(row, now, length, unicode=unicode)
        table.add_row(*(cells.get(heading, "") for heading in headings))
    return table


def _edge(width: int) -> int | None:
    """Return the width of the table; None, for no limit, in a pipe."""
    return width if width < WIDEST else None


def _sums(row: Plain, length: int, *, unicode: bool) -> dict[str, Text | str]:
    """Return the cells of a NodePool: the sums over its nodes."""
    return {
        "NODE": Text(f"{row['heading']} ({row['nodes']})", style="bold cyan"),
        "$/H": Text(_price(row["costPerHour"]) if row["managed"] else "", style="bold"),
        "CPU": _use(row["cpu"], length, unicode=unicode),
        "MEM": _use(row["memory"], length, unicode=unicode),
        "PODS": Text(str(row["pods"]), style="bold"),
    }


def _cells(tile: Plain, now: datetime, length: int, *, unicode: bool) -> dict[str, Text | str]:
    return {
        "NODE": f"  {tile['name']}",
        "TYPE": tile["type"],
        "CAPACITY": tile["capacity"],
        "ZONE": tile["zone"],
        "$/H": _price(tile["price"]) if tile["managed"] else "",
        "AGE": _age(tile["created"], now),
        "STATE": Text(tile["state"], style=STATES.get(tile["state"], "")),
        "CPU": _use(tile["cpu"], length, unicode=unicode),
        "MEM": _use(tile["memory"], length, unicode=unicode),
        "PODS": str(tile["pods"][0]),
        "WAITS FOR": _waits(tile, now),
    }


def _price(per_hour: float) -> str:
    return f"{per_hour:.3f}" if per_hour else "?"  # no instance is free: 0 is unknown


def _use(pair: Sequence[float], length: int, *, unicode: bool) -> Text:
    if not length:
        return Text(f"{percent(pair)}%")
    return bar(percent(pair) / 100, length, unicode=unicode)


def _waits(tile: Plain, now: datetime) -> Text:
    because = tile.get("because", "")
    if tile.get("code") == "Next":
        return Text(because, style="bold green")
    until = tile.get("until")
    by = tile.get("by") or ""
    if until:
        lead = f"{by} from" if by else "until"
        return Text.assemble((f"{lead} {moment(datetime.fromisoformat(until), now)}: ", "yellow"), because)
    later = (f"{by} in a later pass: ", "yellow") if by else ""
    return Text.assemble(("permanent: ", "red") if tile.get("permanent") else later, because)


def _age(created: str | None, now: datetime) -> str:
    return "" if created is None else age(now - datetime.fromisoformat(created))


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")
