"""The Dockerfile without a container engine: what it says, what the build context has, and its build steps, executed.

`test_the_build_steps_make_a_program_with_all_extras` runs the RUN instructions of the build stage in a directory that
has only what COPY takes from the build context. It stands for the file system of the stage, with other paths.
"""

import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from shutil import copy2, copytree

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LINES = [line for line in re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text()).splitlines() if line[:1].isalpha()]


def instructions(name):
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{name} ")]


def test_both_stages_are_built_on_one_exact_release_of_python():
    (argument,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-[a-z]+", argument)
    assert {each.split()[0] for each in instructions("FROM")} == {"${PYTHON_IMAGE}"}


def test_dependencies_are_installed_by_hash():
    installed = [each for each in instructions("RUN") if "pip install" in each]
    assert "--require-hashes -r requirements/run.lock" in installed[0]
    assert all("--no-deps --no-build-isolation" in each for each in installed[1:])


def test_it_runs_as_the_user_of_the_deployment():
    made = yaml.safe_load((ROOT / "deploy" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    identity = f"{made['securityContext']['runAsUser']}:{made['securityContext']['runAsGroup']}"
    assert instructions("USER") == [identity]
    assert LINES.index(f"USER {identity}") > max(at for at, line in enumerate(LINES) if line.startswith("RUN "))


def test_what_is_copied_exists_and_is_in_the_build_context():
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [path for each in instructions("COPY") if "--from" not in each for path in each.split()[:-1]]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatch(path, pattern) for pattern in sent), path


def instruction_list():
    """The instructions of the build stage, as name and text."""
    first, second = (at for at, line in enumerate(LINES) if line.startswith("FROM "))
    return [tuple(line.split(maxsplit=1)) for line in LINES[first:second]]


def patterns():
    """The lines of .dockerignore in order: whether they send a path, and the pattern."""
    lines = (ROOT / ".dockerignore").read_text().split()
    return [(line.startswith("!"), line.removeprefix("!")) for line in lines if not line.startswith("#")]


def is_sent(path):
    """Whether the build context has a file: the last pattern that matches it or a directory above it decides."""
    parts = path.split("/")
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    sent = True
    for sends, pattern in patterns():
        anywhere = pattern.startswith("**/") and pattern.removeprefix("**/") in parts
        if anywhere or any(fnmatch(each, pattern) for each in above):
            sent = sends
    return sent


def context_files():
    """The tracked files that a build sends to the engine."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {path for path in listed.stdout.splitlines() if is_sent(path)}


def test_the_build_context_has_the_sources_and_nothing_else():
    sent = context_files()
    others = {path for path in sent if not path.startswith("src/dovetail/")}
    assert others == {"pyproject.toml", "README.md", "LICENSE", "requirements/run.lock"}
    assert "src/dovetail/cli/app.py" in sent
    for path in (".git/config", ".venv/bin/python", "tests/builders.py", "deploy/base/deployment.yaml", ".env"):
        assert not is_sent(path), path
    assert not is_sent("src/dovetail/__pycache__/settings.cpython-313.pyc")


def test_every_requirement_of_the_lock_has_an_exact_version_and_hashes():
    entries = re.split(r"\n(?=[A-Za-z])", (ROOT / "requirements/run.lock").read_text().strip())
    assert len(entries) > 30
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.]+( ; [^\\]+)? \\\n", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_what_starts_is_a_script_of_the_package():
    (entry_point,) = instructions("ENTRYPOINT")
    (command,) = instructions("CMD")
    (program,) = json.loads(entry_point)
    assert f'{program} = "dovetail.cli:main"' in (ROOT / "pyproject.toml").read_text()
    assert json.loads(command) == ["run"]


@pytest.mark.wheel
def test_the_build_steps_make_a_program_with_all_extras(tmp_path):
    source, target, extra = tmp_path / "src", tmp_path / "opt", tmp_path / "bin"
    source.mkdir()
    extra.mkdir()
    (extra / "python").symlink_to(sys.executable)
    sent = context_files()
    environment = {**os.environ, "PATH": f"{extra}:{os.environ['PATH']}"}
    for name, text in instruction_list():
        if name == "COPY":
            *paths, into = text.split()
            for path in paths:
                _copy(path, source / into if into != "./" else source / path, sent)
        elif name == "RUN":
            command = text.replace("/opt/dovetail", str(target / "dovetail"))
            subprocess.run(["/bin/sh", "-ec", command], cwd=source, env=environment, check=True)
    python = target / "dovetail" / "bin" / "python"
    program = "import aiobotocore, highspy, dovetail, dovetail.observe.otlp_tracer as it; print(dovetail.__file__)"
    loaded = subprocess.run([str(python), "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.startswith(str(target)), "installed, and not a link to the build directory"
    listed = subprocess.run([str(python), "-m", "pip", "list", "--format", "json"], capture_output=True, check=True)
    installed = {each["name"].lower() for each in json.loads(listed.stdout)}
    assert not installed & {"hatchling", "editables", "pytest", "mypy"}
    subprocess.run([str(python), "-m", "pip", "check"], check=True)


def _copy(path, into, sent):
    into.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / path).is_file():
        assert path in sent
        copy2(ROOT / path, into)
        return

    def unsent(directory, names):
        here = Path(directory).relative_to(ROOT)
        return [each for each in names if (ROOT / here / each).is_file() and str(here / each) not in sent]

    copytree(ROOT / path, into, ignore=unsent)
