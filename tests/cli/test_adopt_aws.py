"""The dry runs of `dovetail adopt`: about a launch like those of Karpenter, for the cluster that was named."""

import asyncio

import pytest

from acceptance.fleet import cluster, free, worker
from builders import build, nodepool
from cloud.aws.test_permission_check import RESOLVED, Ec2
from dovetail.core.adoption.facts import AdoptionFacts
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.ports.errors import CloudError
from dovetail.wiring.adoption_aws import dry_runs

REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


class Account(Ec2):
    """An account in a region, with an identity."""

    region = "us-east-1"

    async def call(self, service, operation, **request):
        if service == "sts":
            return {"Arn": "arn:aws:iam::1:user/me"}
        return await super().call(service, operation, **request)


def asked(*nodes, cluster_name="demo"):
    """The requests about a class that has the name of a KWOKNodeClass."""
    pools = [free("default"), nodepool("cloud", template={"nodeClassRef": REF})]
    facts = AdoptionFacts(snapshot=cluster(*nodes, pools=pools))
    node_class = build(EC2_NODE_CLASS, {"metadata": {"name": "default"}, "spec": {}, "status": RESOLVED})
    account = Account()
    checks = asyncio.run(dry_runs(facts, [node_class], cluster_name, account))
    assert checks.caller == "arn:aws:iam::1:user/me"
    return account.requests


def on_ec2(name):
    return worker(name, pool="cloud", type_="c5.large", claim={"spec": {"nodeClassRef": REF}})


def test_the_sample_is_an_instance_of_the_class_and_no_node_of_another_provider():
    requests = asked(worker("kwok-1"), on_ec2("i-1"))
    assert requests["run_instances"]["InstanceType"] == "c5.large"
    assert requests["terminate_instances"]["InstanceIds"] == ["i-1"]
    assert "terminate_instances" not in asked(worker("kwok-1"))


def test_the_tags_are_those_of_the_cluster_that_was_named():
    (first, *_) = asked(on_ec2("i-1"), cluster_name="mine")["run_instances"]["TagSpecifications"]
    assert {"Key": "kubernetes.io/cluster/mine", "Value": "owned"} in first["Tags"]


def test_without_a_name_nothing_is_asked():
    with pytest.raises(CloudError, match="set --cluster-name"):
        asked(on_ec2("i-1"), cluster_name="")
