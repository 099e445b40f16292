"""`dovetail demo` as a command: its output, that runs repeat exactly, and invalid options."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dovetail.cli.app import app
from dovetail.cli.demo.scenario import demo_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "demo" / "nodepool.yaml"
REPAIR = {"repair": {}}
COMMAND = (sys.executable, "-c", "from dovetail.cli import main; main()", "demo")


def demo(*arguments, stdin=None):
    return CliRunner().invoke(app, ["demo", *arguments], input=stdin)


def in_a_process(*arguments, **environment):
    env = {**os.environ, **environment}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, env=env, check=True, timeout=60)


def test_the_same_seed_prints_the_same_bytes_in_every_process():
    first, second = (in_a_process("--for", "45m", PYTHONHASHSEED=number) for number in ("1", "2"))
    assert first.stdout == second.stdout
    assert b"drained" in first.stdout
    assert b"\x1b" not in first.stdout
    assert b"real time" not in first.stdout
    assert b"real time" in first.stderr


def test_another_seed_gives_another_run():
    assert demo("--for", "2m", "--seed", "1").stdout != demo("--for", "2m", "--seed", "2").stdout


def test_the_demo_scales_drains_and_leaves_no_pod_pending():
    told = demo("--speed", "max").stdout
    for happening in (
        *("claim ", "launch ", "join ", "ready ", "drained ", "garbage collected", "Next steps"),
        *("reclaimed in 2m", "spot interrupted; draining and replacing", "KernelDeadlock is True since"),
        *("Expired: replace", "Drifted: replace", "Empty: delete", "Underutilized: delete"),
    ):
        assert happening in told
    assert re.search(r'blocked  general-\w+: pod has "karpenter.sh/do-not-disrupt" annotation', told)
    assert "still pending" not in told
    assert "2h0m0s" in told


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_scripts_only_the_summary_is_printed(form, read):
    summary = read(demo("--for", "2m", "-o", form).stdout)
    assert summary["virtualSeconds"] == 120
    # the scheduler may bind otherwise than planned
    assert summary["nodes"]["launched"] == summary["nodes"]["peak"] >= 2
    assert summary["pods"]["pending"] == 0
    assert summary["pods"]["pendingSeconds"]["p50"] <= summary["pods"]["pendingSeconds"]["max"]
    assert summary["cost"]["total"] > 0
    assert summary["apiCalls"] > 0


def test_an_interrupted_demo_prints_its_summary():
    with subprocess.Popen([*COMMAND, "--speed", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=30)
    assert b"The cluster starts" in first
    assert b"then interrupted" in rest
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "names", "example"),
    [
        (("--for", "abc"), "--for", "1h30m"),
        (("--for", "-1h"), "--for", "2h"),
        (("--for", "0"), "--for", "2h"),
        (("--speed", "-1"), "--speed", "60"),
        (("--speed", "fast"), "--speed", "max"),
        (("--speed", "nan"), "--speed", "60"),
        (("--catalog", "huge"), "--catalog", "realistic"),
        (("--filename", "missing.yaml"), "--filename", "missing.yaml"),
    ],
)
def test_a_bad_value_is_refused_with_the_option_and_a_right_example(arguments, names, example):
    result = demo(*arguments)
    assert result.exit_code == 2
    assert names in result.stderr
    assert example in result.stderr
    assert not result.stdout


def test_nodepools_of_a_file_replace_those_of_the_demo():
    told = demo("--for", "2m", "-f", str(EXAMPLE)).stdout
    assert "my-pool-" in told
    assert "general-" not in told


def test_pods_that_the_nodepools_cannot_run_are_reported_with_the_reason():
    told = demo("--for", "31m", "-f", str(EXAMPLE)).stdout
    assert "exceed limits for nodepool" in told
    assert "still pending" in told


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_node_class_of_another_provider_is_replaced_with_a_note(version):
    pool = yaml.safe_load(EXAMPLE.read_text())
    pool["apiVersion"] = f"karpenter.sh/{version}"
    group = {"group": "karpenter.k8s.aws"} if version == "v1" else {"apiVersion": "karpenter.k8s.aws/v1beta1"}
    pool["spec"]["template"]["spec"]["nodeClassRef"] = {**group, "kind": "EC2NodeClass", "name": "default"}
    result = demo("--for", "2m", "-o", "json", "-f", "-", stdin=yaml.safe_dump(pool))
    assert "EC2NodeClass default is replaced by a KWOKNodeClass" in result.stderr
    assert json.loads(result.stdout)["nodes"]["launched"] > 0


def test_faulty_nodepools_are_refused_with_every_fault():
    text = EXAMPLE.read_text().replace("operator: In", "operator: Im").replace('cpu: "48"', "cpu: lots")
    result = demo("-f", "-", stdin=text)
    assert result.exit_code == 2
    assert "requirements[0].operator" in result.stderr
    assert "spec.limits.cpu" in result.stderr
    assert not result.stdout


def test_a_file_without_nodepool_is_refused():
    result = demo("-f", "-", stdin="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    assert result.exit_code == 2
    assert "has no NodePool" in result.stderr


def test_help_teaches_by_example():
    text = demo("--help").stdout
    for part in ("--for", "--speed", "--seed", "--plain", "--catalog", "--filename", "dovetail demo -f nodepool.yaml"):
        assert part in text


def test_the_kernel_of_a_repairing_nodepool_of_ones_own_deadlocks():
    """The scenario names its own NodePool; one that repairs nodes takes its place."""
    pools = [
        {"kind": "NodePool", "metadata": {"name": name}, "spec": spec} for name, spec in (("a", {}), ("b", REPAIR))
    ]
    (deadlock,) = (each for each in demo_scenario(nodepools=tuple(pools)).events if each.set_condition)
    assert deadlock.set_condition.nodepool == "b"
    (deadlock,) = (each for each in demo_scenario(nodepools=tuple(pools[:1])).events if each.set_condition)
    assert deadlock.set_condition.nodepool == ""
