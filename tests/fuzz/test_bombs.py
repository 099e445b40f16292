"""Small inputs that stand for large ones: each is refused within 512 MiB of memory, in a process of its own."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import corpus

LIMIT = 512 * 1024 * 1024
RUN = f"""
import resource, sys
sys.path[:0] = ["src", "tests"]
from fuzz.commands import run_command
run_command("validate", "/dev/null")  # what is imported does not count
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {LIMIT}, used + {LIMIT}))
code, out, err = run_command(*sys.argv[1:])
print(err.strip()[:600])
sys.exit(code)
"""


def laughs(leaf: str) -> bytes:
    """Aliases of aliases, ten times each, nine times over."""
    ten = ", ".join(["*a{0}"] * 10)
    levels = "".join(f"a{n}: &a{n} [{ten.format(n - 1)}]\n" for n in range(1, 10))
    return f"apiVersion: dovetail.sh/v1alpha1\nkind: Snapshot\na0: &a0 {leaf}\n{levels}".encode()


def zeros(megabytes: int) -> bytes:
    return gzip.compress(bytes(1024 * 1024), 9) * megabytes


BOMBS = {
    "aliases": (laughs("[x, x]"), "aliases repeat more than 32 MiB"),
    "long-text-in-aliases": (laughs('"' + "x" * 10_000 + '"'), "aliases repeat more than 32 MiB"),
    "gzip": (zeros(300), "decompresses to more than 256 MiB"),
    "gzip-twice": (gzip.compress(zeros(400)), "is not"),
    "flow-nesting": (b"kind: Snapshot\na: " + b"[" * 200_000, "nested more than 100 levels deep"),
    "json-nesting": (b'{"kind": "Snapshot", "a": ' + b"[" * 2_000_000, "nested too deeply"),
    "huge-number": (b"kind: Snapshot\na: " + b"9" * 2_000_000, "apiVersion: is unknown"),  # text, as for kubectl
    "huge-exponent": (b'{"kind": "Snapshot", "a": 1e999999999}', "out of range"),
}


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=corpus.ROOT,
        timeout=300,
    )


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_bomb_in_a_snapshot_is_refused(name, tmp_path: Path):
    content, words = BOMBS[name]
    (tmp_path / "bomb.file").write_bytes(content)
    done = run("plan", "--snapshot", str(tmp_path / "bomb.file"))
    assert done.returncode == 2, done.stderr[-2000:]
    assert "bomb.file" in done.stdout
    assert words in done.stdout


@pytest.mark.parametrize("name", ["aliases", "flow-nesting", "huge-number"])
def test_a_bomb_in_a_manifest_is_a_fault(name, tmp_path: Path):
    (tmp_path / "bomb.yaml").write_bytes(BOMBS[name][0])
    assert run("validate", str(tmp_path / "bomb.yaml")).returncode == 1


def test_a_device_without_end_is_refused():
    for arguments in (("validate", "/dev/zero"), ("plan", "--snapshot", "/dev/zero"), ("simulate", "/dev/zero")):
        done = run(*arguments)
        assert done.returncode == 2, done.stderr[-2000:]
        assert "is larger than 256 MiB" in done.stdout
