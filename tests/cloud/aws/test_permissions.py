"""The policy in `deploy/aws` grants exactly what the code requests; policy and template agree."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cloud.aws.permissions import DEPLOY, ROOT, actions_by_method, granted, listed, policy
from dovetail.cloud.aws import clients
from dovetail.cloud.aws.interruption.sqs import EVENTS

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
    named = re.compile(r"aws_(access_key|secret|session_token)|AWS_(ACCESS|SECRET)|set_credentials", re.IGNORECASE)
    assert [source.name for source in SOURCES if named.search(source.read_text())] == []
    assert not named.search((ROOT / "src" / "dovetail" / "settings.py").read_text())
