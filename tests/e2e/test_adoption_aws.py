"""`dovetail adopt` on EC2 beside Karpenter's Deployment, and the switch: its role suffices, the forecast comes true.

Karpenter's AWS provider is not among the built programs. What stands here for it: its Deployment, its Lease, and
instances that Dovetail launched, whose tags and hashes are Karpenter's bit for bit (other tests prove that).
"""

import asyncio
import json
import os
import subprocess
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from cloud.aws.proxy import ec2_error
from e2e.controlplane.api import MERGE, eventually
from e2e.running import ALONE, DOVETAIL, NODE_POOL, apply, claims, condition, deployment, nodes, running, settled
from e2e.test_adoption import GATED, definitions, follow, workload, written_by_accounts
from e2e.test_aws import controller, node_class
from e2e.test_aws_life import REF, REQUIREMENTS, ec2, own_terms
from test_karpenter_settings import CHART

pytestmark = pytest.mark.needs_own_crds("EC2NodeClass is not among the CRDs of Karpenter's core")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/karpenter-leader-election"
INSTALLED = "/apis/apps/v1/namespaces/dovetail/deployments/dovetail"
LAUNCHES_AND_ENDS = {"CreateFleet", "RunInstances", "TerminateInstances"}
NO_DRY_RUN_IN_MOTO = (
    "DescribeCapacityReservations",
    "DescribeInstanceStatus",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeSpotPriceHistory",
    "CreateFleet",
)
REVIEWS = {("create", "selfsubjectaccessreviews"), ("create", "subjectaccessreviews")}
WATCHED_SECONDS = 40.0  # longer than a pass of disruption and of garbage collection
SIZE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.xlarge"]}


def karpenters_deployment():
    """With the environment of its chart; its pods are never scheduled."""
    manifest = workload("Deployment", "karpenter", GATED, replicas=2)
    manifest["metadata"]["labels"] = {"app.kubernetes.io/name": "karpenter"}
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": name, "value": value} for name, value in CHART.items()]
    return manifest


