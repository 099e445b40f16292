"""Configures logging: one line per record, with a constant message and fields.

Code logs through the standard library, `log.info("launched nodeclaim", extra={"nodeclaim": name})`. Messages are
constant, so that they can be searched and counted; fields carry what varies. Lines are JSON or text. Other libraries
log from `WARNING` on.
"""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

from dovetail.model.printable import printable, printable_json
from dovetail.ports.clock import Clock

ROOT_LOGGER = "dovetail"
LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Level and format."""

    level: str = "info"
    form: Literal["json", "text"] = "json"


class JsonLines(logging.Formatter):
    """One JSON object per line. With a clock, lines carry its time instead of the system time."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as one line."""
        line: dict[str, Any] = {
            "time": _instant(record, self._clock),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in _fields(record).items() if name not in line)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))


class PlainText(logging.Formatter):
    """Time, level, message and `field=value` as text."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as one line, followed by the traceback of an exception."""
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields(record).items())
        line = f"{_instant(record, self._clock)} {record.levelname:<7} {record.getMessage()}{fields}"
        return printable(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line)


class LogStream(Protocol):
    """What log lines are written to."""

    def write(self, text: str, /) -> object:
        """Write one line."""
        ...

    def flush(self) -> object:
        """Write what is buffered."""
        ...


class LogOutputs:
    """A comma-separated list of stdout, stderr and files as one stream. Files are appended to."""

    def __init__(self, paths: str) -> None:
        names = [name for part in paths.split(",") if (name := part.strip())] or ["stderr"]
        standard: Mapping[str, TextIO] = {"stdout": sys.stdout, "stderr": sys.stderr}
        files = [Path(name) for name in names if name not in standard]
        self._files = {str(each): each.open("a", encoding="utf-8") for each in files}
        self._streams = [standard.get(name) or self._files[str(Path(name))] for name in names]

    def write(self, text: str) -> None:
        """Write to every output."""
        for each in self._streams:
            each.write(text)

    def flush(self) -> None:
        """Flush every output."""
        for each in self._streams:
            each.flush()

    def close(self) -> None:
        """Close the files."""
        for each in self._files.values():
            each.close()


def configure(settings: LogSettings, stream: LogStream, clock: Clock | None = None) -> logging.Handler:
    """Send log lines to `stream`, in place of the handler of an earlier call."""
    if settings.level not in LEVELS:
        raise ValueError(f"log level {settings.level!r} is unknown; use one of {', '.join(LEVELS)}")
    handler = _OurHandler(stream)
    handler.setFormatter(JsonLines(clock) if settings.form == "json" else PlainText(clock))
    root = logging.getLogger()
    for before in [each for each in root.handlers if isinstance(each, _OurHandler)]:
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(max(logging.WARNING, LEVELS[settings.level]))
    logging.getLogger(ROOT_LOGGER).setLevel(LEVELS[settings.level])
    return handler


class _OurHandler(logging.StreamHandler[LogStream]):
    """A handler that `configure` installed, and may replace."""


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _instant(record: logging.LogRecord, clock: Clock | None) -> str:
    at = clock.now() if clock is not None else datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(each in text for each in ' "=\n') else text
