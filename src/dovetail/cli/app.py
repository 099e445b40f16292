"""The commands of `dovetail` and how they are grouped in `--help`."""

from importlib.metadata import version
from typing import Annotated

import typer

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
from dovetail.cli.simulate import simulate
from dovetail.cli.snapshot import snapshot
from dovetail.cli.top import top
from dovetail.cli.torture import torture
from dovetail.cli.validate import validate

EPILOG = "Exit codes: 0 all is well, 1 something was found wrong, 2 the command could not do its work."

app = typer.Typer(
    name="dovetail",
    cls=SafeGroup,
    help="A Kubernetes node lifecycle manager: brings nodes for pending pods and takes them away with care.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"dovetail {version('dovetail')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Shared options."""


app.command(rich_help_panel="Look")(demo)
app.command(rich_help_panel="Look")(validate)
app.command(rich_help_panel="Look")(snapshot)
app.command(rich_help_panel="Look")(plan)
app.command(rich_help_panel="Look")(explain)
app.command(rich_help_panel="Look")(budgets)
app.command(rich_help_panel="Look")(history)
app.command(rich_help_panel="Look")(dashboard)
app.command(rich_help_panel="Look")(top)
app.command(rich_help_panel="Look")(simulate)
app.command(rich_help_panel="Look")(torture)
app.command(rich_help_panel="Act")(run)
app.command(rich_help_panel="Act")(drain)
app.command(rich_help_panel="Install")(crds)
