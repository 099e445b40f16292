"""The kubectl plugin: its entry points, and the archive and manifest that krew installs."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_kubectl_finds_the_plugin_and_its_completion_by_name():
    assert PROJECT["scripts"]["kubectl-dovetail"] == "dovetail.cli:kubectl_main"
    assert PROJECT["scripts"]["kubectl_complete-dovetail"] == "dovetail.cli:kubectl_complete_main"


def test_the_plugin_calls_itself_as_the_user_called_it():
    entry = "from dovetail.cli import kubectl_main; kubectl_main()"
    result = subprocess.run([sys.executable, "-c", entry, "plan", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: kubectl dovetail plan [OPTIONS]" in result.stdout


def test_the_krew_archive_has_a_plugin_that_runs_the_installed_command(tmp_path):
    build = [sys.executable, ROOT / "packaging/krew/build.py", "--uri", "https://example.com/a.tar.gz"]
    for place in ("one", "two"):
        subprocess.run([*build, "--output", tmp_path / place], check=True)
    packed = (tmp_path / "one/kubectl-dovetail.tar.gz").read_bytes()
    assert packed == (tmp_path / "two/kubectl-dovetail.tar.gz").read_bytes()
    manifest = json.loads((tmp_path / "one/dovetail.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    assert manifest["spec"]["version"] == f"v{PROJECT['version']}"
    with tarfile.open(tmp_path / "one/kubectl-dovetail.tar.gz") as tar:
        assert {each["from"] for each in platform["files"]} <= set(tar.getnames())
        tar.extractall(tmp_path / "krew", filter="data")
    fake = tmp_path / "bin" / "dovetail"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "ran: $*"\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:/usr/bin:/bin"
    result = subprocess.run(
        [tmp_path / "krew" / platform["bin"], "plan", "-o", "a b"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert result.stdout == "ran: plan -o a b\n"


def test_without_python_tools_the_plugin_says_what_to_install(tmp_path):
    script = ROOT / "packaging/krew/kubectl-dovetail"
    result = subprocess.run(
        ["/bin/sh", script], capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)}
    )
    assert result.returncode == 2
    assert "pipx install dovetail" in result.stderr
