"""Every setting as an option of a command, with its environment variable; made from `settings`, so none is missing."""

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from dovetail.cli.safe_output import echo
from dovetail.model.duration import Duration
from dovetail.settings import Knob, Settings, knobs, read_settings

PANEL = "Settings (flag or environment variable)"
FEW = "Settings that matter here (every other is taken, too: dovetail run --help)"
SUPPLY = ("provider", "catalog", "instance_types_file_path", "cluster_name")
"""The settings that say what can be bought."""
DECIDING = (*SUPPLY, "feature_gates", "preference_policy")
"""Those on which a decision hangs."""

Command = Callable[..., None]


def with_settings(command: Command) -> Command:
    """Give a command an option for every setting, and hand it one `settings` argument in their place."""
    return _with_options(command, [_option(knob) for knob in knobs()])


def with_few_settings(*listed: str) -> Callable[[Command], Command]:
    """The same, but its help lists only some of them: nobody reads fifty to find the one that counts."""
    return lambda command: _with_options(command, [_option(knob, listed) for knob in knobs()])


def _with_options(command: Command, offered: list[inspect.Parameter]) -> Command:
    own = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    kept = [each.replace(annotation=hints[each.name]) for each in own.parameters.values() if each.name != "settings"]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        written = {knob.name: given.pop(knob.name) for knob in knobs()}
        try:
            settings: Settings = read_settings(
                {name: _text(each) for name, each in written.items() if each is not None}
            )
        except ValueError as error:
            echo(f"Error: settings cannot be read:\n{error}", err=True)
            raise typer.Exit(2) from None
        command(settings=settings, **given)

    parameters = [*kept, *offered]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def _text(given: str | bool) -> str:
    return given if isinstance(given, str) else str(given).lower()


def shown(knob: Knob) -> str:
    """The default as a user would write it."""
    if isinstance(knob.default, bool):
        return str(knob.default).lower()
    if isinstance(knob.default, timedelta):
        return str(Duration.of(knob.default))
    return str(knob.default)


def _option(knob: Knob, listed: Sequence[str] | None = None) -> inspect.Parameter:
    choices = f" One of: {', '.join(knob.choices)}." if knob.choices else ""
    default = shown(knob)
    flag = knob.kind is bool
    option = typer.Option(
        knob.flag,
        envvar=knob.variable,
        help=f"{knob.why}{choices}",
        show_default=default or False,
        rich_help_panel=PANEL if listed is None else FEW,
        hidden=listed is not None and knob.name not in listed,
        metavar=None if flag else {timedelta: "DURATION", int: "NUMBER", float: "NUMBER"}.get(knob.kind, "TEXT"),
    )
    kind, unset = (bool, False) if flag else (str | None, None)
    return inspect.Parameter(
        knob.name, inspect.Parameter.KEYWORD_ONLY, default=unset, annotation=Annotated[kind, option]
    )
