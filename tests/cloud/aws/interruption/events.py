"""Examples of EventBridge events in a queue."""

import json
from datetime import UTC, datetime
from uuid import uuid4

SENT = datetime(2026, 3, 4, 11, 59, 59, tzinfo=UTC)


def event(source, detail_type, detail, instance="i-0abc", sent=SENT):
    return json.dumps(
        {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": "123456789012",
            "time": sent.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": "us-east-1",
            "resources": [f"arn:aws:ec2:us-east-1:instance/{instance}"],
            "detail": detail,
        }
    )


def spot(instance, sent=SENT):
    told = {"instance-id": instance, "instance-action": "terminate"}
    return event("aws.ec2", "EC2 Spot Instance Interruption Warning", told, instance, sent)


def reservation(instance):
    told = {"instance-id": instance, "instance-action": "terminate"}
    return event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", told, instance)


def rebalance(instance):
    return event("aws.ec2", "EC2 Instance Rebalance Recommendation", {"instance-id": instance}, instance)


def change(instance, state):
    told = {"instance-id": instance, "state": state}
    return event("aws.ec2", "EC2 Instance State-change Notification", told, instance)


def health(*entities, **fields):
    told = {
        "eventArn": "arn:aws:health:us-east-1::event/EC2/X",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "eventDescription": [{"language": "en_US", "latestDescription": "It goes."}],
        "affectedEntities": [{"entityValue": each} for each in entities],
    }
    return event("aws.health", "AWS Health Event", told | fields)
