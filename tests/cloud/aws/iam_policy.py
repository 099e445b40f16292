"""Evaluates IAM policies: whether a policy allows an action on a resource.

As far as the policies in use need it: `Allow` statements with actions, resources by pattern, and the string conditions
that Karpenter's policy has. Placeholders of CloudFormation are replaced first.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ACCOUNT_ID = "123456789012"
KARPENTER_POLICY = Path(__file__).with_name("karpenter_policy.json")
Context = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Check:
    """One authorization: an action on a resource, with the condition keys of the request."""

    action: str
    resource: str
    context: Context

    def __str__(self) -> str:
        return f"{self.action} on {self.resource} with {json.dumps(self.context, sort_keys=True)}"


@dataclass(frozen=True)
class Policy:
    """A policy document for one cluster."""

    statements: tuple[Mapping[str, Any], ...]

    def allows(self, check: Check) -> bool:
        """Whether a statement allows it."""
        return self.statement(check) != ""

    def statement(self, check: Check) -> str:
        """The Sid of the first statement that allows it, or empty."""
        return next((each["Sid"] for each in self.statements if _allows(each, check)), "")


def read_policy(path: Path, cluster_name: str, region: str) -> Policy:
    """The policy in a file, for a cluster."""
    text = path.read_text()
    for name, value in {
        "AWS::Partition": "aws",
        "AWS::Region": region,
        "AWS::AccountId": ACCOUNT_ID,
        "ClusterName": cluster_name,
    }.items():
        text = text.replace(f"${{{name}}}", value)
    assert "${" not in text
    return Policy(tuple(json.loads(text)["Statement"]))


def listed(value: Any) -> list[Any]:
    """A value that may be a single one, as a list."""
    return value if isinstance(value, list) else [value]


def _allows(statement: Mapping[str, Any], check: Check) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        _like(check.action, listed(statement["Action"]))
        and _like(check.resource, listed(statement["Resource"]))
        and all(
            _holds(operator, check.context.get(key), listed(values))
            for operator, conditions in statement.get("Condition", {}).items()
            for key, values in conditions.items()
        )
    )


def _holds(operator: str, given: str | list[str] | None, values: list[str]) -> bool:
    """Whether a condition holds. A key that the request lacks fails it, unless the operator says otherwise."""
    if operator == "ForAllValues:StringEquals":
        return all(each in values for each in given or ())
    if operator == "StringEqualsIfExists":
        return given is None or given in values
    if given is None:
        return False
    assert isinstance(given, str)
    if operator == "StringEquals":
        return given in values
    assert operator == "StringLike", operator
    return _like(given, values)


def _like(text: str, patterns: Iterable[str]) -> bool:
    return any(_compiled(pattern).fullmatch(text) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
