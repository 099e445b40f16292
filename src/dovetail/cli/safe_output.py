"""Prints to the terminal with control characters escaped. All commands print through this module.

Names and messages come from the cluster, so they may contain terminal escape sequences. Text goes through `echo` or a
`SafeConsole`, documents through `json_text` and `yaml_text`. A `SafeConsole` escapes the text of each rich segment and
keeps rich's own control codes.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from dovetail.cli.argument_wording import plain_message
from dovetail.model.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST = 4000  # characters of one message on standard error


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text; long text on standard error is cut."""
    shown = text if not err or len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
    typer.echo(printable(shown), err=err, nl=nl)


def json_text(document: Any) -> str:
    """Encode a document as JSON, without a trailing newline."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def yaml_text(document: Any) -> str:
    """Encode a document as YAML; ASCII only, with escapes, if a character in it is not printable."""
    from dovetail.manifest.yaml_output import to_yaml

    text = to_yaml(document, width=4000)
    return text if printable(text) == text else to_yaml(document, width=4000, allow_unicode=False)


def make_console(**options: Any) -> "Console":
    """Make a console without markup that escapes control characters."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            safe = (each if each.control else Segment(printable(each.text), each.style) for each in buffer)
            return super()._render_buffer(safe)

    return SafeConsole(**{"highlight": False, "markup": False, "emoji": False, **options})


class SafeGroup(TyperGroup):
    """The command group; escapes control characters in errors about arguments."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse the options before the command."""
        try:
            return super().make_context(*args, **extra)
        except Exception as error:
            _make_safe(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of a command and run it."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _make_safe(error)
            raise


def _make_safe(error: Exception) -> None:
    """Word the message of an error about arguments plainly and escape it; typer prints no other errors."""
    if hasattr(error, "format_message"):
        error.message = plain_message(error) or getattr(error, "message", "")  # type: ignore[attr-defined]  # it has one
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, printable(value))