def write_lease(cluster, holder):
    """Karpenter's Lease, held for an hour by this holder, or released."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600 if holder else 1, "renewTime": now}
    if not cluster.api.post(LEASES, {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}).ok:
        cluster.api.patch(LEASE, {"spec": spec}, MERGE).expect()


def adopt(cluster, environment, *arguments):
    """The command, by an account that may do everything and whose requests are recorded."""
    kubeconfig = cluster.token_kubeconfig("adopter", cluster.service_account_token("dovetail", "adopter"))
    argv = [DOVETAIL, "adopt", "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)


def without_aws(environment, home):
    """The environment of who has no credentials."""
    kept = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    return {**kept, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(home)}


def messages(report, level, area):
    found = (each for each in report["findings"] if each["level"] == level and each["area"] == area)
    return [each["message"] for each in found]


def really_asked(proxy, began):
    """The operations since then that were no dry runs."""
    return [each.operation for each in proxy.asked[began:] if each.given.get("DryRun") != "true"]


def hourly_cost(cluster, environment):
    argv = [DOVETAIL, "top", "--once", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
    return sum(each["price"] for each in json.loads(done.stdout)["nodes"] if each["managed"])


def answer_dry_runs(proxy):
    """As EC2 does for requests that the policies allow; moto does not know it for these."""

    def rule(asked):
        return ec2_error("DryRunOperation", 412) if asked.given.get("DryRun") == "true" else None

    for operation in NO_DRY_RUN_IN_MOTO:
        proxy.on(operation, rule)


@contextmanager
def installed(cluster, environment, **variables):
    """`dovetail run` with the variables of the Deployment that the steps left in the cluster."""
    (container,) = cluster.api.get(INSTALLED).expect()["spec"]["template"]["spec"]["containers"]
    written = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    process = cluster.launch(
        "dovetail-installed",
        *(DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig)),
        env={**environment, **written, **ALONE, "DOVETAIL_LOG_FORMAT": "text", **variables},
    )
    try:
        yield process
        assert process.exit_code is None, process.tail()
    except AssertionError as error:
        raise AssertionError(process.tail(40)) from error
    finally:
        process.stop(10)


@pytest.fixture
def on_ec2(prepared, namespace):
    """Six pods on two instances; then four of them leave, and no controller runs in the cluster."""
    cluster = prepared
    with ec2(cluster) as (proxy, access, images):
        environment = {**os.environ, **access}
        with controller(cluster, access):
            template = {"nodeClassRef": REF, "requirements": [*REQUIREMENTS, SIZE], "expireAfter": "Never"}
            apply(cluster, node_class(images, subnetSelectorTerms=asyncio.run(own_terms())))
            apply(cluster, {**NODE_POOL, "spec": {"template": {"spec": template}}})
            apply(cluster, deployment(6), namespace)
            eventually(lambda: len(running(cluster, namespace)) == 6 and settled(cluster), "pods run", within=180)
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=2")
        eventually(lambda: len(running(cluster, namespace)) == 2, "two pods stay", within=60)
        if not cluster.has_service_account("dovetail"):
            cluster.create_namespace("dovetail")
        bound = "--clusterrole=cluster-admin", "--serviceaccount=dovetail:adopter"
        cluster.kubectl("create", "clusterrolebinding", "adopter-on-ec2", *bound)
        apply(cluster, karpenters_deployment(), "kube-system")
        write_lease(cluster, "karpenter-5d-x_1")
        yield cluster, proxy, environment
        cluster.kubectl("delete", "clusterrolebinding", "adopter-on-ec2")
        with controller(cluster, access):
            cluster.kubectl("delete", "nodepool", "default", "--wait=false")
            cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
            eventually(lambda: not claims(cluster) and not nodes(cluster), "every node is gone", within=120)
            cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")


def assert_unknown_without_credentials(done):
    assert done.returncode == 2, done.stdout + done.stderr
    lines = " ".join(done.stdout.split())
    assert lines.startswith("Ready to switch: not known, because instance types are missing")
    assert "NoCredentials" in lines
    assert "Steps to switch" in lines
    assert "EC2NodeClass default: the hashes are equal" in lines, "what the API server knows is checked"


def test_adopt_foretells_what_happens_on_ec2_with_karpenters_role(on_ec2, tmp_path):
    cluster, proxy, environment = on_ec2
    answer_dry_runs(proxy)
    before, cost = definitions(cluster), hourly_cost(cluster, environment)
    recorded = len(cluster.audit_log.read_text().splitlines())
    began = len(proxy.asked)
    assert_unknown_without_credentials(adopt(cluster, without_aws(environment, tmp_path)))
    done = adopt(cluster, environment, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert written_by_accounts(cluster, recorded) <= REVIEWS
    assert [each for each in really_asked(proxy, began) if not each.startswith(("Describe", "Get", "GET "))] == []
    assert proxy.guard.denied == []
    (allowed,) = messages(report, "ok", "IAM")
    for action in ("ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:TerminateInstances"):
        assert action in allowed
    assert "EC2NodeClass default: the hashes are equal: the switch makes no node drift" in messages(
        report, "ok", "Drift"
    )
    off, on = report["firstHour"]
    assert (off["nodesLaunched"], off["nodesRemoved"], off["evictions"]) == (0, 0, 0)
    assert off["costPerHourBefore"] == off["costPerHourAfter"] == pytest.approx(cost, abs=0.001)
    assert (on["nodesLaunched"], on["nodesRemoved"]) == (0, 1)
    assert on["costPerHourAfter"] == pytest.approx(cost / 2, abs=0.001)

    aws = [each for step in report["switch"] for each in step["commands"] if "aws eks" in each]
    assert len(aws) == 2, "the commands for Pod Identity, which no server here has"
    steps = [{"commands": [each for each in step["commands"] if each not in aws]} for step in report["switch"]]
    follow(cluster, steps, tmp_path)
    assert definitions(cluster) == before, "no definition was touched"
    there, began = {each["metadata"]["uid"] for each in claims(cluster)}, len(proxy.asked)
    with installed(cluster, environment, DOVETAIL_DISRUPTION="off") as process:
        eventually(lambda: "waiting to lead" in process.log.read_text(), "it stands by", within=60)
        write_lease(cluster, "")
        eventually(lambda: "leading" in process.log.read_text(), "it leads", within=60)
        time.sleep(WATCHED_SECONDS)
        assert {each["metadata"]["uid"] for each in claims(cluster)} == there
        assert [condition(each, "Drifted") for each in claims(cluster)] == [None, None]
        assert not LAUNCHES_AND_ENDS & set(really_asked(proxy, began))
    with installed(cluster, environment):
        eventually(lambda: len(claims(cluster)) == 1 and settled(cluster), "one node is removed", within=180)
        time.sleep(WATCHED_SECONDS)
        assert hourly_cost(cluster, environment) == pytest.approx(on["costPerHourAfter"], abs=0.001)
