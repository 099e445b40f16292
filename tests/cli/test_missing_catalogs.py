"""Commands on a cluster whose instance types could not be read: the cause, exit code 2, and what is known."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from acceptance.fleet import cluster, shielded, worker
from builders import nodepool
from dovetail.cli.app import app
from dovetail.manifest.snapshot_file import read_snapshot_file, snapshot_bytes
from dovetail.model.repair import ProviderRepairPolicy

CAUSE = "ec2.describe_instance_types: NoCredentials: set AWS_PROFILE"
ERROR = f"Error: the instance types and prices of NodePool cloud are not known: {CAUSE}\n"
EC2 = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}
OTHER = {"nodeClassRef": {"group": "example.com", "kind": "RackNodeClass", "name": "default"}}


def snapshot(*, other_pools=()):
    """Two empty nodes: one of NodePool local, whose catalog is known, and two of NodePool cloud, whose is not."""
    pools = [nodepool("local"), nodepool("cloud", template=EC2), *other_pools]
    nodes = (
        worker("here", pool="local"),
        worker("there", pool="cloud"),
        worker("kept", shielded("x", "kept"), pool="cloud"),
    )
    known = cluster(*nodes, pools=pools)
    catalogs = {"local": next(iter(known.catalogs.values()))}
    return replace(known, catalogs=catalogs, missing_catalogs={"cloud": CAUSE})


@pytest.fixture
def command(tmp_path):
    def invoke(*arguments, read=None):
        path = tmp_path / "cluster.json"
        path.write_bytes(snapshot_bytes(read or snapshot(), "json"))
        return CliRunner().invoke(app, [*arguments, "--snapshot", str(path)])

    return invoke


def test_plan_shows_the_plan_of_other_nodepools_and_the_nodes_without_prices_with_their_obstacles(command):
    result = command("plan")
    assert (result.exit_code, result.stderr) == (2, ERROR)
    rows = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines() if line}
    assert rows["delete"].startswith("delete (emptiness) Empty here")
    assert rows["there"].startswith("there cloud ")
    assert rows["there"].endswith(" none")
    assert "do-not-disrupt" in rows["kept"]
    assert f"No plan for the nodes of cloud: {ERROR.removeprefix('Error: ').strip()}." in result.stdout


def test_plan_never_says_that_nothing_would_be_disrupted(command):
    found = snapshot()
    alone = replace(found, nodes=tuple(node for node in found.nodes if node.nodepool_name == "cloud"))
    result = command("plan", read=alone)
    assert result.exit_code == 2
    assert "Nothing would be disrupted" not in result.stdout
    assert "there" in result.stdout


def test_the_document_of_a_plan_has_what_is_known(command):
    document = json.loads(command("plan", "-o", "json").stdout)
    assert document["missingCatalogs"] == [{"nodepools": ["cloud"], "message": ERROR.removeprefix("Error: ").strip()}]
    (kept, there) = sorted(document["withoutPrices"], key=lambda each: each["node"])
    assert [each["code"] for each in kept["obstacles"]] == ["DoNotDisruptPod"]
    assert (there["nodepool"], there["obstacles"]) == ("cloud", [])
    assert {each["node"]: each["code"] for each in document["leftAlone"]} == {"kept": "NoCatalog", "there": "NoCatalog"}


def test_a_nodepool_of_no_provider_is_ignored_and_named(command):
    found = snapshot(other_pools=[nodepool("rack", template=OTHER)])
    result = command(
        "plan",
        read=replace(
            found,
            missing_catalogs={},
            nodepools={name: pool for name, pool in found.nodepools.items() if name != "cloud"},
            nodes=found.nodes[:1],
        ),
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "NodePool rack is ignored: no provider manages node classes of example.com/RackNodeClass." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("explain", "node", "there"), 2),
        (("explain", "node", "here"), 0),
        (("explain", "nodepool", "cloud"), 2),
        (("explain", "nodepool", "local"), 0),
        (("explain", "pod", "x"), 2),
        (("drain", "there"), 2),
        (("top", "--once"), 2),
        (("budgets", "cloud"), 0),
    ],
)
def test_a_command_that_needs_the_missing_types_prints_what_it_knows_and_fails(command, arguments, code):
    result = command(*arguments)
    assert result.exit_code == code, result.output
    assert result.stderr == (ERROR if code else "")
    assert result.stdout


def test_explain_names_the_cause_for_a_node_and_for_a_nodepool(command):
    words = f"the instance types of NodePool cloud are not known: {CAUSE}"
    assert words in " ".join(command("explain", "node", "there").stdout.split())
    assert CAUSE in command("explain", "nodepool", "cloud").stdout
    rack = snapshot(other_pools=[nodepool("rack", template=OTHER)])
    assert (
        "no provider manages node classes of example.com/RackNodeClass"
        in command("explain", "nodepool", "rack", read=rack).stdout
    )


@pytest.mark.parametrize("cloud_only", [True, False])
def test_what_if_compares_no_plan_that_is_not_known(command, cloud_only):
    found = snapshot()
    if cloud_only:
        found = replace(found, nodes=tuple(node for node in found.nodes if node.nodepool_name == "cloud"))
    result = command("what-if", "--set", "spec.disruption.consolidationPolicy=WhenEmpty", read=found)
    assert (result.exit_code, result.stderr) == (2, ERROR)
    assert f"the instance types and prices of NodePool cloud are not known: {CAUSE}." in result.stdout
    assert result.stdout.startswith("No plan at ") is cloud_only
    assert ("removes 0 nodes" in result.stdout, "$0.00" in result.stdout and cloud_only) == (False, False)
    assert ("The prices of 2 nodes are unknown and not in these costs." in result.stdout) is not cloud_only


def test_top_shows_no_price_where_none_is_known(command):
    found = snapshot()
    alone = replace(found, nodes=tuple(node for node in found.nodes if node.nodepool_name == "cloud"))
    lines = command("top", "--once", read=alone).stdout.splitlines()
    assert any(line.startswith(" No prices: ") and CAUSE in line for line in lines)
    assert " Next pass: not known" in lines
    assert any(line.split()[0] == "there" and " ? " in line for line in lines if line.split())
    assert "  cost not known  " in lines[1]
    assert any(line.startswith("cloud (2)") and " ? " in line for line in lines)
    assert not any("$0" in line or " 0.000" in line for line in lines)


def test_top_shows_a_cost_that_lacks_some_prices_as_the_least_it_can_be(command):
    lines = command("top", "--once").stdout.splitlines()
    assert "  at least $" in lines[1]


def test_a_snapshot_keeps_the_cause(tmp_path):
    path = tmp_path / "cluster.yaml.gz"
    policies = (ProviderRepairPolicy("Ready", "False", timedelta(minutes=30), "karpenter.k8s.aws/ec2nodeclass"),)
    path.write_bytes(snapshot_bytes(replace(snapshot(), repair_statements=policies), "yaml", gzipped=True))
    read = read_snapshot_file(path)
    assert (read.missing_catalogs, read.repair_statements) == ({"cloud": CAUSE}, policies)


WRITTEN = """\
apiVersion: dovetail.sh/v1alpha1
kind: Snapshot
metadata: {{at: '2026-01-05T12:00:00Z'}}
objects:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {{name: default}}
  spec: {{template: {{spec: {{requirements: []{ref}}}}}}}
