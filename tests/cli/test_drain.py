"""`dovetail drain` as a command: the preview, the exit codes, and nodes that it refuses."""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, owned, pdb, running, shielded, worker
from builders import NOON, claim, node, pod, stamped
from dovetail.cli.app import app
from dovetail.manifest.snapshot_file import snapshot_bytes
from dovetail.model.snapshot import ClusterNode

HELD = {"creationTimestamp": stamped(NOON), "annotations": {"karpenter.sh/do-not-disrupt": "2h"}}
DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}


@pytest.fixture
def drain(tmp_path):
    path = tmp_path / "cluster.json"

    def ask(found, *arguments):
        path.write_bytes(snapshot_bytes(found))
        return CliRunner().invoke(app, ["drain", *arguments, "--snapshot", str(path)])

    return ask


def held(joined, **metadata):
    """A worker that registered, so that the finalizer holds it."""
    changed = msgspec.structs.replace(joined.node.metadata, finalizers=("karpenter.sh/termination",), **metadata)
    return ClusterNode(msgspec.structs.replace(joined.node, metadata=changed), joined.claim, joined.pods)


def test_pods_are_shown_by_tier_with_what_holds_them_and_where_they_would_go(drain):
    going = held(
        worker(
            "a",
            owned("web", "a", "ReplicaSet"),
            shielded("build", "a", "2h", metadata=HELD),
            pod("agent", on="a", metadata=DAEMON),
            pod("proxy", on="a", spec={"tolerations": [{"operator": "Exists"}]}),
        )
    )
    result = drain(cluster(going, worker("b")), "a", "--manual-deletion", "wait")
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0].startswith("Drain of node a at 2026-01-05T12:00:00Z would end once its obstacles do: slow, all")
    assert "1 pods default/build protected until 14:00 UTC protected by karpenter.sh/do-not-disrupt" in lines
    assert "1 pods default/web evicted next" in lines
    assert "2 daemons default/agent its tier comes later" in lines
    assert "- default/proxy left alone tolerates the disruption taint" in lines
    assert "default/web node b" in lines


@pytest.mark.parametrize(("policy", "place"), [("Respect", "node c"), ("Ignore", "node b")])
def test_preferences_count_as_the_policy_says(drain, policy, place):
    """The solver fills node b first; the pod prefers the zone of node c."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    near = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    going = held(worker("a", owned("web", "a", "ReplicaSet", spec=near)))
    result = drain(cluster(going, worker("b"), worker("c", zone="zone-b")), "a", "--preference-policy", policy)
    assert f"default/web {place}" in [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_a_permanent_obstacle_gives_exit_code_1(drain):
    going = held(worker("a", running("web", "a"), shielded("forever", "a")))
    found = cluster(going, worker("b"), pdbs=[pdb(spec={"maxUnavailable": 0})])
    result = drain(found, "a", "-o", "json", "--manual-deletion", "wait")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verdict"] == "stuck"
    assert {each["pod"]: (each["state"], each["permanent"]) for each in document["pods"]} == {
        "default/forever": ("protected", True),
        "default/web": ("blocked", True),
    }


def test_a_protected_pod_is_shown_as_evicted_because_a_node_is_deleted_by_hand(drain):
    result = drain(cluster(held(worker("a", shielded("forever", "a"))), worker("b")), "a", "-o", "json")
    assert result.exit_code == 0
    (build,) = json.loads(result.stdout)["pods"]
    assert (build["state"], build["permanent"]) == ("evicted next", False)
    assert "do-not-disrupt does not apply" in build["why"]


def test_a_pod_that_fits_nowhere_else_is_reported(drain):
    going = held(worker("a", owned("vast", "a", "ReplicaSet", cpu="640")))
    result = drain(cluster(going), "a", "-o", "json")
    assert result.exit_code == 1
    (home,) = json.loads(result.stdout)["homes"]
    assert home["node"] is None
    assert "No new node can take it" in home["nowhere"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other", "has no NodeClaim, so Dovetail does not manage it"),
        ("default-9", "has no node yet"),
        ("aa", "there is no node 'aa'"),
    ],
)
def test_unmanaged_unregistered_and_unknown_nodes_are_refused(name, words, drain):
    found = cluster(held(worker("a")), ClusterNode(None, claim("default-9")), ClusterNode(node("other"), None))
    result = drain(found, name)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_time_limit_must_be_one(drain):
    result = drain(cluster(held(worker("a"))), "a", "--timeout", "soon")
    assert result.exit_code == 2
    assert "--timeout" in result.stderr


def test_explain_shows_what_a_draining_node_waits_for(tmp_path):
    going = held(
        worker("a", running("web", "a")), deletion_timestamp=NOON.replace(hour=11), deletion_grace_period_seconds=0
    )
    path = tmp_path / "cluster.json"
    path.write_bytes(snapshot_bytes(cluster(going, pdbs=[pdb(spec={"maxUnavailable": 0})])))
    result = CliRunner().invoke(app, ["explain", "node", "a", "--snapshot", str(path)])
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("Draining since 11:00 UTC: stuck, it cannot finish without") for line in lines)
    row = next(line for line in lines if line.startswith("1 pods default/web"))
    assert "blocked 11:00 UTC permanent pdb prevents pod evictions (PodDisruptionBudget=[" in row
    asked = CliRunner().invoke(app, ["explain", "node", "a", "--snapshot", str(path), "-o", "json"])
    (said,) = json.loads(asked.stdout)["draining"]["pods"]
    assert (said["since"], said["permanent"]) == ("2026-01-05T11:00:00Z", True)
