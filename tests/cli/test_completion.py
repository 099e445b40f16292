"""Completion of names from the cluster, through the shell's protocol and through kubectl's for plugins."""

import os
import subprocess
import sys

import pytest

from cli.leader_cluster import LeaderCluster, served

NAMES = {
    "/api/v1/nodes": ["ip-10-0-1-1", "ip-10-0-1-2", "ip-10-0-2-1", "other"],
    "/apis/karpenter.sh/v1/nodepools": ["batch", "general"],
    "/apis/karpenter.sh/v1/nodeclaims": ["general-x"],
    "/api/v1/namespaces/default/pods": ["web-1"],
    "/api/v1/namespaces/ci/pods": ["build-7"],
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with served(LeaderCluster(names=NAMES), tmp_path_factory.mktemp("api")) as path:
        yield path


def completed(kubeconfig, *words):
    """What kubectl gets from the plugin, as a process: the suggestions, and the directive on the last line."""
    entry = "from dovetail.cli import kubectl_complete_main; kubectl_complete_main()"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    result = subprocess.run(
        [sys.executable, "-c", entry, *words], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stderr == ""
    *suggestions, directive = result.stdout.splitlines()
    assert directive == ":4"
    return [each for each in suggestions if each]


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("explain", "no"), ["node", "nodepool", "nodeclaim"]),
        (("explain", "node", "ip-10-0-1"), ["ip-10-0-1-1", "ip-10-0-1-2"]),
        (("explain", "no/ip-10-0-2"), ["no/ip-10-0-2-1"]),
        (("explain", "np", ""), ["batch", "general"]),
        (("explain", "nodeclaims", "g"), ["general-x"]),
        (("explain", "pod", ""), ["web-1"]),
        (("explain", "-n", "ci", "pod", ""), ["build-7"]),
        (("explain", "pod", "ci/"), ["ci/build-7"]),
        (("budgets", "b"), ["batch"]),
        (("budgets", "np/g"), ["np/general"]),
        (("drain", "other"), ["other"]),
        (("top", "--nodepool", ""), ["batch", "general"]),
        (("history", "--node", "ot"), ["other"]),
        (("plan", "--context", ""), ["one"]),
        (("pla",), ["plan"]),
    ],
)
def test_names_of_the_cluster_are_suggested(kubeconfig, words, suggested):
    assert completed(kubeconfig, *words) == suggested


@pytest.mark.parametrize("content", ["", "clusters: [", "apiVersion: v1\nkind: Config\ncurrent-context: nowhere\n"])
def test_a_cluster_that_cannot_be_read_suggests_nothing_and_says_nothing(tmp_path, content):
    (tmp_path / "broken").write_text(content)
    assert completed(tmp_path / "broken", "explain", "node", "") == []
    assert completed(tmp_path / "absent", "explain", "node", "") == []
