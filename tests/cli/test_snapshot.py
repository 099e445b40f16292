"""`dovetail snapshot` of the demo: what it writes, that it repeats itself, and how it refuses."""

import json
from datetime import UTC, datetime

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.manifest.snapshot_file import read_snapshot_file


def snapshot(*arguments, **environment):
    return CliRunner().invoke(app, ["snapshot", *arguments], env=environment)


@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a.json.gz", "a.yaml.gz"])
def test_the_demo_at_one_moment_in_every_form(name, tmp_path):
    path = tmp_path / name
    result = snapshot("--demo", "--at", "10m", "-o", str(path))
    assert result.exit_code == 0
    taken = read_snapshot_file(path)
    assert taken.at == datetime(2026, 1, 5, 0, 10, tzinfo=UTC)
    assert taken.nodes
    assert set(taken.catalogs) == set(taken.nodepools)
    assert f"{path}: {len(taken.nodes)} nodes" in result.stderr
    assert result.stdout == ""


def test_without_a_file_it_is_yaml_on_standard_output_and_nothing_else():
    result = snapshot("--demo", "--at", "5m")
    assert yaml.safe_load(result.stdout)["kind"] == "Snapshot"
    assert read_snapshot_file(result.stdout_bytes).nodepools
    assert result.stderr == ""


def test_the_same_moment_is_the_same_file_and_another_seed_is_another():
    first, second, other = (snapshot("--demo", "--at", "10m", "--seed", seed).stdout for seed in ("0", "0", "7"))
    assert first == second != other


def test_the_catalog_is_the_selected_one(tmp_path):
    path = tmp_path / "a.json"
    snapshot("--demo", "--at", "1m", "--catalog", "generic", "-o", str(path))
    (catalog,) = json.loads(path.read_text())["catalogs"]
    assert len(catalog["instanceTypes"]) == 144


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--demo", "-o", "snapshot.txt"], "ends in .json"),
        (["--demo", "--at", "soon"], "soon"),
        (["--at", "1h"], "requires --demo"),
        (["--seed", "1"], "requires --demo"),
        (["--demo", "--context", "prod"], "cannot be combined with --demo"),
        (["--kubeconfig", "/nowhere/config"], "/nowhere/config"),
        (["--demo", "--at", "1m", "-o", "/nowhere/a.json"], "cannot be written: No such file"),
    ],
)
def test_invalid_options_end_with_2(arguments, words):
    result = snapshot(*arguments, COLUMNS="300")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_invalid_instance_types_are_reported_before_any_request(tmp_path):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    result = snapshot("--kubeconfig", str(tmp_path / "config"), "--instance-types-file-path", "/nowhere/types.json")
    assert result.exit_code == 2
    assert "instance types file /nowhere/types.json: $: cannot be read" in result.stderr
