"""Permissions by dry run: what EC2 answers, and that no request goes without `DryRun`."""

import asyncio

import pytest

from builders import build
from dovetail.cloud.aws.clients import NO_CREDENTIALS, UNREACHABLE, AwsError
from dovetail.cloud.aws.permission_check import LaunchSample, check_permissions
from dovetail.model.kinds import EC2_NODE_CLASS

RESOLVED = {"amis": [{"id": "ami-1"}], "subnets": [{"id": "subnet-1"}], "securityGroups": [{"id": "sg-1"}]}


class Ec2:
    """Answers dry runs with a code for each operation, `DryRunOperation` by default."""

    def __init__(self, templates=(), **codes):
        self.templates, self.codes, self.requests = templates, codes, {}

    async def call(self, service, operation, **request):
        assert service == "ec2"
        assert request.pop("DryRun") is True, "nothing is really done"
        self.requests[operation] = request
        raise AwsError(operation, self.codes.get(operation, "DryRunOperation"), "as the test says")

    async def collect(self, *names, **_):
        assert names == ("ec2", "describe_launch_templates", "LaunchTemplates")
        return [{"LaunchTemplateName": each} for each in self.templates]


def checked(ec2, status=RESOLVED):
    node_class = build(EC2_NODE_CLASS, {"metadata": {"name": "default"}, "spec": {}, "status": status})
    sample = LaunchSample(
        cluster_name="demo", node_class=node_class, nodepool="general", instance_type="m5.large", instance_id="i-1"
    )
    return {each.action: each for each in asyncio.run(check_permissions(ec2, sample))}


def test_every_action_is_allowed_denied_or_not_known():
    found = checked(Ec2(run_instances="UnauthorizedOperation", terminate_instances="InvalidInstanceID.NotFound"))
    assert found["ec2:DescribeSubnets"].allowed is True
    assert found["ec2:RunInstances"].allowed is False
    assert found["ec2:TerminateInstances"].allowed is None
    assert "InvalidInstanceID.NotFound" in found["ec2:TerminateInstances"].detail
    assert found["ec2:CreateFleet"].allowed is None


def test_a_fleet_is_asked_about_with_a_template_that_exists():
    ec2 = Ec2(templates=["karpenter.k8s.aws/1"])
    assert checked(ec2)["ec2:CreateFleet"].allowed is True
    (template,) = ec2.requests["create_fleet"]["LaunchTemplateConfigs"]
    assert template["LaunchTemplateSpecification"]["LaunchTemplateName"] == "karpenter.k8s.aws/1"
    assert template["Overrides"] == [{"InstanceType": "m5.large", "SubnetId": "subnet-1"}]


def test_requests_carry_the_tags_that_policies_require():
    ec2 = Ec2()
    checked(ec2)
    for each in ec2.requests["run_instances"]["TagSpecifications"]:
        tags = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        assert tags["kubernetes.io/cluster/demo"] == "owned"
        assert tags["karpenter.sh/nodepool"] == "general"


def test_an_unresolved_class_cannot_be_asked_about():
    assert checked(Ec2(), status={})["ec2:RunInstances"].allowed is None


@pytest.mark.parametrize("code", [UNREACHABLE, "RequestLimitExceeded", "InternalError"])
def test_an_action_that_fails_leaves_the_answers_about_the_others(code):
    found = checked(Ec2(describe_capacity_reservations=code))
    assert found["ec2:DescribeCapacityReservations"].allowed is None
    assert found["ec2:DescribeSubnets"].allowed is found["ec2:RunInstances"].allowed is True


def test_without_credentials_nothing_is_said():
    with pytest.raises(AwsError):
        checked(Ec2(describe_capacity_reservations=NO_CREDENTIALS))
