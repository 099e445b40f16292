"""`--watch` on a real API server: an answer again after a change, and the exit codes of Ctrl-C and of a deletion."""

import os
import signal
import subprocess

import pytest
import yaml

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, NODE_POOL, apply

pytestmark = pytest.mark.once("watching is the same on any CRDs")


def answers(path):
    """The documents printed so far; the last one may be half written."""
    try:
        return [each for each in yaml.safe_load_all(path.read_text()) if each]
    except yaml.YAMLError:
        return []


def test_budgets_are_printed_again_after_a_change_until_they_are_gone(prepared, tmp_path):
    for manifest in (NODE_CLASS, NODE_POOL):
        apply(prepared, manifest)
    command = [DOVETAIL, "budgets", "np/default", "--watch", "-o", "yaml", "--days", "1"]
    command += ["--nodes", "10", "--kubeconfig", str(prepared.kubeconfig)]
    printed = [tmp_path / "until-deleted", tmp_path / "until-interrupted"]
    processes = []
    try:
        for path in printed:
            with path.open("w") as out:
                processes.append(subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ}))
        eventually(lambda: all(len(answers(path)) == 1 for path in printed), "both print an answer", within=60)
        budgets = {"spec": {"disruption": {"budgets": [{"nodes": "3"}]}}}
        prepared.kubectl("patch", "nodepool", "default", "--type=merge", "-p", yaml.safe_dump(budgets))
        eventually(lambda: all(len(answers(path)) == 2 for path in printed), "both print another", within=60)
        least = [each["actions"]["Drift"][0]["least"] for each in answers(printed[0])]
        assert least == [1, 3]
        processes[1].send_signal(signal.SIGINT)
        assert processes[1].wait(60) == 0, printed[1].read_text()
        prepared.kubectl("delete", "nodepool", "default", "--wait=false")
        assert processes[0].wait(60) == 2
        assert "there is no nodepool 'default'" in printed[0].read_text()
    finally:
        for process in processes:
            process.kill()
            process.wait()
