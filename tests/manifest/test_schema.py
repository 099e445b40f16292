"""The schemas: types, additions of each version, and agreement with the generated files."""

import re
from pathlib import Path

import pytest
import yaml

from dovetail.manifest.crd import RESOURCES, crd_of, crd_yaml
from dovetail.manifest.generate import generated
from dovetail.manifest.patterns import IN_WORDS
from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.schema_check import RULES_BY_CEL

ROOT = Path(__file__).parents[2]
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


def test_no_default_of_the_stored_version_reaches_the_disruption_block():
    """A default read from storage would appear in v1beta1 objects too."""
    defaults = {
        path: schema["default"] for path, schema in every(POOL) if "default" in schema and ".status" not in path
    }
    assert set(defaults.values()) == {"10%"}
    assert all(path.endswith(".nodes") for path in defaults)


def test_v1beta1_has_the_defaults_it_promised():
    assert at(BETA, "spec.disruption")["default"] == {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}
    assert at(BETA, "spec.disruption.expireAfter")["default"] == "720h"


@pytest.mark.parametrize("scope", KINDS, ids=str)
def test_every_field_and_every_pattern_has_a_description(scope):
    for path, schema in every(schema_of(scope)):
        if path.startswith(".metadata") or "[" in path.rpartition(".")[2]:
            continue
        assert schema.get("description"), path
        if "pattern" in schema:
            assert schema["pattern"] in IN_WORDS


@pytest.mark.parametrize("pattern", IN_WORDS)
def test_patterns_are_anchored_as_a_whole(pattern):
    """An alternative beside the anchors would be anchored on one side only."""
    assert pattern.startswith("^")
    assert pattern.endswith("$")
    depth = 0
    for sign in re.sub(r"\\.|\[[^\]]*\]", "", pattern):
        depth += (sign == "(") - (sign == ")")
        assert sign != "|" or depth > 0


def test_every_rule_can_be_checked_here_too():
    assert all((rule.holds is None) != (rule.keeps is None) for rule in RULES_BY_CEL.values())
    assert all(("oldSelf" in cel) == (rule.keeps is not None) for cel, rule in RULES_BY_CEL.items())


@pytest.mark.parametrize("scope", KINDS, ids=str)
def test_what_rules_walk_over_is_bounded(scope):
    """The API server estimates the cost of rules from these limits, and rejects a schema that may be too slow."""
    for path, schema in every(schema_of(scope)):
        if path.startswith((".status", ".metadata")) or path.endswith((".kubelet", ".annotations")):
            continue
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path