"""
"""As written by hand: a NodePool without instance types."""


@pytest.mark.parametrize(
    ("ref", "cause"),
    [
        (", nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}", "they are not in the file"),
        (", nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}", "they are not in the file"),
        ("", "spec.template.spec.nodeClassRef is not set"),
    ],
)
def test_nothing_is_known_of_a_nodepool_whose_instance_types_the_file_does_not_have(ref, cause, tmp_path):
    path = tmp_path / "written.yaml"
    path.write_text(WRITTEN.format(ref=ref))
    why = f"the instance types and prices of NodePool default are not known: {cause}"
    for options in ([], ["--summary"]):
        result = CliRunner().invoke(app, ["plan", "--snapshot", str(path), *options])
        assert (result.exit_code, result.stderr) == (2, f"Error: {why}\n")
        assert result.stdout.splitlines()[0] == f"No plan at 2026-01-05T12:00:00Z: {why}."
        assert "/." not in result.stdout
        assert "isrupts nothing" not in result.stdout
        assert "Nothing" not in result.stdout
        assert "nothing" not in result.stdout


def test_the_plan_of_other_nodepools_does_not_hide_that_one_has_none(command):
    lines = command("plan").stdout.splitlines()
    assert lines[0].startswith("Plan for 3 nodes at ")
    assert lines[1].startswith("No plan for the nodes of cloud: ")
