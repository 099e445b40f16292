"""The text of help and errors about arguments, in place of what typer generates from Python types.

`PlainHelp` shows `NUMBER` in place of `<int range>`, and nothing in place of `<bool>`. `plain_message` replaces the
messages of the library that typer parses values with, such as "Input should be a valid integer, unable to parse ...".
"""

import inspect
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

PLACEHOLDERS: Mapping[Any, str] = {int: "NUMBER", float: "NUMBER", Path: "FILE", datetime: "DATE"}
_VALUE_ERROR = "Value error, "
_PROBLEMS = {
    "int_parsing": "{value!r} is not a whole number",
    "int_from_float": "{value!r} is not a whole number",
    "float_parsing": "{value!r} is not a number",
    "bool_parsing": "{value!r} is neither true nor false",
    "greater_than_equal": "{value} is too small; the least is {ge}",
    "greater_than": "{value} is too small; it must be more than {gt}",
    "less_than_equal": "{value} is too large; the most is {le}",
    "less_than": "{value} is too large; it must be less than {lt}",
}
"""Messages by the type of a pydantic error; the names in braces are the value and the context of the error."""


class PlainHelp:
    """Mixed into a command or group: its help shows placeholders in place of Python types, and wraps paragraphs."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, --help included."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command or group
        for each in parameters:
            _make_plain(each)
        return parameters


class PlainCommand(PlainHelp, TyperCommand):
    """A command with plain help."""

    def __init__(self, *args: Any, **details: Any) -> None:
        super().__init__(*args, **details)
        self.help = unwrap(self.help or "")


def unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that the terminal wraps them; indented lines stay as they are."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(re.sub(r"\n(?! )", " ", each) for each in paragraphs)


def _make_plain(parameter: Any) -> None:
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.metavar or parameter.name.upper()
        parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - called by name; its help says what it takes
    elif parameter.metavar is None:
        parameter.metavar = "" if parameter.is_flag else placeholder(parameter.type_descriptor.annotation)


def placeholder(annotation: Any) -> str:
    """Return the placeholder of a value: the choices, or what kind of text it is."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(each.value) for each in annotation)
    return PLACEHOLDERS.get(annotation, "TEXT")


def plain_message(error: BaseException) -> str | None:
    """Return a message for an error about an argument that was caused by a validation error, else None."""
    errors = getattr(error.__cause__, "errors", None)
    if errors is None:
        return None
    first = errors()[0]
    text, value = str(first["msg"]), first["input"]
    if text.startswith(_VALUE_ERROR):
        return text.removeprefix(_VALUE_ERROR).replace("the formats '%Y-%m-%d'", "a date such as 2026-01-31")
    known = _PROBLEMS.get(first["type"])
    return known.format(value=value, **first.get("ctx", {})) if known is not None else f"{value!r} is not valid"
