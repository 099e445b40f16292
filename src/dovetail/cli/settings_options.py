"""Decorators that give a command one option per setting, with its environment variable.

The options are generated from `settings.setting_fields()`, and from the settings of Karpenter that are not implemented.
The command gets one parsed `settings` argument in their place, and the `notices` about them if it has an argument of
that name; invalid settings end it with exit code 2.

Environment variables are not read by typer: `read_environment` parses them as Karpenter does. Boolean flags take a
value as in Karpenter, `--flag=true`; `split_booleans` translates it for typer.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from dovetail.cli.safe_output import echo
from dovetail.karpenter_settings import unimplemented
from dovetail.model.duration import Duration
from dovetail.settings import SettingField, read_environment, setting_fields

PANEL = "Settings (flag or environment variable)"
FEW = "Settings that affect this command (all others: dovetail run --help)"
SUPPLY = ("provider", "catalog", "instance_types_file_path")
"""Settings that select the provider and its instance types."""
SCHEDULING = ("preference_policy", "node_sizing", "min_values_policy", "scheduler_config")
"""Settings that affect where pods are scheduled."""
DECIDING = (*SUPPLY, "feature_gates", *SCHEDULING)
"""Settings that affect decisions."""

OFF = "no_"
"""Prefix of the hidden options that switch boolean settings off."""

Command = Callable[..., None]


def with_settings(command: Command) -> Command:
    """Add an option for every setting to a command."""
    return _with_options(command, [*(_option(setting) for setting in setting_fields()), *_hidden_options()])


def with_few_settings(*listed: str) -> Callable[[Command], Command]:
    """Add an option for every setting to a command, and hide all but the listed ones in its help."""
    return lambda command: _with_options(
        command, [*(_option(setting, listed) for setting in setting_fields()), *_hidden_options()]
    )


def _with_options(command: Command, offered: list[inspect.Parameter]) -> Command:
    own = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    kept = [
        each.replace(annotation=hints[each.name])
        for each in own.parameters.values()
        if each.name not in {"settings", "notices"}
    ]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        flags = {each.name: _text(value) for each in offered if (value := given.pop(each.name)) is not None}
        for name in [name for name in flags if name.startswith(OFF)]:
            del flags[name]
            flags[name.removeprefix(OFF)] = "false"
        try:
            settings, notices = read_environment(flags, os.environ)
        except ValueError as error:
            echo(f"Error: invalid settings:\n{error}", err=True)
            raise typer.Exit(2) from None
        if "notices" in own.parameters:
            given["notices"] = notices
        command(settings=settings, **given)

    parameters = [*kept, *offered]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def split_booleans(arguments: Sequence[str]) -> list[str]:
    """Replace `--flag=true` by `--flag` and `--flag=false` by `--no-flag`, for boolean settings before any `--`."""
    flags = {"--" + name.replace("_", "-") for name in _booleans()}
    split: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return [*split, *arguments[at:]]
        flag, equals, value = argument.partition("=")
        if flag not in flags or not equals:
            split.append(argument)
        elif value in {"true", "false"}:
            split.append(flag if value == "true" else f"--no-{flag.removeprefix('--')}")
        else:
            raise typer.BadParameter(f"{value!r} is neither true nor false", param_hint=flag)
    return split


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
    return _parameter(
        setting.name,
        setting.kind,
        help=f"{setting.help}{choices}\n\n\\[env var: {setting.variable}]",
        show_default=default_text(setting) or False,
        rich_help_panel=PANEL if listed is None else FEW,
        hidden=listed is not None and setting.name not in listed,
    )


def _hidden_options() -> list[inspect.Parameter]:
    """Options for settings of Karpenter that have no effect or are refused, and `--no-flag` for boolean settings."""
    return [
        *(_parameter(each.name, each.kind, hidden=True) for each in unimplemented()),
        *(_parameter(f"{OFF}{name}", bool, hidden=True) for name in _booleans()),
    ]


def _booleans() -> list[str]:
    """The names of all boolean settings, Karpenter's included."""
    own = [each.name for each in setting_fields() if each.kind is bool]
    return [*own, *(each.name for each in unimplemented() if each.kind is bool)]


def _parameter(name: str, kind: type, **details: Any) -> inspect.Parameter:
    metavar = {bool: None, timedelta: "DURATION", int: "NUMBER", float: "NUMBER"}.get(kind, "TEXT")
    option = typer.Option("--" + name.replace("_", "-"), metavar=metavar, **details)
    annotation: Any = bool | None if kind is bool else str | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, option]
    )
