"""The Dockerfile as a file: what it is built on, from and as whom it runs. Nothing here builds it."""

import re
from fnmatch import fnmatch
from pathlib import Path

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
