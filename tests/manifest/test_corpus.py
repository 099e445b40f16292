"""Every manifest of the corpus gets its expected verdict."""

from pathlib import Path

import pytest

from dovetail.manifest.documents import read_documents
from dovetail.manifest.validation import faults_of, read
from dovetail.model.ec2nodeclass import MetadataOptions
from manifest.corpus import CASES
from manifest.ec2nodeclass_corpus import EC2_CASES, ec2_class
from manifest.seed_examples import EXAMPLES, JOB, NODE, PODS

EXAMPLES_DIR = Path(__file__).parents[2] / "examples"
EXAMPLE_FILES = [*EXAMPLES_DIR.glob("nodepools/*.yaml"), *EXAMPLES_DIR.glob("aws/*.yaml")]


@pytest.mark.parametrize("case", [*EXAMPLES, *CASES, *EC2_CASES], ids=str)
def test_each_manifest_gets_its_verdict(case):
    report = faults_of(case.document)
    shown = "\n".join(map(str, report.faults))
    if case.fault:
        assert case.fault in shown
    else:
        assert shown == ""
        read(case.document)


@pytest.mark.parametrize("document", [*PODS, NODE], ids=lambda document: document["metadata"]["name"])
def test_pods_and_nodes_with_protection_are_read(document):
    report = faults_of(document)
    assert report.valid
    assert report.warnings == ()


def test_a_job_is_skipped():
    report = faults_of(JOB)
    assert report.valid
    assert "skipped" in report.note
    assert report.warnings == ()


@pytest.mark.parametrize("role", ["nodes-${CLUSTER}", "$ROLE"])
def test_a_placeholder_in_a_node_class_is_warned_about(role):
    [warning] = faults_of(ec2_class(role=role)).warnings
    assert warning.path == "spec.role"
    assert "placeholder" in warning.problem


def test_absent_options_mean_what_their_version_promised():
    """One hop in v1, two in v1beta1: a stored object must keep its meaning in both versions."""
    hops = {}
    for version in ("v1", "v1beta1"):
        _, value = read(ec2_class(version))
        options = value.spec.metadata_options or MetadataOptions()
        hops[version] = options.http_put_response_hop_limit
    assert hops == {"v1": 1, "v1beta1": 2}


def test_names_in_the_corpus_are_unique():
    names = [case.name for case in [*EXAMPLES, *CASES, *EC2_CASES]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", sorted(EXAMPLE_FILES), ids=lambda path: path.name)
def test_our_examples_are_without_fault_or_warning(path):
    for document in read_documents(path.read_text(encoding="utf-8"), path.name):
        report = faults_of(document.content)
        assert (document.faults, report.faults, report.warnings) == ((), (), ())
