"""What `deploy/overlays` installs for EKS: the process as deployed, AWS as moto plays it, exactly its roles."""

import asyncio

import pytest

from dovetail.cloud.aws.clients import AwsClients
from e2e import test_aws, test_deploy
from e2e.controlplane.api import eventually
from e2e.running import NODE_POOL, apply, condition
from e2e.test_deploy import READS, as_deployed, asked, granted

account = test_aws.account
installed = test_deploy.installed
GROUP = "karpenter.k8s.aws"


def found(documents, kind, name="dovetail"):
    return next(each for each in documents if each["kind"] == kind and each["metadata"]["name"].startswith(name))


@pytest.fixture
def settled(installed, account, monkeypatch):
    """The cluster, what was installed on it, and the images; the environment is what the Deployment would give."""
    cluster, documents = installed
    environment, images = account
    given = found(documents, "ConfigMap", "dovetail-aws")
    [container] = found(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": given["metadata"]["name"]}}]
    for name, value in {**given["data"], **environment, "CLUSTER_NAME": test_aws.NAME}.items():
        monkeypatch.setenv(name, value)
    return cluster, documents, images


async def queue_with(message):
    """Make the queue the overlay names, with one message in it."""
    aws = AwsClients()
    try:
        made = await aws.call("sqs", "create_queue", QueueName="demo")
        await aws.call("sqs", "send_message", QueueUrl=made["QueueUrl"], MessageBody=message)
    finally:
        await aws.aclose()


@pytest.mark.parametrize("installed", ["overlays/aws"], indirect=True)
def test_acting_on_eks_a_class_becomes_ready_and_goes_under_exactly_the_roles(settled, namespace):
    cluster, documents, images = settled
    subnets = asyncio.run(test_aws.listed("describe_subnets", "Subnets"))
    terms = [{"id": subnet["SubnetId"]} for subnet in subnets]
    ref = {"group": GROUP, "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {**NODE_POOL["spec"]["template"]["spec"], "nodeClassRef": ref}}
    with as_deployed(cluster, documents, namespace) as process:
        eventually(
            lambda: "there is no SQS queue 'demo' in us-east-1" in process.log.read_text(), "it is told", within=60
        )
        asyncio.run(queue_with("neither this"))
        apply(cluster, test_aws.node_class(images, subnetSelectorTerms=terms))
        apply(cluster, {**NODE_POOL, "spec": {"template": template}})
        eventually(lambda: condition(test_aws.read(cluster), "Ready") == "True", "the class is ready", within=90)
        pool = "/apis/karpenter.sh/v1/nodepools/default"
        eventually(lambda: condition(cluster.api.get(pool).expect(), "Ready") == "True", "the pool is ready", within=90)
        eventually(lambda: "malformed message discarded" in process.log.read_text(), "the queue was found", within=60)
        cluster.kubectl("delete", "nodepool", "default")
        cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")
    used = {action for action, _ in asked(cluster)}
    assert {action for action, refused in asked(cluster) if refused} == set()
    assert used <= granted(documents)
    assert {action for action in granted(documents) if action[1] == GROUP} <= used
    role = found(documents, "ServiceAccount")["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    assert role.startswith("arn:aws:iam::")


@pytest.mark.parametrize("installed", ["overlays/aws-looking"], indirect=True)
def test_looking_on_eks_needs_only_to_read(settled, namespace):
    cluster, documents, images = settled
    assert {verb for verb, _, _ in granted(documents)} <= READS
    apply(cluster, test_aws.node_class(images))
    with as_deployed(cluster, documents, namespace) as process:
        eventually(lambda: "evaluated the cluster" in process.log.read_text(), "it says what it sees", within=120)
    assert {verb for (verb, _, _), _ in asked(cluster)} <= READS
    assert {action for action, refused in asked(cluster) if refused} == set()
    assert asyncio.run(test_aws.listed("list_instance_profiles", "InstanceProfiles", service="iam")) == []
    cluster.kubectl("delete", "ec2nodeclass", "default", "--timeout=180s")
