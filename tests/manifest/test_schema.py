"""The schemas: types, additions of each version, and agreement with the generated files."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dovetail.manifest.crd import RESOURCES, crd_of, crd_yaml
from dovetail.manifest.generate import generated
from dovetail.manifest.patterns import (
    ACCEPTED_AMI_ID,
    ACCEPTED_SCHEDULE,
    ACCEPTED_SECURITY_GROUP_ID,
    ACCEPTED_SUBNET_ID,
    IN_WORDS,
)
from dovetail.manifest.schema import KINDS, Scope, schema_of, strict_schema_of
from dovetail.manifest.schema_check import RULES_BY_TEXT
from manifest.karpenter_crds import FACTS, facts_of

ROOT = Path(__file__).parents[2]
AS_IN_KARPENTER = (ACCEPTED_AMI_ID, ACCEPTED_SCHEDULE, ACCEPTED_SECURITY_GROUP_ID, ACCEPTED_SUBNET_ID)
POOL, BETA = schema_of(Scope("NodePool", "v1")), schema_of(Scope("NodePool", "v1beta1"))


def at(schema, path):
    for name in path.split("."):
        schema = (
            schema["items"]
            if name == "[]"
            else schema["additionalProperties"]
            if name == "*"
            else schema["properties"][name]
        )
    return schema


def every(schema, path=""):
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from every(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from every(schema[name], f"{path}[{name}]")


@pytest.mark.parametrize("path", generated())
def test_generated_files_are_up_to_date(path):
    assert (ROOT / path).read_text(encoding="utf-8") == generated()[path], "run python -m dovetail.manifest.generate"


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind.name)
def test_a_crd_is_printed_the_same_every_time_and_reads_back(resource):
    assert crd_yaml(resource) == crd_yaml(resource)
    assert yaml.safe_load(crd_yaml(resource)) == crd_of(resource)


def test_v1_is_stored_and_both_versions_are_served():
    versions = crd_of(RESOURCES[0])["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1", True, True),
        ("v1beta1", True, False),
    ]


def test_both_versions_have_the_same_fields():
    assert [path for path, _ in every(POOL)] == [path for path, _ in every(BETA)]


def test_v1beta1_has_the_defaults_it_promised():
    """Its soft expiration is not joined by the hard one of v1, which is filled in when the object is read."""
    assert at(BETA, "spec.disruption")["default"] == {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}
    assert at(BETA, "spec.disruption.expireAfter")["default"] == "720h"
    assert at(BETA, "spec.template.spec.expireAfter")["default"] == "Never"
    assert "default" not in at(POOL, "spec.disruption.expireAfter")


def test_the_strict_schema_is_never_wider():
    """What `validate` accepts, the API server accepts."""
    for scope in KINDS:
        strict = dict(every(strict_schema_of(scope)))
        for path, schema in every(schema_of(scope)):
            kept = {name: value for name, value in schema.items() if name in ("type", "enum", "required", "default")}
            assert kept.items() <= strict[path].items(), path
            for rule in schema.get("x-kubernetes-validations", ()):
                assert rule in strict[path]["x-kubernetes-validations"]


@pytest.mark.parametrize("scope", KINDS, ids=str)
def test_every_field_and_every_pattern_has_a_description(scope):
    for path, schema in every(schema_of(scope)):
        if path.startswith(".metadata") or "[" in path.rpartition(".")[2]:
            continue
        assert schema.get("description"), path
        if "pattern" in schema:
            assert schema["pattern"] in IN_WORDS


@pytest.mark.parametrize("pattern", [pattern for pattern in IN_WORDS if pattern not in AS_IN_KARPENTER])
def test_patterns_are_anchored_as_a_whole(pattern):
    """An alternative beside the anchors would be anchored on one side only."""
    assert pattern.startswith("^")
    assert pattern.endswith("$")
    depth = 0
    for sign in re.sub(r"\\.|\[[^\]]*\]", "", pattern):
        depth += (sign == "(") - (sign == ")")
        assert sign != "|" or depth > 0


def test_every_rule_can_be_checked_here_too():
    assert all((rule.holds is None) != (rule.keeps is None) for rule in RULES_BY_TEXT.values())
    assert all(("oldSelf" in cel) == (rule.keeps is not None) for (cel, _), rule in RULES_BY_TEXT.items())


@pytest.mark.parametrize("scope", KINDS, ids=str)
def test_what_rules_walk_over_is_bounded(scope):
    """The API server estimates the cost of rules from these limits, and rejects a schema that may be too slow."""
    theirs = json.loads(FACTS.read_text())[scope.kind]
    for path, schema in facts_of(schema_of(scope)).items():
        if path in theirs:
            continue  # as bounded as there
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if path + "{}" in facts_of(schema_of(scope)):
            assert "maxProperties" in schema, path
