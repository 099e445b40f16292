"""Asks EC2 with dry runs which of the controller's actions the current credentials allow. Nothing is created.

EC2 checks the permission of a request with `DryRun` first, and answers `DryRunOperation` if it would have succeeded.
The requests carry the tags that the controller sets, because IAM policies may require them; with tags, they cover
ec2:CreateTags too. CreateFleet and DeleteLaunchTemplate need a launch template that exists, so they are asked about one
that Karpenter left, if there is any. Other services have no dry run: their actions are answered with None.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.clients import NO_CREDENTIALS, AwsClients, AwsError
from dovetail.cloud.aws.launch.fleet import launch_tags
from dovetail.cloud.aws.resolve.network import ec2_filter
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.labels import NODEPOOL
from dovetail.model.nodeclaim import NodeClaim

_DRY_RUN_SUCCEEDED = "DryRunOperation"
_MOST_CHARACTERS = 120  # of what EC2 says
_NO_DRY_RUN = "AWS offers no dry run here; Karpenter's published policy has the permission"
_DESCRIBED = (
    "describe_capacity_reservations",
    "describe_images",
    "describe_instance_status",
    "describe_instance_type_offerings",
    "describe_instance_types",
    "describe_instances",
    "describe_launch_templates",
    "describe_security_groups",
    "describe_spot_price_history",
    "describe_subnets",
)
WITHOUT_DRY_RUN = (
    "arc-zonal-shift:GetManagedResource",
    "eks:DescribeCluster",
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:DeleteInstanceProfile",
    "iam:GetInstanceProfile",
    "iam:ListInstanceProfiles",
    "iam:PassRole",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:TagInstanceProfile",
    "pricing:GetProducts",
    "sqs:DeleteMessage",
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
    "ssm:GetParameter",
)
"""Actions that cannot be asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAnswer:
    """Whether an action is allowed; None with a reason if EC2 does not say."""

    action: str
    allowed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSample:
    """What the requests are about: a class that is resolved, and an instance of it."""

    cluster_name: str
    node_class: EC2NodeClass
    nodepool: str
    instance_type: str
    instance_id: str = ""


async def find_caller(aws: AwsClients) -> str:
    """Return the ARN of the current credentials; raises `AwsError` if there are none."""
    return str((await aws.call("sts", "get_caller_identity"))["Arn"])


async def check_permissions(aws: AwsClients, sample: LaunchSample) -> tuple[DryRunAnswer, ...]:
    """Ask about every action. Raises `AwsError` if there are no credentials."""
    return tuple([each async for each in _answers(aws, sample)])


async def _answers(aws: AwsClients, sample: LaunchSample) -> AsyncIterator[DryRunAnswer]:
    for each in await asyncio.gather(*(_ask(aws, operation) for operation in _DESCRIBED)):
        yield each
    claim = NodeClaim(metadata=ObjectMeta(name="dry-run", labels={NODEPOOL: sample.nodepool}))
    tags = launch_tags(claim, sample.node_class, sample.cluster_name)
    async for each in _about_a_launch(aws, sample, tags):
        yield each
    async for each in _about_a_template(aws, sample, tags):
        yield each
    if sample.instance_id:
        yield await _ask(aws, "terminate_instances", InstanceIds=[sample.instance_id])
    else:
        why = "it needs an instance, and no NodeClaim has one"
        yield DryRunAnswer(action="ec2:TerminateInstances", allowed=None, detail=why)
    for action in WITHOUT_DRY_RUN:
        yield DryRunAnswer(action=action, allowed=None, detail=_NO_DRY_RUN)


async def _about_a_launch(
    aws: AwsClients, sample: LaunchSample, tags: Mapping[str, str]
) -> AsyncIterator[DryRunAnswer]:
    status = sample.node_class.status
    if not status.amis or not status.subnets:
        why = f"EC2NodeClass {sample.node_class.name} has no resolved AMIs or subnets"
        for action in ("CreateLaunchTemplate", "RunInstances"):
            yield DryRunAnswer(action=f"ec2:{action}", allowed=None, detail=why)
        return
    image = status.amis[0].id
    yield await _ask(
        aws,
        "create_launch_template",
        LaunchTemplateName="dry-run",
        LaunchTemplateData={"ImageId": image},
        TagSpecifications=_tagged("launch-template", tags),
    )
    yield await _ask(
        aws,
        "run_instances",
        ImageId=image,
        InstanceType=sample.instance_type,
        SubnetId=status.subnets[0].id,
        SecurityGroupIds=[each.id for each in status.security_groups],
        MinCount=1,
        MaxCount=1,
        TagSpecifications=_tagged("instance volume network-interface", tags),
    )


async def _about_a_template(
    aws: AwsClients, sample: LaunchSample, tags: Mapping[str, str]
) -> AsyncIterator[DryRunAnswer]:
    filters = [ec2_filter(f"tag:{labels.cluster_tag(sample.cluster_name)}", "owned")]
    try:
        found = await aws.collect("ec2", "describe_launch_templates", "LaunchTemplates", Filters=filters)
    except AwsError:
        found = []
    if not found:
        why = "it needs a launch template, and none of Karpenter's was found"
        for action in ("CreateFleet", "DeleteLaunchTemplate"):
            yield DryRunAnswer(action=f"ec2:{action}", allowed=None, detail=why)
        return
    name, subnets = found[0]["LaunchTemplateName"], sample.node_class.status.subnets
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
        "Overrides": [{"InstanceType": sample.instance_type, "SubnetId": each.id} for each in subnets[:1]],
    }
    yield await _ask(
        aws,
        "create_fleet",
        Type="instant",
        LaunchTemplateConfigs=[config],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        TagSpecifications=_tagged("instance volume fleet", tags),
    )
    yield await _ask(aws, "delete_launch_template", LaunchTemplateName=name)


async def _ask(aws: AwsClients, operation: str, **request: Any) -> DryRunAnswer:
    action = "ec2:" + "".join(word.capitalize() for word in operation.split("_"))
    try:
        await aws.call("ec2", operation, DryRun=True, **request)
    except AwsError as error:
        if error.code == _DRY_RUN_SUCCEEDED:
            return DryRunAnswer(action=action, allowed=True)
        if error.code == NO_CREDENTIALS:
            raise
        if error.unauthorized:
            return DryRunAnswer(action=action, allowed=False, detail=error.code)
        said = " ".join(error.message.split())[:_MOST_CHARACTERS]
        return DryRunAnswer(action=action, allowed=None, detail=f"EC2 answered {error.code}: {said}")
    return DryRunAnswer(action=action, allowed=None, detail="EC2 ignored the dry run")


def _tagged(resources: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    written = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": each, "Tags": written} for each in resources.split()]
