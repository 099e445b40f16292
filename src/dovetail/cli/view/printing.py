"""Shared printing: documents as JSON, YAML or text, plain tables, and the formats of times, counts and savings."""

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.jsonpath import compile_template
from dovetail.cli.safe_output import echo, json_text, make_console, yaml_text
from dovetail.cli.snapshot_source import JSONPATH
from dovetail.cli.view.fitted_table import FittedTable
from dovetail.cli.view.names import names_in
from dovetail.core import verdict_wording
from dovetail.model import instants

WIDEST = 4000  # columns of the text in a pipe, so that no line is wrapped


API_VERSION = "dovetail.sh/v1alpha1"


def document_type(kind: str) -> dict[str, str]:
    """Return the fields that tell scripts what a document is, as in Kubernetes."""
    return {"apiVersion": API_VERSION, "kind": kind}


_UNSTABLE = ("at", "wakeupAt")  # fields that differ between two snapshots of the same state


class _LastPrinted:
    """The last document that was printed."""

    def __init__(self) -> None:
        self._document: Mapping[str, Any] | None = None

    def is_news(self, document: Mapping[str, Any], output: str) -> bool:
        """Whether the document differs from the last one; then separates the two in the output."""
        stable = {name: value for name, value in document.items() if name not in _UNSTABLE}
        if stable == self._document:
            return False
        if self._document is not None:
            echo({"yaml": "---", "text": "", "wide": ""}.get(output, ""), nl=output in {"yaml", "text", "wide"})
        self._document = stable
        return True


_last_printed: ContextVar[_LastPrinted | None] = ContextVar("last_printed", default=None)


@contextmanager
def only_changes() -> Iterator[None]:
    """Print only documents that differ from the one printed before, for `--watch`."""
    token = _last_printed.set(_LastPrinted())
    try:
        yield
    finally:
        _last_printed.reset(token)


def print_document(document: Mapping[str, Any], output: str, as_text: Callable[[Console], None]) -> None:
    """Print a document in an output format; `as_text` draws the text form."""
    assert document.keys() >= {"apiVersion", "kind"}, "a document says what it is"
    last = _last_printed.get()
    if last is not None and not last.is_news(document, output):
        return
    if output == "json":
        echo(json_text(document))
    elif output == "yaml":
        echo(yaml_text(document), nl=False)
    elif output == "name":
        echo("".join(f"{name}\n" for name in names_in(document)), nl=False)
    elif output.startswith(JSONPATH):
        echo(compile_template(output.removeprefix(JSONPATH)).render(document), nl=False)
    elif sys.stdout.isatty() and output != "wide":
        as_text(make_console())
    else:
        buffer = io.StringIO()
        as_text(make_console(file=buffer, width=WIDEST, color_system=None))
        echo("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().split("\n")).removesuffix("\n"), nl=False)


def plain_table(*headings: str) -> FittedTable:
    """Make a table without borders that fits the terminal."""
    table = FittedTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    return table


def plain_lines(*columns: int) -> Table:
    """Make a table without headings, for lines that wrap below their text; the columns are at least that wide."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for width in columns:
        table.add_column(min_width=width or None, overflow="fold", no_wrap=bool(width))
    return table


def stamp(instant: datetime) -> str:
    """Format a time for documents."""
    return instants.stamp(instant)


def moment(instant: datetime, now: datetime) -> str:
    """Format a time for text: without the date if it is today, without seconds if they are zero."""
    return instants.moment(instant, now)


def age(span: timedelta) -> str:
    """Format an age as kubectl does: `45s`, `12m`, `3h`, `5d`."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172_800 else f"{seconds // 86_400}d"


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


def worth(saving: float, unpriced: int = 0) -> str:
    """Format a monthly saving: `saves $7.30 a month`, or `costs $7.30 a month more`."""
    return verdict_wording.worth(saving, unpriced)


def dollars(amount: float) -> str:
    """Format dollars; amounts below 10 cents with four decimals."""
    return f"${amount:,.4f}" if 0 < abs(amount) < 0.1 else f"${amount:,.2f}"


def saved(amount: float) -> str:
    """Format what commands saved so far: `saved $7.30`, or `cost $7.30 more`."""
    return f"saved {dollars(amount)}" if amount >= 0 else f"cost {dollars(-amount)} more"
