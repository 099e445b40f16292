"""The actions that the policy in `deploy/aws` grants, and the IAM actions of AWS operations."""

import json
from functools import cache
from pathlib import Path

import botocore.loaders
import botocore.model
from botocore import xform_name

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "aws"
SERVICES = ("arc-zonal-shift", "ec2", "eks", "iam", "pricing", "sqs", "ssm")
NAMED_OTHERWISE = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}


@cache
def actions_by_method():
    """The IAM action of every operation, by service and by the name of its method."""
    loader, found = botocore.loaders.Loader(), {}
    for service in SERVICES:
        described = loader.load_service_model(service, "service-2")
        for name in botocore.model.ServiceModel(described).operation_names:
            action = f"{service}:{name}"
            found[service, xform_name(name)] = NAMED_OTHERWISE.get(action, action)
    return found


@cache
def policy():
    return json.loads((DEPLOY / "policy.json").read_text())


def listed(value):
    return value if isinstance(value, list) else [value]


@cache
def granted():
    """Every action the policy grants."""
    return {action for each in policy()["Statement"] for action in listed(each["Action"])}


def actions(calls):
    """The actions of counted operations."""
    known = actions_by_method()
    return {known[tuple(call.split("."))] for call in calls}
