"""`dovetail demo`: runs the demo scenario on the embedded world with the real controllers.

On a terminal the demo is a live view; elsewhere, or with --plain, it prints the decision feed line by line. All times
on standard output are virtual, so the same seed and length print the same lines. The real time goes to standard error.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.safe_output import echo, json_text, make_console, yaml_text

if TYPE_CHECKING:
    from rich.console import Console

    from dovetail.cli.demo.decision_feed import Entry
    from dovetail.cli.demo.run import DemoOptions, Pacer, Stage, Summary

_DEFAULT_SPEED = 120.0
_PANEL = "What is simulated"


class Output(StrEnum):
    """The output format of the summary."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class Catalog(StrEnum):
    """The catalogs of instance types."""

    REALISTIC = "realistic"
    GENERIC = "generic"


Length = Annotated[str, typer.Option("--for", metavar="DURATION", help="Virtual time to simulate, such as 30m or 24h.")]
Speed = Annotated[
    str,
    typer.Option(
        "--speed",
        metavar="NUMBER|max",
        help="Virtual seconds per real second, or max for as fast as possible.",
        show_default="120; max without a live view",
    ),
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Print the decisions line by line. The default without a terminal.")
]
Form = Annotated[
    Output, typer.Option("--output", "-o", help="The output format; json and yaml print only the summary.")
]
Seed = Annotated[
    int, typer.Option("--seed", help="The random seed. The same seed gives the same run.", rich_help_panel=_PANEL)
]
CatalogOption = Annotated[
    Catalog, typer.Option("--catalog", help="The catalog of instance types.", rich_help_panel=_PANEL)
]
NodePoolsOption = Annotated[
    str,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="Use the NodePools of this file; - reads standard input.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


LedgerOption = Annotated[
    str,
    typer.Option(
        "--ledger", metavar="FILE", help="Record every decision in this file, for dovetail history.", show_default=False
    ),
]


Port = Annotated[
    int | None,
    typer.Option(
        "--dashboard-port",
        min=0,
        max=65535,
        metavar="NUMBER",
        help="The port of the dashboard, which then stays until Ctrl-C; 0 disables it.",
        show_default="8088 with a live view, until the demo ends",
    ),
]


def demo(  # noqa: PLR0913 - one parameter an option
    *,
    length: Length = "2h",
    speed: Speed = "",
    plain: Plain = False,
    output: Form = Output.TEXT,
    seed: Seed = 0,
    catalog: CatalogOption = Catalog.REALISTIC,
    filename: NodePoolsOption = "",
    ledger: LedgerOption = "",
    dashboard_port: Port = None,
) -> None:
    """Watch the controllers on a simulated cluster: workloads scale, and nodes are launched and removed.

    Two hours of virtual time take about a minute. Deployments scale out and
    in, Jobs start, a spot instance is reclaimed, a user deletes a node, a
    kernel deadlocks, an instance disappears. The controllers are the real
    ones; the cluster is simulated in memory.

    [bold]Examples[/bold]
      dovetail demo                          two hours, in about a minute
      dovetail demo --speed 30 --seed 7      slower, with another seed
      dovetail demo --for 24h --speed max    a day, as fast as possible
      dovetail demo -f nodepool.yaml         with your own NodePools
      dovetail demo --dashboard-port 8088    keep the dashboard until Ctrl-C
      dovetail demo --plain -o json          only the summary, for scripts
    """
    from dataclasses import replace

    from dovetail.cli.demo.demo_page import demo_page
    from dovetail.cli.demo.run import DemoOptions
    from dovetail.cli.demo.scenario import demo_scenario

    console = make_console(markup=True)
    live = console.is_terminal and not console.is_dumb_terminal and not plain
    _check_length(length)
    options = DemoOptions(
        scenario=demo_scenario(length, seed=seed, catalog=catalog.value, nodepools=_nodepools(filename)),
        speed=_speed(speed) if speed else (_DEFAULT_SPEED if live else None),
        ledger=ledger,
    )
    with demo_page(options, dashboard_port, live=live) as page:
        options = replace(options, ledger=page.ledger, page=page.address)
        with _on_terminal(console) if live else nullcontext() as draw:
            show = _printer(console) if output is Output.TEXT and not live else _silent
            summary, took = _run(options, draw, show, page.opened)
        _print_summary(console, summary, output)
        echo(f"Took {took:.1f} s of real time.", err=True)
        page.stay()


def _check_length(text: str) -> None:
    from dovetail.sim.scenario.parsing import PositiveSpan

    try:
        PositiveSpan(text)
    except ValueError as error:
        raise typer.BadParameter(f'{error}; for example "2h"', param_hint="--for") from None


def _speed(text: str) -> float | None:
    if text.lower() == "max":
        return None
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        problem = f"{text!r} is not a speed; write a number above 0, for example 60, or max"
        raise typer.BadParameter(problem, param_hint="--speed")
    return number


def _nodepools(filename: str) -> tuple[dict[str, Any], ...]:
    from dovetail.cli.demo.scenario import read_nodepools
    from dovetail.manifest.input_file import InputUnreadable, read_text

    if not filename:
        return ()
    try:
        text = read_text(filename)
    except InputUnreadable as error:
        raise typer.BadParameter(f"{filename}: {error}", param_hint="--filename") from None
    pools = read_nodepools(text, "<stdin>" if filename == "-" else filename)
    for line in (*pools.faults, *pools.notes):
        echo(line, err=True)
    if pools.faults:
        echo("Error: these NodePools are invalid; dovetail validate explains the faults", err=True)
        raise typer.Exit(2)
    return pools.documents


def _run(
    options: "DemoOptions",
    draw: "Callable[[Stage, float], None] | None",
    show: "Callable[[Entry], None]",
    seen: "Callable[[Stage], None]",
) -> "tuple[Summary, float]":
    import time

    from dovetail.cli.demo.run import Pacer, run_demo

    pacer = Pacer(options.speed, time.monotonic, time.sleep)

    def opened(stage: "Stage") -> None:
        seen(stage)
        if draw is not None:
            pacer.draw = lambda now: draw(stage, now)

    began = time.monotonic()
    with _interruptible(pacer):
        summary = run_demo(options, pacer, show, opened)
    return summary, time.monotonic() - began


@contextmanager
def _interruptible(pacer: "Pacer") -> Iterator[None]:
    """Ctrl-C ends the demo with its summary; a second Ctrl-C ends the command."""

    def stop(number: int, _frame: object) -> None:
        pacer.stop()
        signal.signal(number, before[number])

    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _on_terminal(console: "Console") -> "Iterator[Callable[[Stage, float], None]]":
    from rich.live import Live

    from dovetail.cli.view.demo_screen import screen

    with Live(console=console, screen=True, auto_refresh=False) as view:
        yield lambda stage, now: view.update(screen(stage, now, console), refresh=True)


def _printer(console: "Console") -> "Callable[[Entry], None]":
    from dovetail.cli.view.demo_screen import feed_line

    return lambda entry: console.print(feed_line(entry), soft_wrap=True)


def _silent(_: "Entry") -> None:
    pass


def _print_summary(console: "Console", summary: "Summary", output: Output) -> None:
    from dovetail.cli.demo.run import NEXT_STEPS

    if output is Output.JSON:
        echo(json_text(summary.as_data()))
    elif output is Output.YAML:
        echo(yaml_text(summary.as_data()), nl=False)
    else:
        for title, rows, width in (("Summary", summary.rows(), 14), ("Next steps", NEXT_STEPS, 24)):
            console.print(f"\n{title}", style="bold")
            for name, text in rows:
                console.print(f"  {name:<{width}} {text}", soft_wrap=True, markup=False)
        console.print()
