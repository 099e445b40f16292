"""Reads files that people name, within limits, and says in one sentence what is wrong with one that cannot be used.

Every file and every stream is read up to a limit, packed and unpacked, so that neither a device nor a file that unpacks
to many times its size exhausts memory. A pipe is read while something writes to it, so `<(command)` works; one without
a writer is an error, not a wait without end.

The limit is 256 MiB, about 100,000 pods in a snapshot. `DOVETAIL_MAX_FILE_MEGABYTES` sets another one.
"""

import codecs
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "DOVETAIL_MAX_FILE_MEGABYTES"
DEFAULT_MEGABYTES = 256
_MEGABYTE = 1024 * 1024
_CHUNK = _MEGABYTE
_GZIP = b"\x1f\x8b"
_OTHER_PACKING = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_WRITER_PATIENCE_MS = 1000  # for the writer of a named pipe that is just about to open it
_CUT = "was the file cut short? Copy it again"
# The longer mark first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class InputUnreadable(ValueError):
    """A file that cannot be used: what is wrong with it, and what to do. The caller adds its name."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["InputUnreadable"], tuple[str, str]]:
        return InputUnreadable, (self.problem, self.remedy)


def most_bytes() -> int:
    """The limit for one file, packed and unpacked."""
    written = os.environ.get(VARIABLE, "") or str(DEFAULT_MEGABYTES)
    if not written.isascii() or not written.isdigit() or not 0 < len(written) <= 6 or not int(written):
        remedy = f"set {VARIABLE} to a whole number of megabytes, or unset it"
        raise InputUnreadable(f"cannot be read: {VARIABLE} is {written[:20]!r}", remedy)
    return int(written) * _MEGABYTE


def read_text(source: Path | str) -> str:
    """The text of a file; `-` is standard input."""
    return text_of(read_bytes(source))


def read_bytes(source: Path | str) -> bytes:
    """The content of a file, unpacked if it is packed with gzip; `-` is standard input."""
    try:
        content = b"".join(_chunks(source))
    except OSError as error:
        raise InputUnreadable(f"cannot be read: {error.strerror or error}", "check the path") from None
    except ValueError as error:
        if isinstance(error, InputUnreadable):
            raise
        raise InputUnreadable(f"cannot be read: {error}", "check the path") from None  # a NUL byte in it
    return unpacked(content)


def unpacked(content: bytes) -> bytes:
    """The content itself, or what gzip packed into it."""
    for mark, name in _OTHER_PACKING.items():
        if content.startswith(mark):
            raise InputUnreadable(f"is packed with {name}", "unpack it first; only gzip is read")
    if not content.startswith(_GZIP):
        return content
    most, parts, size = most_bytes(), [], 0
    while content.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(content, most - size + 1))
        except zlib.error as error:
            raise InputUnreadable(f"cannot be unpacked with gzip: {error}", _CUT) from None
        size += len(parts[-1])
        if size > most:
            raise _too_large("unpacks to")
        if not stream.eof:
            raise InputUnreadable("cannot be unpacked with gzip: it ends too early", _CUT)
        content = stream.unused_data  # files that were joined
    return b"".join(parts)


def text_of(content: bytes) -> str:
    """Text in UTF-8, or in UTF-16 or UTF-32 with a byte order mark."""
    mark, coding = next(((mark, coding) for mark, coding in _MARKS if content.startswith(mark)), (b"", "utf-8"))
    try:
        return content.decode(coding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        problem = f"is not text in {coding.upper()}, from byte {error.start} on"
        raise InputUnreadable(problem, "save it as UTF-8" if not mark else f"save it as UTF-8; {_CUT}") from None


def _chunks(source: Path | str) -> Iterator[bytes]:
    most, size = most_bytes(), 0
    for chunk in _standard_input() if str(source) == "-" else _file(Path(source)):
        size += len(chunk)
        if size > most:
            raise _too_large("is larger than")
        yield chunk


def _standard_input() -> Iterator[bytes]:
    stream = sys.stdin.buffer
    while chunk := stream.read(_CHUNK):
        yield chunk


def _file(path: Path) -> Iterator[bytes]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe would wait for its writer
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise InputUnreadable("is a directory", "name a file in it")
        if stat.S_ISFIFO(mode):
            yield from _pipe(handle)
            return
        os.set_blocking(handle, True)
        while chunk := os.read(handle, _CHUNK):
            yield chunk
    finally:
        os.close(handle)


def _pipe(handle: int) -> Iterator[bytes]:
    """A pipe that has a writer would block; one without a writer is at its end."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    begun = False
    while True:
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            begun = True
            poll.poll()
            continue
        if chunk:
            begun = True
            yield chunk
        elif begun:
            return
        elif not poll.poll(_WRITER_PATIENCE_MS):
            raise InputUnreadable("is a pipe that nothing writes to", "start its writer first, or use -")
        else:
            begun = True


def _too_large(how: str) -> InputUnreadable:
    limit = f"{most_bytes() // _MEGABYTE} MiB"
    remedy = f"if that is right, set {VARIABLE} to a higher number of megabytes"
    return InputUnreadable(f"{how} more than {limit}" if how == "unpacks to" else f"{how} {limit}", remedy)
