"""How commands that look print: one document as JSON or YAML, or as text for people, in a terminal or a pipe."""

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

WIDEST = 4000  # a pipe has no width of its own


def print_document(document: Mapping[str, Any], output: str, as_text: Callable[[Console], None]) -> None:
    """Print in the form asked for; `as_text` draws it for people."""
    if output == "json":
        echo(json_text(document))
    elif output == "yaml":
        echo(yaml_text(document), nl=False)
    elif sys.stdout.isatty():
        as_text(make_console())
    else:
        paper = io.StringIO()
        as_text(make_console(file=paper, width=WIDEST, color_system=None))
        echo("".join(f"{line.rstrip()}\n" for line in paper.getvalue().split("\n")).removesuffix("\n"), nl=False)


def plain_table(*headings: str) -> Table:
    """Columns under headings, without lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    return table


def stamp(instant: datetime) -> str:
    """An instant for scripts."""
    return instants.stamp(instant)


def moment(instant: datetime, now: datetime) -> str:
    """An instant for people: the time alone when it is today, seconds only where they matter."""
    clock = f"{instant:%H:%M}" if instant.second == 0 else f"{instant:%H:%M:%S}"
    if instant.date() == now.date():
        return f"{clock} UTC"
    return f"{instant:%a %d %b} {clock} UTC" if instant.year == now.year else f"{instant:%d %b %Y} {clock} UTC"


def counted(number: int, thing: str) -> str:
    """`1 node`, `2,000 nodes`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def short_name(node: str) -> str:
    """A kwok node by the name of its NodeClaim; any other by its own."""
    if not node.startswith("kwok-"):
        return node
    return node.removeprefix("kwok-").rpartition("-")[0] or node


def short_names(text: str) -> str:
    """A text with the kwok nodes in it called by the names of their NodeClaims."""
    return re.sub(r"kwok-[a-z0-9.-]+", lambda found: short_name(found.group()), text)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds since the start."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def worth(saving: float) -> str:
    """`saves $7.30 a month`, or what it costs more."""
    return f"saves ${saving:,.2f} a month" if saving >= 0 else f"costs ${-saving:,.2f} a month more"
