"""The pre-commit hook and the GitHub Action for other repositories, run as those services run them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOVETAIL = Path(sys.executable).with_name("dovetail")
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
VALID = ROOT / "examples" / "nodepools" / "general.yaml"


@pytest.fixture
def invalid(tmp_path):
    path = tmp_path / "a pool.yaml"
    path.write_text(VALID.read_text().replace("name: general", "name: Not_Valid", 1))
    return path


def test_the_hook_reports_the_fault_of_a_changed_file_and_accepts_valid_ones(invalid, tmp_path):
    program, *options = shlex.split(HOOK["entry"])
    assert program == "dovetail"
    assert HOOK["language"] == "python"
    foreign = tmp_path / "service.yaml"
    foreign.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: web}\n")
    for files, code in (([VALID, foreign], 0), ([VALID, invalid], 1)):
        done = subprocess.run([str(DOVETAIL), *options, *map(str, files)], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout
    assert "metadata.name" in done.stdout


@pytest.mark.parametrize(
    ("path", "checked"),
    [
        ("clusters/prod/nodepools.yaml", True),
        ("karpenter/general.yaml", True),
        ("apps/EC2NodeClass.yml", True),
        (".github/workflows/test.yml", False),
    ],
)
def test_the_hook_leaves_other_files_alone(path, checked):
    assert bool(re.search(HOOK["files"], path)) is checked


def act(tmp_path, **inputs):
    """Run the last step of the action in bash, with its inputs and the command where the action installs it."""
    program = tmp_path / "runner" / "dovetail" / "bin" / "dovetail"
    program.parent.mkdir(parents=True)
    program.symlink_to(DOVETAIL)
    step = STEPS[-1]
    defaults = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
    given = {**defaults, **inputs}
    environment = {name: given[text.split("inputs.")[1].split(" ")[0]] for name, text in step["env"].items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, "RUNNER_TEMP": str(tmp_path / "runner"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_action_fails_on_a_fault_and_writes_sarif(invalid, tmp_path):
    done = act(tmp_path, paths=f"{VALID}\n\n{invalid.name}\n", sarif="findings.sarif")
    assert done.returncode == 1
    assert "metadata.name" in done.stdout
    (run,) = json.loads((tmp_path / "findings.sarif").read_text())["runs"]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "a%20pool.yaml"


def test_the_action_passes_on_valid_manifests(tmp_path):
    done = act(tmp_path, paths=str(VALID))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "findings.sarif").exists()


def test_the_action_runs_no_text_of_an_input():
    for step in STEPS:
        assert "${{" not in step.get("run", "")
    used = {text.split("inputs.")[1].split(" ")[0] for text in STEPS[-1]["env"].values()}
    assert used == set(ACTION["inputs"])
