"""Unfilled placeholders of a template are one line, without the faults that follow from them."""

import pytest

from dovetail.manifest.patterns import placeholder_in
from dovetail.manifest.validation import faults_of
from manifest.corpus import KWOK_REF, pool
from manifest.ec2nodeclass_corpus import ec2_class


def filled_by_a_template():
    document = pool(
        template={
            "nodeClassRef": {**KWOK_REF, "name": "${CLASS}"},
            "requirements": [{"key": "example.com/a", "operator": "Gt", "values": ["${COUNT}"]}],
        },
        metadata={"labels": {"${KEY}": "x"}},
        limits={"cpu": "{{ .Values.cpu }}"},
        weight="${WEIGHT}",
    )
    document["metadata"]["name"] = "{{ .Release.Name }}"
    return document


def test_all_placeholders_are_one_fault():
    [fault] = faults_of(filled_by_a_template()).faults
    assert fault.path == "metadata.name"
    assert (
        "still contains a placeholder, as do 5 other fields: {{ .Release.Name }}, ${CLASS}, ${COUNT}, ${KEY},"
        in fault.problem
    )
    assert fault.problem.endswith("and 1 more")
    assert "helm template" in fault.remedy


def test_other_faults_are_still_reported():
    document = filled_by_a_template()
    document["spec"]["replicas"] = -1
    assert [fault.path for fault in faults_of(document).faults] == ["metadata.name", "spec.replicas"]


@pytest.mark.parametrize("place", ["role", "context"])
def test_a_placeholder_that_the_api_server_accepts_is_one_warning(place):
    report = faults_of(ec2_class(**{place: "x-${A}", "tags": {"a": "${B}"}}))
    assert report.faults == ()
    [warning] = report.warnings
    assert "still contains a placeholder, as does 1 other field: ${" in warning.problem


def test_free_text_may_look_like_a_placeholder():
    document = ec2_class(userData="echo ${HOME}")
    document["metadata"]["annotations"] = {"a": "{{ x }}"}
    assert faults_of(document).warnings == ()


@pytest.mark.parametrize("sign", ["{{", "{%", "${a", "$(a", "<a"])
def test_signs_that_open_and_never_close_take_linear_time(sign):
    assert placeholder_in(sign * 10_000) is None
