"""`dovetail run --provider aws` from pending pods to the end of their nodes: a real API server, EC2 over HTTP."""

import asyncio
import os
import threading
from contextlib import asynccontextmanager, contextmanager

import pytest

from cloud.aws.account import iam_guard
from cloud.aws.nodes import booting
from cloud.aws.proxy import proxied
from cloud.aws.server import moto_server
from dovetail.cloud.aws.clients import AwsClients
from e2e.controlplane.api import eventually
from e2e.running import ALONE, DOVETAIL, NODE_POOL, apply, claims, deployment, nodes, running, settled
from e2e.test_aws import ACCESS, NAME, controller, furnish, node_class

pytestmark = pytest.mark.needs_ec2_node_class

REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
REQUIREMENTS = [
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
]


class Kubelets:
    """Where instances that boot join: the real API server, whose nodes KWOK keeps alive."""

    def __init__(self, cluster):
        self._cluster = cluster

    def values(self, _kind):
        return []

    def apply(self, node):
        self._cluster.api.post("/api/v1/nodes", node).expect()


@contextmanager
def ec2(cluster):
    """The proxy in front of moto, machines that boot, and an environment that leads there; on a thread of its own."""
    started, ended, box = threading.Event(), threading.Event(), {}

    @asynccontextmanager
    async def alive(moto):
        async with proxied(moto) as proxy, booting(moto, Kubelets(cluster), NAME):
            yield proxy

    async def main(moto):
        async with alive(moto) as proxy:
            proxy.guard = iam_guard(NAME)
            box["proxy"] = proxy
            started.set()
            await asyncio.to_thread(ended.wait)

    with moto_server() as moto, pytest.MonkeyPatch.context() as patch:
        for name, value in {**ACCESS, "AWS_ENDPOINT_URL": moto}.items():
            patch.setenv(name, value)
        thread = threading.Thread(target=lambda: asyncio.run(main(moto)))
        thread.start()
        try:
            assert started.wait(60)
            images = asyncio.run(furnish())
            yield box["proxy"], {**ACCESS, "AWS_ENDPOINT_URL": box["proxy"].address}, images
            assert box["proxy"].guard.denied == []  # Karpenter's role is enough
        finally:
            ended.set()
            thread.join(30)


async def instances():
    aws = AwsClients()
    try:
        filters = [
            {"Name": "tag:eks:eks-cluster-name", "Values": [NAME]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found = await aws.collect("ec2", "describe_instances", "Reservations", Filters=filters)
        return [each["InstanceId"] for reservation in found for each in reservation["Instances"]]
    finally:
        await aws.aclose()


async def own_terms():
    """Two subnets, by id, and their security group."""
    aws = AwsClients()
    try:
        subnets = await aws.collect("ec2", "describe_subnets", "Subnets")
        return [{"id": subnet["SubnetId"]} for subnet in subnets[:2]]
    finally:
        await aws.aclose()


@contextmanager
def killed(cluster, environment):
    """The controller, which dies at the end without a word."""
    command = [DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), "--provider", "aws", "--cluster-name", NAME]
    process = cluster.launch("dovetail-doomed", *command, env={**os.environ, **ALONE, **environment})
    try:
        yield process
    except AssertionError as error:
        raise AssertionError(process.tail(40)) from error
    finally:
        process.kill()


def test_pods_run_on_ec2_survive_a_kill_of_the_process_and_leave_nothing_behind(prepared, namespace):
    cluster = prepared
    with ec2(cluster) as (proxy, environment, images):
        with killed(cluster, environment):
            template = {"spec": {"nodeClassRef": REF, "requirements": REQUIREMENTS, "expireAfter": "Never"}}
            apply(cluster, node_class(images, subnetSelectorTerms=asyncio.run(own_terms())))
            apply(cluster, {**NODE_POOL, "spec": {"template": template}})
            apply(cluster, deployment(3), namespace)
            eventually(lambda: proxy.fleets.launched, "an instance is launched", within=60, every=0.001)
        with controller(cluster, environment):
            eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=180)
            bought = asyncio.run(instances())
            assert len(bought) == len(claims(cluster)) == len(nodes(cluster))
            assert bought == proxy.fleets.launched  # nothing was launched twice
            cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
            cluster.kubectl("delete", "nodepool", "default", "--wait=false")
            eventually(lambda: not claims(cluster) and not nodes(cluster), "every node is gone", within=120)
            eventually(lambda: asyncio.run(instances()) == [], "every instance is gone", within=60)
            cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")
