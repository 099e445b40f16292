"""The only way from a command to a terminal: everything that is printed is made safe to show here.

Text goes through `echo` or a `SafeConsole`, documents through `json_text` and `yaml_text`. Styles and cursor movements
of rich itself stay, because only the text of a segment is changed and never a control code.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from dovetail.model.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST = 4000  # characters of one message on standard error: a value of a megabyte is no help


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text."""
    shown = text if not err or len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
    typer.echo(printable(shown), err=err, nl=nl)


def json_text(document: Any) -> str:
    """A document as JSON, without a line break at its end."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def yaml_text(document: Any) -> str:
    """A document as YAML; with escapes for everything beyond ASCII where something in it is not printable."""
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=4000)
    return text if printable(text) == text else yaml.safe_dump(document, sort_keys=False, width=4000)


def make_console(**options: Any) -> "Console":
    """A console that prints text as it is, without markup, and safe to show."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            safe = (each if each.control else Segment(printable(each.text), each.style) for each in buffer)
            return super()._render_buffer(safe)

    return SafeConsole(**{"highlight": False, "markup": False, "emoji": False, **options})


class SafeGroup(TyperGroup):
    """The command group. Errors about arguments are escaped as well."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the arguments of all commands."""
        try:
            return super().make_context(*args, **extra)
        except Exception as error:
            _make_safe(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of a command, and run it."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _make_safe(error)
            raise


def _make_safe(error: Exception) -> None:
    """The message of an error about arguments; others have none of their own that is printed."""
    if hasattr(error, "format_message"):
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, printable(value))
