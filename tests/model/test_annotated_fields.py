"""The annotations of fields that Karpenter's CRDs drop, and what a NodePool or an installed CRD lacks of them."""

import json
from pathlib import Path

import pytest

from dovetail.manifest.codec import from_plain
from dovetail.manifest.schema import Scope, schema_of
from dovetail.model.annotated_fields import (
    ANNOTATED_FIELDS,
    LAST_APPLIED,
    annotation_for,
    dropped_fields,
    missing_in,
)
from dovetail.model.kinds import NODE_POOL
from manifest.corpus import pool

REPAIR = {"defaultTolerationDuration": "15m"}
CASES = {
    "spec.repair": {"repair": REPAIR},
    "spec.disruption.consolidationGracePeriod": {"disruption": {"consolidationGracePeriod": "2h"}},
    "spec.disruption.minSavings": {"disruption": {"minSavings": "60%"}},
    "spec.disruption.expireAfter": {"disruption": {"expireAfter": "24h"}},
    "spec.disruption.actionControls": {"disruption": {"actionControls": {"Drift": {}}}},
    "spec.disruption.genericPerActionControls": {"disruption": {"genericPerActionControls": {"Drift": {}}}},
    "spec.disruption.budgets[].action": {
        "disruption": {"budgets": [{"nodes": "1"}, {"nodes": "1", "action": "Drift"}]}
    },
}


def stored(applied=None, annotations=None, **spec):
    """A NodePool of the cluster; `applied` is what kubectl applied last."""
    made = pool(**spec)
    noted = {LAST_APPLIED: applied if isinstance(applied, str) else json.dumps(applied)} if applied else {}
    made["metadata"]["annotations"] = {**noted, **(annotations or {})}
    return from_plain(NODE_POOL, made)


def test_every_annotated_field_has_a_case():
    assert set(CASES) == {field.path for field in ANNOTATED_FIELDS}


@pytest.mark.parametrize("path", CASES)
def test_the_annotation_of_a_field_has_its_value(path):
    field = next(each for each in ANNOTATED_FIELDS if each.path == path)
    written = annotation_for(path.replace("[]", "[1]"), pool(**CASES[path]))
    name, _, text = written.partition(": ")
    assert name == field.annotation
    document = pool()
    document["metadata"]["annotations"] = {name: text.strip("'")}
    spec = from_plain(NODE_POOL, document).spec
    again = from_plain(NODE_POOL, pool(**CASES[path])).spec
    assert (spec.repair, spec.disruption.budgets) == (again.repair, again.disruption.budgets)


def test_a_field_of_karpenter_has_no_annotation():
    assert annotation_for("spec.disruption.budgets[0].nodes", pool()) == ""


@pytest.mark.parametrize("path", CASES)
def test_a_requested_field_that_the_nodepool_lacks_was_dropped(path):
    (fault,) = dropped_fields(stored(applied=pool(**CASES[path])))
    assert fault.path == path


@pytest.mark.parametrize("path", CASES)
def test_a_field_that_the_nodepool_has_was_not_dropped(path):
    applied = pool(**CASES[path])
    assert dropped_fields(stored(applied=applied, **CASES[path])) == ()


def test_a_field_that_an_annotation_spells_is_not_missed():
    annotation = {"dovetail.sh/repair": json.dumps(REPAIR)}
    assert dropped_fields(stored(applied=pool(repair=REPAIR), annotations=annotation)) == ()


@pytest.mark.parametrize("applied", [None, "{", "3", "[" * 100_000, json.dumps({"spec": 3})])
def test_without_a_readable_last_applied_manifest_nothing_is_known(applied):
    assert dropped_fields(stored(applied=applied)) == ()


def test_our_crd_has_every_field_and_a_crd_without_one_lacks_it():
    schema = schema_of(Scope("NodePool", "v1"))
    assert missing_in(schema) == ()
    spec = {**schema["properties"]["spec"]["properties"]}
    del spec["repair"]
    without = {"properties": {"spec": {"properties": spec}}}
    assert [field.path for field in missing_in(without)] == ["spec.repair"]
    assert missing_in({}) == ANNOTATED_FIELDS


@pytest.mark.parametrize("page", ["docs/guides/migrate-from-karpenter.md", "docs/reference/api.md"])
def test_every_field_is_documented_with_its_annotation_and_example(page):
    lines = (Path(__file__).parents[2] / page).read_text(encoding="utf-8").splitlines()
    for field in ANNOTATED_FIELDS:
        place = field.path.partition("[]")[0].rpartition(".")[2]
        assert any(all(word in line for word in (place, field.annotation, field.example)) for line in lines), field.path
