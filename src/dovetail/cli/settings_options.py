"""Decorators that give a command one option per setting, with its environment variable.

The options are generated from `settings.setting_fields()`. The command gets one parsed `settings` argument in their
place; invalid settings end it with exit code 2.
"""

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from dovetail.cli.safe_output import echo
from dovetail.model.duration import Duration
from dovetail.settings import SettingField, Settings, read_settings, setting_fields

PANEL = "Settings (flag or environment variable)"
FEW = "Settings that affect this command (all others: dovetail run --help)"
SUPPLY = ("provider", "catalog", "instance_types_file_path", "cluster_name")
"""Settings that select the provider and its instance types."""
DECIDING = (*SUPPLY, "feature_gates", "preference_policy")
"""Settings that affect decisions."""

Command = Callable[..., None]


def with_settings(command: Command) -> Command:
    """Add an option for every setting to a command."""
    return _with_options(command, [_option(setting) for setting in setting_fields()])


def with_few_settings(*listed: str) -> Callable[[Command], Command]:
    """Add an option for every setting to a command, and hide all but the listed ones in its help."""
    return lambda command: _with_options(command, [_option(setting, listed) for setting in setting_fields()])


def _with_options(command: Command, offered: list[inspect.Parameter]) -> Command:
    own = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    kept = [each.replace(annotation=hints[each.name]) for each in own.parameters.values() if each.name != "settings"]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        written = {setting.name: given.pop(setting.name) for setting in setting_fields()}
        try:
            settings: Settings = read_settings(
                {name: _text(each) for name, each in written.items() if each is not None}
            )
        except ValueError as error:
            echo(f"Error: invalid settings:\n{error}", err=True)
            raise typer.Exit(2) from None
        command(settings=settings, **given)

    parameters = [*kept, *offered]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def _text(given: str | bool) -> str:
    return given if isinstance(given, str) else str(given).lower()


def default_text(setting: SettingField) -> str:
    """Format the default as a user writes it."""
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    if isinstance(setting.default, timedelta):
        return str(Duration.of(setting.default))
    return str(setting.default)


def _option(setting: SettingField, listed: Sequence[str] | None = None) -> inspect.Parameter:
    choices = f" One of: {', '.join(setting.choices)}." if setting.choices else ""
    default = default_text(setting)
    flag = setting.kind is bool
    option = typer.Option(
        setting.flag,
        envvar=setting.variable,
        help=f"{setting.help}{choices}",
        show_default=default or False,
        rich_help_panel=PANEL if listed is None else FEW,
        hidden=listed is not None and setting.name not in listed,
        metavar=None if flag else {timedelta: "DURATION", int: "NUMBER", float: "NUMBER"}.get(setting.kind, "TEXT"),
    )
    kind, unset = (bool, False) if flag else (str | None, None)
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=unset, annotation=Annotated[kind, option]
    )
