"""Shared printing: documents as JSON, YAML or text, plain tables, and the formats of times, counts and savings."""

import io
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.safe_output import echo, json_text, make_console, yaml_text
from dovetail.model import instants

WIDEST = 4000  # columns of the text in a pipe, so that no line is wrapped


def print_document(document: Mapping[str, Any], output: str, as_text: Callable[[Console], None]) -> None:
    """Print a document in an output format; `as_text` draws the text form."""
    if output == "json":
        echo(json_text(document))
    elif output == "yaml":
        echo(yaml_text(document), nl=False)
    elif sys.stdout.isatty():
        as_text(make_console())
    else:
        buffer = io.StringIO()
        as_text(make_console(file=buffer, width=WIDEST, color_system=None))
        echo("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().split("\n")).removesuffix("\n"), nl=False)


def plain_table(*headings: str) -> Table:
    """Make a table without borders."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    return table


def stamp(instant: datetime) -> str:
    """Format a time for documents."""
    return instants.stamp(instant)


def moment(instant: datetime, now: datetime) -> str:
    """Format a time for text: without the date if it is today, without seconds if they are zero."""
    clock = f"{instant:%H:%M}" if instant.second == 0 else f"{instant:%H:%M:%S}"
    if instant.date() == now.date():
        return f"{clock} UTC"
    return f"{instant:%a %d %b} {clock} UTC" if instant.year == now.year else f"{instant:%d %b %Y} {clock} UTC"


def counted(number: int, thing: str) -> str:
    """Format a count with its noun: `1 node`, `2,000 nodes`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def short_name(node: str) -> str:
    """Shorten the name of a kwok node to the name of its NodeClaim."""
    if not node.startswith("kwok-"):
        return node
    return node.removeprefix("kwok-").rpartition("-")[0] or node


def short_names(text: str) -> str:
    """Shorten the names of all kwok nodes in a text."""
    return re.sub(r"kwok-[a-z0-9.-]+", lambda found: short_name(found.group()), text)


def clock(seconds: float) -> str:
    """Format seconds as HH:MM:SS."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def worth(saving: float) -> str:
    """Format a monthly saving: `saves $7.30 a month`, or `costs $7.30 a month more`."""
    return f"saves ${saving:,.2f} a month" if saving >= 0 else f"costs ${-saving:,.2f} a month more"
