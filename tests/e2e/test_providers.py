"""The provider follows from the nodeClassRef: KWOK and EC2 NodePools in one cluster, without `--provider`."""

import asyncio
import json
import os
import subprocess
from contextlib import contextmanager

import pytest

from e2e.components import build
from e2e.controlplane.api import eventually
from e2e.running import ALONE, DOVETAIL, NODE_CLASS, NODE_POOL, apply, claims, deployment, nodes, running, settled
from e2e.test_aws import NAME, node_class
from e2e.test_aws_life import REF, REQUIREMENTS, ec2, own_terms

pytestmark = pytest.mark.needs_ec2_node_class
POOLS = ("cloud", "local")


@pytest.fixture
def both(prepared):
    """A cluster with the node classes of both providers, which no chart of Karpenter installs."""
    kwok = build.binaries_dir(build.KARPENTER) / "crds" / "karpenter.kwok.sh_kwoknodeclasses.yaml"
    if not prepared.api.get("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses").ok:
        prepared.kubectl("apply", "-f", str(kwok))
        prepared.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return prepared


def pool(name, template):
    return {**NODE_POOL, "metadata": {"name": name}, "spec": {"template": {"spec": template}}}


def pods_for(name):
    """A Deployment whose pods run only on nodes of this NodePool."""
    made = deployment(2)
    template = made["spec"]["template"]
    made["metadata"]["name"] = name
    made["spec"]["selector"]["matchLabels"] = template["metadata"]["labels"] = {"app": name}
    template["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": name}
    return made


@contextmanager
def automatic(cluster, environment):
    """`dovetail run` without `--provider`."""
    command = [DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), "--cluster-name", NAME]
    variables = {**os.environ, **ALONE, **environment, "DOVETAIL_LOG_FORMAT": "text"}
    process = cluster.launch("dovetail-providers", *command, env=variables)
    try:
        yield process
        assert process.exit_code is None, process.tail()
    except AssertionError as error:
        raise AssertionError(process.tail(40)) from error
    finally:
        process.stop(10)


def command(cluster, environment, *arguments):
    argv = [DOVETAIL, *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False, env=environment)


def plan(cluster, environment):
    ended = command(cluster, environment, "plan", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def nodes_of(cluster, name):
    labelled = [each for each in nodes(cluster) if each["metadata"]["labels"].get("karpenter.sh/nodepool") == name]
    return {each["metadata"]["name"] for each in labelled}


def test_two_providers_launch_in_one_cluster_and_plan_knows_both_or_says_why_not(both, namespace, tmp_path):
    cluster = both
    with ec2(cluster) as (_, environment, images), automatic(cluster, environment):
        apply(cluster, NODE_CLASS)
        apply(cluster, node_class(images, subnetSelectorTerms=asyncio.run(own_terms())))
        cloud, local = {"nodeClassRef": REF, "requirements": REQUIREMENTS}, NODE_POOL["spec"]["template"]["spec"]
        for name, template in zip(POOLS, (cloud, local), strict=True):
            apply(cluster, pool(name, {**template, "expireAfter": "Never"}))
            apply(cluster, pods_for(name), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 4 and settled(cluster), "pods run", within=180)
        ids = {
            each["metadata"]["labels"]["karpenter.sh/nodepool"]: each["status"]["providerID"]
            for each in claims(cluster)
        }
        assert ids["cloud"].startswith("aws:///")
        assert ids["local"].startswith("kwok://")

        cluster.kubectl("scale", "deployment", *POOLS, "-n", namespace, "--replicas=0")
        reachable = {**os.environ, **environment}
        emptied = {name for each in POOLS for name in nodes_of(cluster, each)}
        found = eventually(lambda: planned(cluster, reachable, emptied), "both are empty", within=90, every=2)
        seen = json.loads(command(cluster, reachable, "top", "--once", "-o", "json").stdout)["nodes"]
        prices = {each["name"]: each["price"] for each in seen if each["managed"]}
        assert all(price > 0 for price in prices.values())
        assert found["savingPerMonth"] == pytest.approx(730 * sum(prices.values()), abs=0.02)

        unreachable = {name: value for name, value in reachable.items() if not name.startswith("AWS_")}
        unreachable |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
        unreachable["AWS_ENDPOINT_URL"] = environment["AWS_ENDPOINT_URL"]
        no_region = command(cluster, unreachable, "plan")
        assert (no_region.returncode, "set AWS_REGION" in no_region.stderr) == (2, True)
        no_credentials = command(cluster, {**unreachable, "AWS_REGION": "us-east-1"}, "plan")
        assert no_credentials.returncode == 2
        assert "NodePool cloud are not known: ec2.describe_instance_types: NoCredentials" in no_credentials.stderr
        for ended in (no_region, no_credentials):
            assert all(name in ended.stdout for name in emptied)
            assert "Nothing would be disrupted" not in ended.stdout
            assert "delete (emptiness)" in ended.stdout  # of the KWOK node, whose price is known

        cluster.kubectl("delete", "nodepool", *POOLS, "--wait=false")
        eventually(lambda: not claims(cluster) and not nodes(cluster), "every node is gone", within=120)
        cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")


def planned(cluster, environment, names):
    found = plan(cluster, environment)
    return found if {name for each in found["commands"] for name in each["nodes"]} == names else None


def test_a_process_that_could_serve_none_of_its_nodepools_ends_with_the_cause(prepared, tmp_path):
    cluster = prepared
    apply(cluster, pool("cloud", {"nodeClassRef": REF, "requirements": REQUIREMENTS}))
    ended = command(cluster, {**os.environ, **ALONE, "HOME": str(tmp_path)}, "run")
    assert ended.returncode == 2
    assert "set --cluster-name (CLUSTER_NAME)" in ended.stderr
