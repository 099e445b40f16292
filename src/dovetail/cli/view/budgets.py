"""Prints the budget calendar: a heat map in a terminal, the same numbers without color in a pipe, or a document.

Each cell is the least number of nodes that may be disrupted at once in that hour. Actions with equal calendars share
one map.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.printing import counted, document_type, moment, print_document, stamp
from dovetail.core.explain.budget_calendar import HOUR, Allowed, AllowedNow, Calendar
from dovetail.model.instants import add

_DAY = 24
_NO_MONTH = 28  # this many days in a row are unambiguous without the month
_UNLIMITED = "*"
_COLOURS = ((0.0, "white on red"), (0.1, "black on dark_orange"), (0.34, "black on yellow"), (0.99, "black on green3"))
_MOST = "black on bright_green"


def print_calendar(pool: str, calendar: Calendar, output: str) -> None:
    """Print what is allowed now, then the calendar, in an output format."""
    document = calendar_document(pool, calendar)
    print_document(document, output, lambda console: draw_map(console, pool, calendar))


def _now_document(calendar: Calendar) -> dict[str, Any] | None:
    if calendar.at is None:
        return None
    return {
        "at": stamp(calendar.at),
        "actions": {
            str(action): {
                "limit": each.limit,
                "changesAt": stamp(each.changes_at) if each.changes_at is not None else None,
                "then": each.then,
            }
            for action, each in calendar.now.items()
        },
    }


def _now_line(calendar: Calendar, at: datetime) -> str:
    """Say how many nodes may be disrupted now; actions with equal answers together."""
    alike: dict[AllowedNow, list[str]] = {}
    for action, each in calendar.now.items():
        alike.setdefault(each, []).append(str(action))
    parts = []
    for each, actions in alike.items():
        change = f" until {moment(each.changes_at, at)}, then {_number(each.then)}" if each.changes_at else ""
        named = " and ".join(filter(None, [", ".join(actions[:-1]), actions[-1]]))
        parts.append(f"{named} {_number(each.limit)}{change}")
    return f"Now, of {counted(calendar.total, 'node')}: {'; '.join(parts)}."


def _number(limit: int | None) -> str:
    return "without limit" if limit is None else str(limit)


def calendar_document(pool: str, calendar: Calendar) -> dict[str, Any]:
    """Build the document: the least and the most that budgets allow in each hour, by action."""
    return {
        **document_type("BudgetCalendar"),
        "nodepool": pool,
        "nodes": calendar.total,
        "from": stamp(calendar.start),
        "fault": calendar.fault or None,
        "now": _now_document(calendar),
        "withoutBudgets": {str(action): note for action, note in calendar.without_budgets.items()},
        "actions": {
            str(action): [
                {"hour": stamp(add(calendar.start, HOUR * number)), "least": each.least, "most": each.most}
                for number, each in enumerate(hours)
            ]
            for action, hours in calendar.hours_by_action.items()
        },
    }


def draw_map(console: Console, pool: str, calendar: Calendar) -> None:
    """Draw what is allowed now, then one map for each group of actions with equal calendars."""
    if calendar.fault:
        why = f"Blocked: a budget is invalid, so nothing is disrupted: {calendar.fault}"
        console.print(why, style="bold red")
    if calendar.at is not None and calendar.now:
        console.print(Text(_now_line(calendar, calendar.at), style="bold yellow"))
    among = f"of {counted(calendar.total, 'node')}" if calendar.total else "nodes"
    console.print(f"NodePool {pool}: how many {among} may be disrupted at once", style="bold")
    console.print(f"From {calendar.start:%a %d %b %Y}, by the hour, in UTC", style="dim")
    alike: dict[tuple[Allowed, ...], list[str]] = {}
    for action, hours in calendar.hours_by_action.items():
        alike.setdefault(hours, []).append(str(action))
    for hours, actions in alike.items():
        console.print()
        console.print(", ".join(actions), style="bold cyan")
        _print_grid(console, calendar, hours)
    for action, note in calendar.without_budgets.items():
        console.print()
        console.print(str(action), style="bold cyan")
        console.print(f"  {note}")
    _print_notes(console, [each for hours in alike for each in hours])


def _print_grid(console: Console, calendar: Calendar, hours: Sequence[Allowed]) -> None:
    width = max(2, *(len(_digits(each)) for each in hours))
    heading = "".join(f" {number:0{width}}" if width == 2 else f" {number:>{width}}" for number in range(_DAY))
    label = "%a %d" if len(hours) <= _DAY * _NO_MONTH else "%a %d %b"
    console.print(f"{'':{len(calendar.start.strftime(label))}}{heading}", style="dim")
    for first in range(0, len(hours), _DAY):
        day = add(calendar.start, timedelta(hours=first))
        row = Text(day.strftime(label))
        for each in hours[first : first + _DAY]:
            row.append(f" {_digits(each):>{width}}", style=_colour(each, calendar.total))
        console.print(row, no_wrap=True, overflow="ignore", crop=False)


def _digits(allowed: Allowed) -> str:
    """Format the least that is allowed in the hour, with a plus sign if part of the hour allows more."""
    least = _UNLIMITED if allowed.least is None else str(allowed.least)
    return least if allowed.least == allowed.most else f"{least}+"


def _colour(allowed: Allowed, total: int) -> str:
    if allowed.least is None:
        return _MOST
    share = allowed.least / max(total, allowed.least, 1)
    return next((colour for bound, colour in _COLOURS if share <= bound), _MOST)


def _print_notes(console: Console, hours: Sequence[Allowed]) -> None:
    notes = []
    if any(each.least is None for each in hours):
        notes.append(f"{_UNLIMITED} no limit: no budget is in force")
    if any(each.least != each.most for each in hours):
        notes.append("+ more for part of the hour")
    if notes:
        console.print()
        console.print("   ".join(notes), style="dim")
