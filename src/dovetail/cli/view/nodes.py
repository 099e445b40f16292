"""The table of nodes in `dovetail demo`: instance type, price, age, state and utilization."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rich.table import Table
from rich.text import Text

from dovetail.cli.view.printing import short_name
from dovetail.cloud.kwok.node import PRICE
from dovetail.core.lifecycle.registration import stage_of
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.snapshot import ClusterNode

STATES = {
    "Launching": "cyan",
    "Registering": "cyan",
    "NotReady": "yellow",
    "Ready": "green",
    "Cordoned": "yellow",
    "Disrupting": "magenta",
    "Draining": "magenta",
    "Lost": "red",
}
_WIDE = 104  # terminals of this width show NodePool, zone and capacity type
_MIN_WIDTHS = {"$/H": 5, "AGE": 4, "STATE": 11, "CPU": 8, "MEM": 8, "PODS": 4}  # never narrower than this
_UNICODE_BAR, _ASCII_BAR = ("█", "░"), ("#", ".")


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of the table in columns and rows, and whether the terminal can print Unicode."""

    width: int
    rows: int
    unicode: bool = True


def node_table(nodes: tuple[ClusterNode, ...], now: datetime, size: TableSize) -> Table:
    """Build the table, oldest nodes first. If not all fit, nodes that are not Ready take precedence."""
    wide = size.width >= _WIDE
    gap = (0, 2, 0, 0) if wide else (0, 1, 0, 0)
    table = Table(box=None, expand=wide, pad_edge=False, padding=gap, header_style="bold dim")
    for heading in _headings(wide=wide):
        side: Literal["left", "right"] = "right" if heading in {"$/H", "AGE", "PODS"} else "left"
        table.add_column(heading, no_wrap=True, justify=side, min_width=_MIN_WIDTHS.get(heading))
    shown = sorted(nodes, key=_age_order)
    left_out = max(0, len(shown) - size.rows)
    if left_out:
        keep = max(0, size.rows - 1)
        left_out = len(shown) - keep
        shown = sorted(sorted(shown, key=_not_ready_first)[:keep], key=_age_order)
    for each in shown:
        table.add_row(*_cells(each, now, size, wide=wide))
    if left_out and size.rows > 0:
        table.add_row(Text(f"and {left_out} more", style="dim"))
    return table


def _headings(*, wide: bool) -> tuple[str, ...]:
    where = ("POOL", "TYPE", "ZONE", "CAPACITY") if wide else ("TYPE", "AZ")
    return ("NODE", *where, "$/H", "AGE", "STATE", "CPU", "MEM", "PODS")


def _age_order(each: ClusterNode) -> tuple[str, str]:
    owner = each.claim or each.node
    created_at = owner.metadata.creation_timestamp if owner is not None else None
    return (created_at.isoformat() if created_at else "", each.name)


def _not_ready_first(each: ClusterNode) -> tuple[bool, tuple[str, str]]:
    return (stage_of(each) == "Ready", _age_order(each))


def _cells(each: ClusterNode, now: datetime, size: TableSize, *, wide: bool) -> list[Text | str]:
    labels, state = each.labels, stage_of(each)
    price = labels.get(PRICE)
    zone = labels.get(ZONE, "")
    where = (
        [each.nodepool_name, labels.get(INSTANCE_TYPE, ""), zone, labels.get(CAPACITY_TYPE, "")]
        if wide
        else [labels.get(INSTANCE_TYPE, ""), zone.rpartition("-")[2][-2:]]
    )
    length = max(4, min(16, (size.width - 92) // 4)) if wide else 4
    name = each.claim.name if each.claim is not None else short_name(each.name)
    return [
        name,
        *where,
        f"{float(price):.3f}" if price else "",
        _age(each, now),
        Text(state, style=STATES[state]),
        bar(_share(each, CPU), length, unicode=size.unicode),
        bar(_share(each, MEMORY), length, unicode=size.unicode),
        str(sum(not pod.terminal for pod in each.pods)),
    ]


def _age(each: ClusterNode, now: datetime) -> str:
    owner = each.claim or each.node
    created_at = owner.metadata.creation_timestamp if owner is not None else None
    seconds = max(0, int((now - created_at).total_seconds())) if created_at else 0
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h{seconds // 60 % 60:02}"


def _share(each: ClusterNode, resource: str) -> float:
    """Return the requested fraction of a resource; 0 for a NodeClaim that is not launched."""
    total = each.allocatable.get(resource) if each.launched else None
    used = each.requested.get(resource)
    return used.number / total.number if total and used else 0.0


def bar(share: float, length: int, *, unicode: bool) -> Text:
    """Draw a fraction as a bar with its percentage."""
    full, empty = _UNICODE_BAR if unicode else _ASCII_BAR
    filled = min(length, round(share * length)) or (1 if share > 0 else 0)
    colour = "green" if share >= 0.6 else "yellow" if share >= 0.25 else "red"
    return Text.assemble((full * filled, colour), (empty * (length - filled), "dim"), f"{share:4.0%}")
