"""Karpenter's policy and the one in `deploy/aws` suffice; the latter grants exactly what the code requests.

Every test on an `Account` checks each request against both policies, with resources and conditions. Here is whether
that check notices what it should.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cloud.aws.account import REGION
from cloud.aws.claims import ON_DEMAND, SPOT, asked_for, launched_as, types
from cloud.aws.iam_policy import KARPENTER_POLICY, Check, read_policy
from cloud.aws.permissions import DEPLOY, ROOT, actions_by_method, granted, listed, policy
from dovetail.cloud.aws import clients
from dovetail.cloud.aws.interruption.sqs import EVENTS
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key

SOURCES = sorted(Path(clients.__file__).parent.rglob("*.py"))
IMPLIED = {
    "ec2:CreateFleet": {"ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"},
    "ec2:CreateLaunchTemplate": {"ec2:CreateTags"},
    "iam:CreateInstanceProfile": {"iam:TagInstanceProfile"},
    "iam:AddRoleToInstanceProfile": {"iam:PassRole"},
}
"""Actions that AWS requires in addition for launching, tagging and passing roles."""
TAGGED = {"fleet", "instance", "launch-template", "network-interface", "volume"}


def asked():
    """Every action in the code: operations are literals, never composed."""
    known, found = {}, set()
    for (_, method), action in actions_by_method().items():
        known.setdefault(method, set()).add(action)
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= known.get(node.value, set())
    return found.union(*(IMPLIED.get(action, set()) for action in found))


class _Template(yaml.SafeLoader):
    """Reads short forms of intrinsic functions as their argument."""


_Template.add_multi_constructor("!", lambda loader, _tag, node: loader.construct_scalar(node))


def template():
    return yaml.load((DEPLOY / "cloudformation.yaml").read_text(), _Template)  # noqa: S506 - a safe loader


def test_the_policy_grants_what_the_code_asks_for_and_nothing_else():
    assert granted() == asked()


def test_karpenters_policy_has_every_action_that_the_code_asks_for():
    statements = json.loads(KARPENTER_POLICY.read_text())["Statement"]
    assert asked() <= {action for each in statements for action in listed(each["Action"])}


def test_the_policy_is_small_enough_for_iam():
    assert len(json.dumps(policy(), separators=(",", ":"))) < 6144


def test_the_template_has_the_same_policy():
    assert template()["Resources"]["ControllerPolicy"]["Properties"]["PolicyDocument"] == policy()


@pytest.mark.parametrize("statement", policy()["Statement"], ids=lambda each: each["Sid"])
def test_nothing_is_granted_everywhere(statement):
    """Every write is restricted to the cluster by name, by tag, or by its launch template."""
    changes = [a for a in listed(statement["Action"]) if not re.match(r"\w+:(Describe|Get|List|Receive)", a)]
    assert statement["Effect"] == "Allow"
    assert not [action for action in listed(statement["Action"]) if "*" in action]
    if not changes:
        return
    resources = listed(statement["Resource"])
    assert "*" not in resources
    kinds = {each.split(":")[-1].split("/")[0] for each in resources}
    told = json.dumps([statement.get("Condition"), resources])
    if kinds & TAGGED or "ec2:CreateTags" in changes:
        assert "eks:eks-cluster-name" in json.dumps(statement["Condition"])
    elif statement["Sid"] != "LaunchFromWhatIsThere":
        assert "${ClusterName}" in told


def test_every_event_that_is_understood_is_led_to_the_queue():
    rules = [each["Properties"] for each in template()["Resources"].values() if each["Type"] == "AWS::Events::Rule"]
    led = {(*rule["EventPattern"]["source"], *rule["EventPattern"]["detail-type"]) for rule in rules}
    assert led == set(EVENTS)
    assert {target["Arn"] for rule in rules for target in rule["Targets"]} == {"InterruptionQueue.Arn"}


def test_the_template_passes_the_linter():
    command = [str(Path(sys.executable).parent / "cfn-lint"), str(DEPLOY / "cloudformation.yaml")]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_credentials_come_from_the_default_chain_and_nowhere_else():
    named = re.compile(r"aws_(access_key_id\b[^\"]|secret|session_token)|set_credentials", re.IGNORECASE)
    assert [source.name for source in SOURCES if named.search(source.read_text())] == []
    assert not named.search((ROOT / "src" / "dovetail" / "settings.py").read_text())


def test_a_whole_life_is_allowed_by_both_policies(live):
    """Launch on demand and spot with dry runs, terminate, and delete the class with what was made for it."""

    async def story(account):
        await account.create(account.node_class(tags={"team": "a"}))
        await account.kept()
        made = []
        for capacity_type in (ON_DEMAND, SPOT):
            claim = await asked_for(account, capacity_type, types("m5.large"))
            made.append(launched_as(claim, await account.provider.launch(claim)))
        for claim in made:
            await account.provider.terminate(claim)
        await account.world.delete(EC2_NODE_CLASS, Key("", "default"))
        await account.kept()
        used = {(action, sid) for policy, action, sid in account.proxy.guard.allowed if policy == "Karpenter"}
        assert {
            ("ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags"),
            ("ec2:CreateFleet", "AllowScopedEC2LaunchTemplateAccessActions"),
            ("ec2:RunInstances", "AllowScopedEC2InstanceActionsWithTags"),
            ("ec2:CreateTags", "AllowScopedResourceCreationTagging"),
            ("ec2:TerminateInstances", "AllowScopedDeletion"),
            ("ec2:DeleteLaunchTemplate", "AllowScopedDeletion"),
            ("iam:PassRole", "AllowPassingInstanceRole"),
            ("iam:CreateInstanceProfile", "AllowScopedInstanceProfileCreationActions"),
            ("iam:DeleteInstanceProfile", "AllowScopedInstanceProfileActions"),
            ("ssm:GetParameter", "AllowSSMReadActions"),
        } <= used

    live(story, disable_dry_run=False)


DENIED = (
    ("ec2", "describe_availability_zones", {}),
    ("iam", "get_role", {"RoleName": "a"}),
    ("ssm", "get_parameters", {"Names": ["/aws/service/a"]}),
    ("ssm", "get_parameter", {"Name": "/mine"}),
    ("iam", "create_instance_profile", {"InstanceProfileName": "untagged"}),
    ("eks", "describe_cluster", {"name": "another"}),
)


def test_what_karpenters_policy_does_not_allow_is_denied_and_noticed(live):
    async def story(account):
        aws, guard = account.parts.aws, account.proxy.guard
        await account.create(account.node_class())
        await account.kept()
        claim = await asked_for(account, ON_DEMAND, types("m5.large"))
        made = await account.provider.launch(claim)
        resources = {"Resources": [made.provider_id.rpartition("/")[2]]}
        one_more = {**resources, "Tags": [{"Key": "team", "Value": "a"}]}
        gone = {"Resources": resources["Resources"], "Tags": [{"Key": "Name"}]}
        calls = [("ec2", "create_tags", one_more), ("ec2", "delete_tags", gone), *DENIED]
        for service, operation, given in calls:
            guard.denied.clear()
            with pytest.raises(clients.AwsError) as refused:
                await aws.call(service, operation, **given)
            assert refused.value.unauthorized
            assert "the Karpenter policy denies" in guard.denied[0]
        guard.denied.clear()

    live(story)


CLUSTER = {"aws:ResourceTag/kubernetes.io/cluster/demo": "owned", "aws:ResourceTag/karpenter.sh/nodepool": ""}
INSTANCE = "arn:aws:ec2:us-east-1:123456789012:instance/i-1"


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [(["Name", "karpenter.sh/nodeclaim"], "AllowScopedResourceTagging"), (["Name", "team"], ""), ([], "")],
)
def test_conditions_on_tags_that_are_added_later(keys, allowed):
    policy = read_policy(KARPENTER_POLICY, "demo", REGION)
    owned = CLUSTER if keys else {}
    assert policy.statement(Check("ec2:CreateTags", INSTANCE, {**owned, "aws:TagKeys": keys})) == allowed


@pytest.mark.parametrize(
    ("context", "allowed"),
    [
        (CLUSTER, "AllowScopedDeletion"),
        ({**CLUSTER, "aws:ResourceTag/kubernetes.io/cluster/demo": "shared"}, ""),
        ({"aws:ResourceTag/kubernetes.io/cluster/demo": "owned"}, ""),
        ({}, ""),
    ],
)
def test_conditions_on_tags_of_a_resource(context, allowed):
    policy = read_policy(KARPENTER_POLICY, "demo", REGION)
    assert policy.statement(Check("ec2:TerminateInstances", INSTANCE, context)) == allowed
    assert not policy.allows(Check("ec2:StopInstances", INSTANCE, context))
    assert not policy.allows(Check("ec2:TerminateInstances", INSTANCE.replace("us-east-1", "us-west-2"), context))
