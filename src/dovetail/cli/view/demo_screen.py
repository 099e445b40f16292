"""The terminal screen of `dovetail demo`: header, nodes, pods with cost, and the decision feed.

Each frame is drawn from the current state of the demo and the current size of the terminal. Read-only.
"""

from collections import Counter
from datetime import timedelta

from rich.console import Console, Group
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dovetail.cli.demo.decision_feed import Entry
from dovetail.cli.demo.run import Stage
from dovetail.cli.view.nodes import TableSize, node_table
from dovetail.cli.view.printing import clock
from dovetail.model import kinds
from dovetail.model.duration import Duration
from dovetail.model.pod import Pod
from dovetail.sim.virtual_loop import EPOCH

COLOURS = {
    "event": "bold",
    "user": "bold magenta",
    "lost": "bold red",
    "cloud": "bold red",
    "fault": "bold red",
    "notice": "yellow",
    "repair": "yellow",
    "claim": "cyan",
    "launch": "cyan",
    "join": "cyan",
    "ready": "green",
    "settled": "green",
    "drain": "magenta",
    "drained": "magenta",
    "deleted": "magenta",
    "warning": "yellow",
}
_WIDE = 104  # terminals with fewer columns get fewer table columns
_SIDE, _NARROW_SIDE = 34, 26  # columns of the panel with pods and cost
_FEWEST_FEED_ROWS = 6


def screen(stage: Stage, now: float, console: Console) -> Layout:
    """Draw the screen at a virtual time."""
    width, height = console.size
    # The nodes get as many rows as they have needed so far; the feed keeps two fifths of the screen.
    bottom = max(_FEWEST_FEED_ROWS + 2, height * 2 // 5, height - 5 - max(stage.meter.most_nodes, 8))
    side = _SIDE if width >= _WIDE else _NARROW_SIDE
    layout = Layout()
    layout.split_column(
        Layout(_header(stage, now), name="header", size=2),
        Layout(_nodes(stage, now, console, height - 2 - bottom), name="nodes"),
        Layout(name="bottom", size=bottom),
    )
    layout["bottom"].split_row(
        Layout(_side(stage, now, wide=width >= _WIDE), name="side", size=side),
        Layout(_feed(stage, width - side, bottom - 2), name="feed"),
    )
    return layout


def _header(stage: Stage, now: float) -> Group:
    options, scenario = stage.options, stage.options.scenario
    page = f"  {options.page}" if options.page else ""
    speed = "max" if options.speed is None else f"{options.speed:g}x"
    total = Duration.of(timedelta(seconds=scenario.lasts.seconds))
    first = Text.assemble(
        (" Dovetail ", "bold reverse"),
        (f" {clock(now)}", "bold"),
        (f" of {total}  speed {speed}  seed {scenario.seed}  {scenario.catalog}  Ctrl-C stops{page}", "dim"),
    )
    second = Text.assemble((" Now: ", "dim"), (stage.player.title, "bold"))
    return Group(_one_line(first), _one_line(second))


def _one_line(text: Text) -> Text:
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text


def _nodes(stage: Stage, now: float, console: Console, height: int) -> Panel:
    nodes = stage.parts.manager.state.cluster_nodes()
    room = TableSize(console.width - 4, height - 3, console.encoding.lower().startswith("utf"))
    table = node_table(nodes, EPOCH + timedelta(seconds=now), room)
    return Panel(table, title=f"Nodes: {len(nodes)}", title_align="left", border_style="blue")


def _side(stage: Stage, now: float, *, wide: bool) -> Panel:
    meter = stage.meter
    cost = Table.grid(padding=(0, 1))
    cost.add_column(style="dim")
    cost.add_column(justify="right")
    cost.add_row("cost now", Text(f"${meter.hourly:.2f}/h", style="bold"))
    cost.add_row("spent", Text(f"${meter.spent(max(now, 0.0)):.2f}", style="bold"))
    parts = Group(_pods(stage, wide=wide), Text(""), cost)
    return Panel(parts, title="Pods and cost", title_align="left", border_style="blue")


def _pods(stage: Stage, *, wide: bool) -> Table:
    counts: dict[str, Counter[str]] = {}
    for pod in stage.world.values(kinds.POD):
        if not pod.daemon:
            counts.setdefault(pod.metadata.labels.get("app", "other"), Counter())[_phase(pod)] += 1
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold dim")
    ends = ("STOP", "DONE") if wide else ("STOP",)
    table.add_column("APP", no_wrap=True)
    for heading in ("RUN", "WAIT", *ends):
        table.add_column(heading, justify="right")
    for app in sorted(counts):
        found = counts[app]
        waiting = Text(str(found["WAIT"]), style="bold yellow" if found["WAIT"] else "dim")
        table.add_row(app, str(found["RUN"]), waiting, *(str(found[name]) for name in ends))
    return table


def _phase(pod: Pod) -> str:
    if pod.terminal:
        return "DONE"
    if pod.deleting:
        return "STOP"
    return "RUN" if pod.status.phase == "Running" else "WAIT"


def _feed(stage: Stage, width: int, rows: int) -> Panel:
    recent = list(stage.feed.entries)[-rows:] if rows > 0 else []
    lines = [_one_line(feed_line(entry, with_kind=width > 60)) for entry in recent]
    return Panel(Group(*lines), title="Decisions", title_align="left", border_style="blue")


def feed_line(entry: Entry, *, with_kind: bool = True) -> Text:
    """Format an entry as one line."""
    colour = COLOURS.get(entry.kind, "")
    kind = f"{entry.kind:<8} " if with_kind else ""
    return Text.assemble((f"{clock(entry.at)} ", "dim"), (f"{kind}{entry.text}", colour))
