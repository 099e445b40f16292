"""The `dovetail` command group: registers every command in a panel of `--help`."""

from importlib.metadata import version
from typing import Annotated, Any

import typer

from dovetail.cli.adopt import adopt
from dovetail.cli.argument_wording import PlainCommand, PlainHelp
from dovetail.cli.budgets import budgets
from dovetail.cli.crds import crds
from dovetail.cli.dashboard import dashboard
from dovetail.cli.demo.command import demo
from dovetail.cli.drain import drain
from dovetail.cli.explain import explain
from dovetail.cli.history import history
from dovetail.cli.plan import plan
from dovetail.cli.run import run
from dovetail.cli.safe_output import SafeGroup, echo
from dovetail.cli.schema import schema
from dovetail.cli.settings_options import split_booleans
from dovetail.cli.simulate import simulate
from dovetail.cli.snapshot import snapshot
from dovetail.cli.top import top
from dovetail.cli.torture import torture
from dovetail.cli.validate import validate
from dovetail.cli.what_if import what_if

EPILOG = "Exit codes: 0 success, 1 the command found a problem, 2 the command failed."


class CommandGroup(PlainHelp, SafeGroup):
    """The group of all commands; boolean settings take a value, as in Karpenter: `--isolated-vpc=true`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and split values off its boolean flags."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, split_booleans(rest)


app = typer.Typer(
    name="dovetail",
    cls=CommandGroup,
    help="A node lifecycle manager for Kubernetes: launches nodes for pending pods, and consolidates, replaces and"
    " terminates nodes.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        echo(f"dovetail {version('dovetail')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `dovetail` itself."""


for _panel, _commands in (
    ("Inspect a cluster", (plan, what_if, explain, budgets, history, top, dashboard, snapshot, adopt)),
    ("Try and test without a cluster", (demo, validate, simulate, torture)),
    ("Change a cluster", (run, drain)),
    ("Install", (crds, schema)),
):
    for _command in _commands:
        app.command(cls=PlainCommand, rich_help_panel=_panel)(_command)
