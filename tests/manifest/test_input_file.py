"""User-supplied files: limits, compression, encodings, pipes and directories."""

import gzip
import os
import subprocess
import sys
import threading

import pytest

from dovetail.manifest.input_file import VARIABLE, InputUnreadable, decompressed, read_bytes, read_text, text_of

MEGABYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * (MEGABYTE + 1), "is larger than 1 MiB; if that is right, set DOVETAIL_MAX_FILE_MEGABYTES"),
        (gzip.compress(b"x" * (MEGABYTE + 1)), "decompresses to more than 1 MiB"),
        (gzip.compress(b"x" * (MEGABYTE // 2 + 1)) * 2, "decompresses to more than 1 MiB"),
        (gzip.compress(b"abc" * 99)[:-10], "it ends too early"),
        (b"\x1f\x8bnonsense" * 9, "cannot be decompressed with gzip"),
        (b"\x28\xb5\x2f\xfd1234", "is compressed with zstd; decompress it first"),
        (b"PK\x03\x041234", "is compressed with zip"),
    ],
)
def test_files_that_are_too_large_or_cannot_be_decompressed_are_rejected(tmp_path, content, words):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputUnreadable) as caught:
        read_bytes(tmp_path / "file")
    assert words in str(caught.value)


def test_what_is_within_the_limit_is_read_whole(tmp_path):
    (tmp_path / "file").write_bytes(gzip.compress(b"a" * MEGABYTE))
    assert read_bytes(tmp_path / "file") == b"a" * MEGABYTE
    assert decompressed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


@pytest.mark.parametrize("limit", ["0", "x", "-1", "1e3", "9" * 5000, "\u0661"])
def test_a_limit_that_is_no_number_is_named(monkeypatch, limit):
    monkeypatch.setenv(VARIABLE, limit)
    with pytest.raises(InputUnreadable, match=VARIABLE):
        read_bytes("/dev/null")


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_with_a_byte_order_mark_is_read(coding):
    assert text_of("kind: \u00fc".encode(coding)) == "kind: \u00fc"


@pytest.mark.parametrize("content", [b"a\xff", b"\xff\xfea", "\ud800".encode("utf-8", "surrogatepass")])
def test_what_is_no_text_is_refused(content):
    with pytest.raises(InputUnreadable, match="is not text in UTF"):
        text_of(content)


def test_a_directory_a_missing_file_and_a_name_with_nul_are_refused(tmp_path):
    with pytest.raises(InputUnreadable, match="is a directory"):
        read_bytes(tmp_path)
    with pytest.raises(InputUnreadable, match="No such file"):
        read_bytes(tmp_path / "absent")
    with pytest.raises(InputUnreadable, match="cannot be read"):
        read_bytes("a\0b")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputUnreadable, match="symbolic links"):
        read_bytes(tmp_path / "loop")


def test_a_device_without_end_is_refused():
    with pytest.raises(InputUnreadable, match="is larger than 1 MiB"):
        read_bytes("/dev/zero")


def test_a_pipe_is_read_while_something_writes_to_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("x" * 200_000))
    writer.start()
    assert read_text(tmp_path / "pipe") == "x" * 200_000
    writer.join()


def test_a_pipe_that_nothing_writes_to_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputUnreadable, match="a pipe that nothing writes to"):
        read_text(tmp_path / "pipe")


def test_standard_input_is_limited_too():
    read = "from dovetail.manifest.input_file import read_bytes; read_bytes('-')"
    done = subprocess.run([sys.executable, "-c", read], input=b"x" * 2 * MEGABYTE, capture_output=True, check=False)
    assert b"is larger than 1 MiB" in done.stderr
