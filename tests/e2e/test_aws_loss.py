"""An EC2 instance that is terminated behind our back while its node is drained: nothing is left to wait for."""

import asyncio

import pytest

from dovetail.cloud.aws.clients import AwsClients
from e2e.controlplane.api import eventually
from e2e.leaving import budget, uids, untouched_by
from e2e.running import NODE_POOL, apply, claims, deployment, nodes, pods, running, settled
from e2e.test_aws import controller, node_class
from e2e.test_aws_life import REF, REQUIREMENTS, ec2, instances, own_terms
from e2e.test_termination import draining, gone, only, silence

pytestmark = pytest.mark.needs_ec2_node_class


async def terminate(instance):
    aws = AwsClients()
    try:
        await aws.call("ec2", "terminate_instances", InstanceIds=[instance])
    finally:
        await aws.aclose()


def test_an_instance_that_is_terminated_during_the_drain_ends_it(prepared, namespace):
    """Silent while its instance runs: the drain waits. Then it is missed within the half minute between looks."""
    cluster = prepared
    with ec2(cluster) as (_, environment, images), controller(cluster, environment):
        template = {"spec": {"nodeClassRef": REF, "requirements": REQUIREMENTS, "expireAfter": "Never"}}
        apply(cluster, node_class(images, subnetSelectorTerms=asyncio.run(own_terms())))
        apply(cluster, {**NODE_POOL, "spec": {"template": template, "disruption": {"consolidateAfter": "Never"}}})
        apply(cluster, budget(maxUnavailable=0), namespace)
        apply(cluster, deployment(1), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=180)
        node, claim = only(nodes(cluster))["metadata"], only(claims(cluster))["metadata"]
        old, (instance,) = uids(pods(cluster, namespace)), asyncio.run(instances())
        cluster.kubectl("delete", "node", node["name"], "--wait=false")
        eventually(lambda: draining(cluster, claim["name"]), "the drain is under way", within=60)
        silence(cluster, node["name"])
        eventually(lambda: refused(cluster), "the budget holds it", within=60)
        assert not gone(cluster, node["name"])
        asyncio.run(terminate(instance))
        eventually(lambda: untouched_by(cluster, {node["uid"], claim["uid"]}), "node and claim go", within=90)
        eventually(lambda: not old & uids(pods(cluster, namespace)), "the cluster collects the pod", within=180)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "another runs", within=180)
        assert instance not in asyncio.run(instances())
        assert len(asyncio.run(instances())) == len(nodes(cluster))


def refused(cluster):
    told = cluster.api.items("/api/v1/events?fieldSelector=reason=FailedDraining")
    return any("violates a PDB" in event["message"] for event in told)
