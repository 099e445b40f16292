"""Reads user-supplied files within a size limit, with one-sentence errors for files that cannot be used.

The limit applies to compressed and decompressed content, so that neither a device nor a gzip bomb exhausts memory. It
is 256 MiB, about 100,000 pods in a snapshot; `DOVETAIL_MAX_FILE_MEGABYTES` changes it.

A named pipe is read while it has a writer, so `<(command)` works; a pipe without a writer is an error, because reading
it would block forever.
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
_OTHER_COMPRESSION = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_WRITER_TIMEOUT_MS = 1000  # for the writer of a named pipe to open it
_TRUNCATED = "was the file truncated? Copy it again"
# UTF-32 precedes UTF-16, because its byte order mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class InputUnreadable(ValueError):
    """A file that cannot be used: the problem and the remedy. The caller adds its name."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["InputUnreadable"], tuple[str, str]]:
        return InputUnreadable, (self.problem, self.remedy)


def max_bytes() -> int:
    """The size limit of one file in bytes, compressed and decompressed."""
    megabytes = os.environ.get(VARIABLE, "") or str(DEFAULT_MEGABYTES)
    if not megabytes.isascii() or not megabytes.isdigit() or not 0 < len(megabytes) <= 6 or not int(megabytes):
        remedy = f"set {VARIABLE} to a whole number of megabytes, or unset it"
        raise InputUnreadable(f"cannot be read: {VARIABLE} is {megabytes[:20]!r}", remedy)
    return int(megabytes) * _MEGABYTE


def read_text(source: Path | str) -> str:
    """Read the text of a file; `-` is standard input."""
    return text_of(read_bytes(source))


def read_bytes(source: Path | str) -> bytes:
    """Read the content of a file, decompressed if it is gzip; `-` is standard input."""
    try:
        content = b"".join(_chunks(source))
    except OSError as error:
        raise InputUnreadable(f"cannot be read: {error.strerror or error}", "check the path") from None
    except ValueError as error:
        if isinstance(error, InputUnreadable):
            raise
        raise InputUnreadable(f"cannot be read: {error}", "check the path") from None  # a NUL byte in it
    return decompressed(content)


def decompressed(content: bytes) -> bytes:
    """The content, decompressed if it is gzip."""
    for mark, name in _OTHER_COMPRESSION.items():
        if content.startswith(mark):
            raise InputUnreadable(f"is compressed with {name}", "decompress it first; only gzip is supported")
    if not content.startswith(_GZIP):
        return content
    limit, parts, size = max_bytes(), [], 0
    while content.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(content, limit - size + 1))
        except zlib.error as error:
            raise InputUnreadable(f"cannot be decompressed with gzip: {error}", _TRUNCATED) from None
        size += len(parts[-1])
        if size > limit:
            raise _too_large("decompresses to more than")
        if not stream.eof:
            raise InputUnreadable("cannot be decompressed with gzip: it ends too early", _TRUNCATED)
        content = stream.unused_data  # gzip files may be concatenated
    return b"".join(parts)


def text_of(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 or UTF-32 with a byte order mark."""
    mark, encoding = next(((mark, encoding) for mark, encoding in _MARKS if content.startswith(mark)), (b"", "utf-8"))
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        problem = f"is not text in {encoding.upper()}, from byte {error.start} on"
        raise InputUnreadable(problem, "save it as UTF-8" if not mark else f"save it as UTF-8; {_TRUNCATED}") from None


def _chunks(source: Path | str) -> Iterator[bytes]:
    limit, size = max_bytes(), 0
    for chunk in _standard_input() if str(source) == "-" else _file(Path(source)):
        size += len(chunk)
        if size > limit:
            raise _too_large("is larger than")
        yield chunk


def _standard_input() -> Iterator[bytes]:
    stream = sys.stdin.buffer
    while chunk := stream.read(_CHUNK):
        yield chunk


def _file(path: Path) -> Iterator[bytes]:
    handle = os.open(
        path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )  # otherwise opening a pipe blocks until it has a writer
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise InputUnreadable("is a directory", "specify a file in it")
        if stat.S_ISFIFO(mode):
            yield from _pipe(handle)
            return
        os.set_blocking(handle, True)
        while chunk := os.read(handle, _CHUNK):
            yield chunk
    finally:
        os.close(handle)


def _pipe(handle: int) -> Iterator[bytes]:
    """Read a pipe. A non-blocking read fails while there is a writer, and returns nothing without one."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    has_writer = False
    while True:
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            has_writer = True
            poll.poll()
            continue
        if chunk:
            has_writer = True
            yield chunk
        elif has_writer:
            return
        elif not poll.poll(_WRITER_TIMEOUT_MS):
            raise InputUnreadable("is a pipe that nothing writes to", "start its writer first, or use -")
        else:
            has_writer = True


def _too_large(problem: str) -> InputUnreadable:
    remedy = f"if that is right, set {VARIABLE} to a higher number of megabytes"
    return InputUnreadable(f"{problem} {max_bytes() // _MEGABYTE} MiB", remedy)
