"""The aws provider as its own process: a real API server on one side, AWS as moto plays it on the other."""

import asyncio
import os
from contextlib import contextmanager

import pytest

from cloud.aws.server import moto_server
from dovetail.cloud.aws.clients import AwsClients
from e2e.controlplane.api import MERGE, eventually
from e2e.running import ALONE, DOVETAIL, NODE_POOL, apply, condition

pytestmark = pytest.mark.needs_ec2_node_class

NAME = "demo"
ROLE = f"KarpenterNodeRole-{NAME}"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"
ACCESS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def account():
    """An account with a cluster, and an environment that leads to it."""
    with moto_server() as address:
        environment = {**ACCESS, "AWS_ENDPOINT_URL": address}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            yield environment, asyncio.run(furnish())


async def furnish():
    """A cluster, a role, and an image of each architecture that moto brings along; the ids of the images."""
    aws = AwsClients()
    try:
        subnets = await aws.collect("ec2", "describe_subnets", "Subnets")
        network = {"subnetIds": [subnet["SubnetId"] for subnet in subnets]}
        role = "arn:aws:iam::123456789012:role/eks"
        await aws.call("eks", "create_cluster", name=NAME, version="1.31", roleArn=role, resourcesVpcConfig=network)
        await aws.call("iam", "create_role", RoleName=ROLE, AssumeRolePolicyDocument="{}")
        found = await aws.collect("ec2", "describe_images", "Images", Owners=["amazon"])
        return {image.get("Architecture"): image["ImageId"] for image in found}
    finally:
        await aws.aclose()


def node_class(images, **spec):
    default = [{"name": "default"}]
    every = [{"tags": {"Name": "*"}}]
    usual = {
        "subnetSelectorTerms": every,
        "securityGroupSelectorTerms": default,
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{"id": images["x86_64"]}, {"id": images["arm64"]}],
        "role": ROLE,
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": usual | spec,
    }


@contextmanager
def controller(cluster, environment):
    command = [DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), "--provider", "aws", "--cluster-name", NAME]
    variables = {**os.environ, **ALONE, **environment, "DOVETAIL_LOG_FORMAT": "text"}
    process = cluster.launch("dovetail-aws", *command, env=variables)
    try:
        yield process
        assert process.exit_code is None, process.tail()
    finally:
        process.stop(10)


def test_a_class_becomes_ready_makes_its_pool_ready_and_goes_without_a_trace(prepared, account):
    cluster, (environment, images) = prepared, account
    subnets = asyncio.run(listed("describe_subnets", "Subnets"))
    terms = [{"id": subnet["SubnetId"]} for subnet in subnets]
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {**NODE_POOL["spec"]["template"]["spec"], "nodeClassRef": ref}}
    with controller(cluster, environment):
        apply(cluster, node_class(images, subnetSelectorTerms=terms))
        apply(cluster, {**NODE_POOL, "spec": {"template": template}})
        eventually(lambda: condition(read(cluster), "Ready") == "True", "the class is ready", within=60)
        status = read(cluster)["status"]
        assert len(status["subnets"]) == len(terms)
        assert {ami["id"] for ami in status["amis"]} == {images["x86_64"], images["arm64"]}
        assert status["instanceProfile"].startswith(f"{NAME}_")
        pool = "/apis/karpenter.sh/v1/nodepools/default"
        eventually(lambda: condition(cluster.api.get(pool).expect(), "Ready") == "True", "the pool is ready", within=90)
        assert "True" in cluster.kubectl("get", "ec2nc")

        change = {"spec": {"subnetSelectorTerms": [{"id": "subnet-0"}]}}
        cluster.api.patch(CLASS, change, MERGE).expect()
        eventually(lambda: condition(read(cluster), "SubnetsReady") == "False", "what is missing is said", within=30)
        assert "subnets" not in read(cluster)["status"]

        cluster.kubectl("delete", "nodepool", "default")
        cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=120s")
        assert asyncio.run(listed("list_instance_profiles", "InstanceProfiles", service="iam")) == []


def read(cluster):
    return {"status": {}, **cluster.api.get(CLASS).expect()}


async def listed(operation, field, service="ec2"):
    aws = AwsClients()
    try:
        return await aws.collect(service, operation, field)
    finally:
        await aws.aclose()
