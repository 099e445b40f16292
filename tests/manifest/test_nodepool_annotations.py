"""Annotations that spell fields of a NodePool which Karpenter's CRDs drop."""

import json
from copy import deepcopy

import pytest

from dovetail.core.lifecycle.nodepool_hash import hash_annotations
from dovetail.manifest.codec import decode, from_plain, to_plain
from dovetail.manifest.validation import faults_of, validate_nodepool
from dovetail.model.annotated_fields import ANNOTATED_FIELDS, FIELD_BY_ANNOTATION
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import UnreadableObject
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from manifest.corpus import disrupted, pool

GRACE = "dovetail.sh/consolidation-grace-period"
SAVINGS = "dovetail.sh/min-savings"
SOFT = "dovetail.sh/soft-expire-after"
CONTROLS = "dovetail.sh/action-controls"
BUDGETS = "dovetail.sh/budgets"
REPAIR = "dovetail.sh/repair"


def annotated(document=None, **by_name):
    made = document or pool()
    made["metadata"]["annotations"] = by_name
    return made


def read(document):
    """Decode as the API client and as files do; both must agree."""
    value = from_plain(NODE_POOL, document)
    assert decode(NODE_POOL, json.dumps(document).encode()) == value
    return value


def faults(document):
    """The faults of an unreadable NodePool by path, the same in `validate` and at run time."""
    bad = read(document)
    assert isinstance(bad, UnreadableObject)
    found = {fault.path: fault for fault in bad.faults}
    reported = {fault.path: fault for fault in faults_of(document).faults}
    assert found.keys() <= reported.keys()
    return found


def test_every_annotation_has_the_effect_of_its_field():
    for name, field in FIELD_BY_ANNOTATION.items():
        value = json.loads(field.example) if field.is_json else field.example
        parent, _, last = field.spells.removeprefix("spec.").rpartition(".")
        spec = {parent: {last: value, "consolidateAfter": "0s"}} if parent else {last: value}
        plain = pool(**({"disruption": {"consolidateAfter": "0s"}} if parent else {}))
        spelled = read(annotated(plain, **{name: field.example}))
        assert isinstance(spelled, NodePool)
        assert spelled.spec == read(pool(**spec)).spec, name
        assert faults_of(annotated(plain, **{name: field.example})).faults == ()
        assert validate_nodepool(spelled) == ()


def test_the_example_of_every_field_is_the_value_of_an_annotation_that_the_field_lacks():
    assert {field.annotation for field in ANNOTATED_FIELDS} == {GRACE, SAVINGS, SOFT, CONTROLS, BUDGETS, REPAIR}


def test_an_annotation_causes_no_drift():
    by_name = {name: field.example for name, field in FIELD_BY_ANNOTATION.items()}
    assert hash_annotations(read(annotated(**by_name))) == hash_annotations(read(pool()))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (REPAIR, "{", "cannot be read as spec.repair"),
        (SAVINGS, "0.5", "is not a percentage such as 60%"),
        (REPAIR, "", "cannot be read as spec.repair"),
        (REPAIR, "true", "expected a JSON object"),
        (BUDGETS, "{}", "expected a JSON array"),
        (BUDGETS, "[" * 100_000, "cannot be read as spec.disruption.budgets"),
        (GRACE, "soon", "soon"),
        (SOFT, "", "duration"),
    ],
)
def test_an_annotation_that_cannot_be_read_makes_the_nodepool_unreadable_and_is_named(name, text, problem):
    found = faults(annotated(**{name: text}))
    assert list(found) == [f"metadata.annotations[{name}]"]
    assert problem in str(*found.values())


def test_a_fault_inside_an_annotation_has_its_path():
    bad = read(annotated(**{REPAIR: '{"policies": [{"conditionType": "Ready"}]}'}))
    assert [fault.path for fault in bad.faults] == [f"metadata.annotations[{REPAIR}].policies[0].toleration"]


def test_all_annotations_that_cannot_be_read_are_reported_at_once():
    assert len(faults(annotated(**{REPAIR: "x", BUDGETS: "x"}))) == 2


@pytest.mark.parametrize(
    ("name", "text", "document"),
    [
        (GRACE, "120m", pool(disruption={"consolidationGracePeriod": "2h"})),
        (SAVINGS, "060%", pool(disruption={"minSavings": "60%"})),
        (REPAIR, "{}", pool(repair={})),
        (REPAIR, '{"policies": []}', pool(repair={})),
        (CONTROLS, '{"All": {"disruptAfter": "1h"}}', disrupted(actionControls={"All": {"disruptAfter": "60m"}})),
        (CONTROLS, '{"Drift": {}}', pool(disruption={"genericPerActionControls": {"Drift": {}}})),
        (BUDGETS, '[{"nodes": "5"}]', pool(disruption={"budgets": [{"nodes": "5"}]})),
    ],
)
def test_an_annotation_that_means_the_same_as_its_field_is_accepted(name, text, document):
    assert read(annotated(deepcopy(document), **{name: text})).spec == read(document).spec


