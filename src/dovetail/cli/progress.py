"""A progress bar for commands that simulate."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dovetail.cli.safe_output import make_console


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on standard error, on a terminal only; the function takes a text and the finished part."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = make_console(stderr=True, markup=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, done: bar.update(task, description=what, completed=done)
