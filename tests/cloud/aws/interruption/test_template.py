"""The CloudFormation template as a stack: EventBridge events arrive in the queue and are parsed."""

import json

from cloud.aws.interruption.events import change, health, rebalance, reservation, spot
from cloud.aws.permissions import DEPLOY, policy
from dovetail.cloud.aws.interruption.sqs import Polling, SqsQueue

TOLD = (spot("i-1"), rebalance("i-2"), change("i-3", "stopping"), reservation("i-4"), health("i-5"))
KINDS = {
    "i-1": "spot_interrupted",
    "i-2": "rebalance_recommendation",
    "i-3": "instance_stopped",
    "i-4": "capacity_reservation_interrupted",
    "i-5": "scheduled_change",
}


async def stacked(account):
    """The outputs of the stack, by name."""
    given = {
        "StackName": account.name,
        "TemplateBody": (DEPLOY / "cloudformation.yaml").read_text(),
        "Parameters": [{"ParameterKey": "ClusterName", "ParameterValue": account.name}],
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
    }
    await account.aws.call("cloudformation", "create_stack", **given)
    [stack] = (await account.aws.call("cloudformation", "describe_stacks", StackName=account.name))["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def entry(body):
    event = json.loads(body)
    detail = json.dumps(event["detail"])
    return {"Source": event["source"], "DetailType": event["detail-type"], "Detail": detail}


def test_every_event_reaches_the_queue_of_the_stack_and_no_other_does(live):
    async def story(account):
        outputs = await stacked(account)
        other = entry(spot("i-6")) | {"DetailType": "EC2 Spot Instance Request Fulfillment"}
        await account.aws.call("events", "put_events", Entries=[*map(entry, TOLD), other])
        queue, found = SqsQueue(account.parts.aws, outputs["InterruptionQueueName"], polling=Polling(wait=1)), {}
        while len(found) < len(TOLD):
            for delivery in await queue.receive():
                found |= dict.fromkeys(delivery.interruption.instance_ids, str(delivery.interruption.kind))
                await queue.acknowledge([delivery])
        assert found == KINDS
        assert await queue.receive() == []

    live(story)


def test_names_are_filled_in_and_nodes_get_the_role_that_may_be_passed(live):
    async def story(account):
        outputs, aws = await stacked(account), account.aws
        assert outputs["NodeRoleName"] == f"KarpenterNodeRole-{account.name}"
        role = await aws.call("iam", "get_role", RoleName=outputs["NodeRoleName"])
        arn = outputs["ControllerPolicyArn"]
        made = await aws.call("iam", "get_policy_version", PolicyArn=arn, VersionId="v1")
        document = made["PolicyVersion"]["Document"]
        document = json.loads(document) if isinstance(document, str) else document
        statements = {each["Sid"]: each for each in document["Statement"]}
        assert list(statements) == [each["Sid"] for each in policy()["Statement"]]
        assert "${" not in json.dumps(document)
        assert statements["GiveNodesTheirRole"]["Resource"] == role["Role"]["Arn"]
        assert statements["ReadTheQueue"]["Resource"].endswith(f":{outputs['InterruptionQueueName']}")

    live(story)
