"""The wheel as users get it: built, installed without extras into a fresh environment by pip, pipx and uvx, and used.

The versions of dependencies that pip installs are those of requirements/run.lock.
"""

import email
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {token: none}}]
"""
SNAPSHOT = ROOT / "examples" / "snapshots" / "office-hours.yaml"
OPTIONAL = {"aiobotocore", "botocore", "distributed", "dask", "highspy", "opentelemetry-sdk"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that the project builds."""
    into = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)], cwd=ROOT, check=True)
    (built,) = into.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The directory of programs of a fresh environment that has the wheel and what it requires."""
    home = tmp_path_factory.mktemp("environment")
    pinned = re.findall(
        r"^([\w.-]+==[^\s\\]+(?: ; [^\\\n]+)?)", (ROOT / "requirements/run.lock").read_text(), re.MULTILINE
    )
    (home / "constraints.txt").write_text("\n".join(pinned))
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    pip = [str(home / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(home / "constraints.txt"), str(wheel)], check=True)
    return home / "venv" / "bin"


def call(programs, *arguments, cwd=ROOT):
    """Run the installed command, away from the sources."""
    environment = {"PATH": str(programs), "HOME": str(cwd), "COLUMNS": "120"}
    return subprocess.run(
        [str(programs / "dovetail"), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_the_metadata_is_complete(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        names = archive.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra")) == {"all", "aws", "dask", "highs", "otel"}
    assert {line.partition(",")[0] for line in metadata.get_all("Project-URL")} == {
        "Homepage",
        "Documentation",
        "Changelog",
        "Issues",
    }
    assert metadata.get_payload().startswith("# Dovetail")
    assert metadata["Keywords"]
    assert metadata.get_all("Classifier")
    assert any(each.endswith("licenses/LICENSE") for each in names)
    assert "dovetail/py.typed" in names
    assert not [each for each in names if each.startswith("tests/")]


@pytest.mark.wheel
def test_without_extras_nothing_optional_is_installed(programs):
    listed = subprocess.run(
        [str(programs / "python"), "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    installed = {each["name"].lower() for each in json.loads(listed.stdout)}
    assert "dovetail" in installed
    assert installed & OPTIONAL == set()


@pytest.mark.wheel
def test_the_installed_command_validates_and_plans_files(programs, tmp_path):
    assert call(programs, "--version", cwd=tmp_path).stdout.startswith("dovetail ")
    valid = call(programs, "validate", str(ROOT / "examples" / "nodepools"), cwd=tmp_path)
    assert (valid.returncode, valid.stderr) == (0, "")
    assert " 0 faults" in valid.stdout
    plan = call(programs, "plan", "--snapshot", str(SNAPSHOT), "-o", "json", cwd=tmp_path)
    assert (plan.returncode, plan.stderr) == (0, "")
    assert [each["nodes"] for each in json.loads(plan.stdout)["commands"]]
    assert call(programs, "crds", cwd=tmp_path).returncode == 0
    assert call(programs, "run", "--help", cwd=tmp_path).returncode == 0


@pytest.mark.wheel
def test_a_simulation_without_highs_has_no_floor_and_says_what_to_install(programs, tmp_path):
    scenario = ROOT / "examples" / "scenarios" / "grace-period.yaml"
    report = call(programs, "simulate", str(scenario), "--for", "1h", "-o", "json", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["cost"]["lowerBound"] is None
    assert "pip install 'dovetail[highs]'" in report.stderr


@pytest.mark.wheel
def test_a_simulation_on_dask_without_dask_says_what_to_install(programs, tmp_path):
    scenario = ROOT / "examples" / "scenarios" / "grace-period.yaml"
    refused = call(programs, "simulate", str(scenario), "--for", "1h", "--dask", "tcp://127.0.0.1:1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "pip install 'dovetail[dask]'" in refused.stderr


@pytest.mark.wheel
def test_traces_without_the_sdk_say_what_to_install(programs, tmp_path):
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    refused = call(
        programs, "run", "--kubeconfig", "kubeconfig", "--otlp-endpoint", "http://127.0.0.1:4318", cwd=tmp_path
    )
    assert refused.returncode == 2
    assert "pip install 'dovetail[otel]'" in refused.stderr


@pytest.mark.wheel
def test_ec2_node_classes_without_aws_say_what_to_install(programs):
    program = (
        "from dovetail.wiring.providers import _build_aws, ProviderUnusable\n"
        "from dovetail.settings import Settings\n"
        "try:\n    _build_aws(None, None, Settings(), None)\n"
        "except ProviderUnusable as error:\n    print(error)\n"
    )
    told = subprocess.run([str(programs / "python"), "-c", program], env={}, capture_output=True, text=True, check=True)
    assert "pip install 'dovetail[aws]'" in told.stdout


@pytest.fixture(scope="module")
def installers(tmp_path_factory):
    """The directory of programs of an environment with pipx and uv."""
    home = tmp_path_factory.mktemp("installers")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "pipx==1.18.4", "uv==0.13.8"], check=True)
    return home / "bin"


@pytest.mark.wheel
@pytest.mark.parametrize("command", [("pipx", "run", "--spec"), ("uvx", "--python", sys.executable, "--from")])
def test_the_wheel_runs_without_an_installation(installers, wheel, tmp_path, command):
    program, *options = command
    home = {"HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "uv"), "PIPX_HOME": str(tmp_path / "pipx")}
    planned = subprocess.run(
        [installers / program, *options, wheel, "dovetail", "plan", "--snapshot", SNAPSHOT, "-o", "json"],
        env=os.environ | home,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode == 0, planned.stderr
    assert [each["nodes"] for each in json.loads(planned.stdout)["commands"]]
