"""Metrics about AWS: requests with the names of the AWS SDK for Go, and the launches that EC2 refuses."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cloud.aws.claims import ON_DEMAND, asked_for
from dovetail.cloud.aws.clients import AwsError
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.errors import InsufficientCapacity


def measured(account):
    """Measure all further requests."""
    metrics = account.parts.aws.metrics = PrometheusMetrics(strict=True)
    account.parts.aws._clients.clear()  # clients measure from when they are opened
    return metrics


def figure(metrics, name, **labels):
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [each for family in families for each in family.samples if each.name == name]
    return sum(each.value for each in samples if labels.items() <= each.labels.items())


def test_a_launch_is_measured_request_by_request(ready):
    async def story(account):
        metrics = measured(account)
        await account.provider.launch(await asked_for(account, ON_DEMAND))
        fleet = {"service": "EC2", "action": "CreateFleet", "code": ""}
        assert figure(metrics, "aws_sdk_go_request_total", **fleet) == 1
        assert figure(metrics, "aws_sdk_go_request_attempt_total", **fleet) == 1
        assert figure(metrics, "aws_sdk_go_request_duration_seconds_count", **fleet) == 1
        assert figure(metrics, "aws_sdk_go_request_attempt_duration_seconds_sum", **fleet) > 0
        assert figure(metrics, "aws_sdk_go_request_retry_count_sum") == 0
        assert figure(metrics, "karpenter_ec2nodeclasses_userdata_bytes", nodeclass="default") > 100
        assert figure(metrics, "karpenter_cloudprovider_batcher_batch_size_sum", batcher="describe_instances") >= 1

    ready(story)


def test_an_offering_without_capacity_is_a_launch_failure_with_its_code(ready):
    async def story(account):
        metrics = measured(account)
        account.proxy.refuse("CreateFleet", "InsufficientInstanceCapacity")
        with pytest.raises(InsufficientCapacity):
            await account.provider.launch(await asked_for(account, ON_DEMAND))
        failed = {"capacity_type": "on-demand", "reason": "InsufficientInstanceCapacity"}
        assert figure(metrics, "karpenter_cloudprovider_instance_launch_failures_total", **failed) > 1
        assert figure(metrics, "aws_sdk_go_request_total", code="InsufficientInstanceCapacity") == 1

    ready(story)


def test_a_refused_termination_is_counted_in_the_zone_of_the_instance(ready):
    async def story(account):
        claim = await asked_for(account, ON_DEMAND)
        instance = await account.provider.launch(claim)
        metrics = measured(account)
        account.proxy.refuse("TerminateInstances", "UnauthorizedOperation")
        with pytest.raises(AwsError):
            await account.parts.instances._terminate_batch([instance.provider_id.rpartition("/")[2]])
        zone = instance.labels["topology.kubernetes.io/zone"]
        assert figure(metrics, "karpenter_cloudprovider_instance_termination_failures_total", zone=zone) == 1

    ready(story)
