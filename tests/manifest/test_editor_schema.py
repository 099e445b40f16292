"""The schemas for editors, judged by an independent validator."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from dovetail.manifest.editor_schema import combined_schema, editor_schemas
from manifest.corpus import disrupted, node_class, pool

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    document
    for file in sorted([*(ROOT / "examples" / "nodepools").glob("*.yaml"), *(ROOT / "examples" / "aws").glob("*.yaml")])
    for document in yaml.safe_load_all(file.read_text())
]
VALIDATOR = jsonschema.Draft7Validator(combined_schema())


def problems(document):
    return sorted(
        f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in VALIDATOR.iter_errors(document)
    )


@pytest.mark.parametrize("name", editor_schemas())
def test_each_file_is_a_schema(name):
    jsonschema.Draft7Validator.check_schema(json.loads(editor_schemas()[name]))


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_examples_are_valid(document):
    assert problems(document) == []


def test_labels_and_annotations_are_allowed():
    written = pool()
    written["metadata"] |= {"labels": {"team": "a"}, "annotations": {"dovetail.sh/repair": "{}"}}
    assert problems(written) == []


def test_a_misspelled_field_is_marked_where_it_is():
    (problem,) = problems(disrupted(consolidateAftr="30s"))
    assert problem.startswith("spec.disruption: ")
    assert "'consolidateAftr' was unexpected" in problem


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (disrupted(consolidateAfter="soon"), "spec.disruption.consolidateAfter: "),
        (disrupted(consolidateAfter=30), "spec.disruption.consolidateAfter: "),
        ({**pool(), "spec": {}}, "spec: 'template' is a required property"),
        ({"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}, ": 'metadata' is a required property"),
    ],
)
def test_a_wrong_value_is_marked_where_it_is(document, place):
    assert any(problem.startswith(place) for problem in problems(document)), problems(document)


def test_objects_of_other_kinds_and_versions_are_accepted():
    assert problems({"apiVersion": "v1", "kind": "Pod", "spec": {"anything": 1}}) == []
    assert problems({**pool(), "apiVersion": "karpenter.sh/v9", "spec": {"anything": 1}}) == []
    assert problems(node_class()) == []