@pytest.mark.parametrize(
    ("name", "text", "document", "field"),
    [
        (GRACE, "1h", pool(disruption={"consolidationGracePeriod": "2h"}), "spec.disruption.consolidationGracePeriod"),
        (SAVINGS, "50%", pool(disruption={"minSavings": "60%"}), "spec.disruption.minSavings"),
        (SOFT, "1h", pool(disruption={"expireAfter": "Never"}), "spec.disruption.expireAfter"),
        (REPAIR, "{}", pool(repair={"defaultTolerationDuration": "1h"}), "spec.repair"),
        (CONTROLS, "{}", pool(disruption={"genericPerActionControls": {"Drift": {}}}), "genericPerActionControls"),
        (BUDGETS, '[{"nodes": "5"}]', pool(disruption={"budgets": [{"nodes": "6"}]}), "spec.disruption.budgets"),
    ],
)
def test_an_annotation_that_differs_from_its_field_is_a_fault(name, text, document, field):
    (fault,) = faults(annotated(deepcopy(document), **{name: text})).values()
    assert fault.path == f"metadata.annotations[{name}]"
    assert f"{field}, which is set too" in fault.problem
    assert fault.remedy == "keep one of them"


@pytest.mark.parametrize("written", [[{"nodes": "10%"}], [{}], None])
def test_the_budgets_that_a_crd_fills_in_count_as_absent(written):
    spec = {} if written is None else {"disruption": {"consolidateAfter": "0s", "budgets": written}}
    found = read(annotated(pool(**spec), **{BUDGETS: '[{"nodes": "2", "action": "Drift"}]'}))
    assert [(each.count, each.reasons) for each in found.budgets] == [(2, {Reason.DRIFTED})]


def test_a_merged_nodepool_written_and_read_again_is_the_same():
    by_name = {name: field.example for name, field in FIELD_BY_ANNOTATION.items()}
    once = read(annotated(**by_name))
    assert read(to_plain(NODE_POOL, once)) == once


def test_an_unknown_field_in_an_annotation_is_a_fault_since_nothing_drops_it():
    document = annotated(**{REPAIR: '{"defaultTolerationDuratoin": "1h"}'})
    path = f"metadata.annotations[{REPAIR}].defaultTolerationDuratoin"
    for found in (faults_of(document).faults, validate_nodepool(read(document))):
        assert [(fault.path, fault.remedy) for fault in found] == [(path, "did you mean defaultTolerationDuration?")]


@pytest.mark.parametrize(
    ("name", "text", "inner"),
    [
        (CONTROLS, '{"Drfit": {}}', ""),
        (CONTROLS, '{"Drift": {"budgets": [{"nodes": "x"}]}}', ".Drift.budgets[0].nodes"),
        (BUDGETS, '[{"nodes": "1", "schedule": "0 0 31 2 *", "duration": "1h"}]', "[0].schedule"),
        (GRACE, "9999999999h", ""),
    ],
)
def test_the_rules_of_a_field_hold_for_its_annotation_and_faults_name_the_annotation(name, text, inner):
    document = annotated(**{name: text})
    found = [fault.path for fault in faults_of(document).faults]
    assert found
    assert all(each.startswith(f"metadata.annotations[{name}]{inner}") for each in found)
    value = read(document)
    at_run_time = value.faults if isinstance(value, UnreadableObject) else validate_nodepool(value)
    assert [fault.path for fault in at_run_time] == found


def test_annotations_of_other_kinds_and_other_annotations_mean_nothing():
    assert read(annotated(**{"dovetail.sh/pause": "true"})).spec == read(pool()).spec


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("dovetail.sh/repairs", "dovetail.sh/repair"),
        ("dovetail.sh/consolidation-graceperiod", GRACE),
        ("dovetail.sh/expire-after", SOFT),
        ("dovetail.sh/budget", BUDGETS),
    ],
)
def test_an_annotation_that_looks_like_one_of_them_is_warned_about(key, meant):
    (warning,) = faults_of(annotated(**{key: "x"})).warnings
    assert (warning.path, warning.remedy) == (f"metadata.annotations[{key}]", f"did you mean {meant}?")


@pytest.mark.parametrize(
    "key", ["pause", "nodepool-hash", "nodeclass-state", "launch-backoff", "decision", "drift-replacement"]
)
def test_other_annotations_of_dovetail_are_not_warned_about(key):
    assert faults_of(annotated(**{f"dovetail.sh/{key}": "true"})).warnings == ()


def test_an_annotation_on_the_template_has_no_effect_and_is_warned_about():
    document = pool(metadata={"annotations": {GRACE: "1h"}})
    assert [fault.remedy for fault in faults_of(document).warnings] == [
        "move it to metadata.annotations of the NodePool"
    ]
