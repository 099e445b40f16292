"""Scenarios are read strictly: every fault at once, with its path."""

import pickle
from datetime import UTC, datetime

import pytest

from dovetail.sim.scenario.document import read_scenario
from dovetail.sim.scenario.parsing import ScenarioInvalid, parse_span, share


def scenario(**spec):
    return {"apiVersion": "dovetail.sh/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}


def faults(document):
    with pytest.raises(ScenarioInvalid) as caught:
        read_scenario(document, "file")
    return {fault.path: fault.problem for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("text", "hours"), [("36h", 36), ("2d", 48), ("1d12h", 36), ("90m", 1.5), ("0", 0), ("0d", 0), ("1d30m", 24.5)]
)
def test_durations_may_have_days(text, hours):
    assert parse_span(text).total_seconds() == hours * 3600


@pytest.mark.parametrize("text", ["", "d", "1.5d", "2d2", "-1h", "1w", "2 days"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - any of several texts
        parse_span(text)


def test_a_scenario_has_defaults():
    read = read_scenario(scenario(), "file")
    assert (read.name, read.seed, read.catalog, read.lasts.seconds) == ("s", 0, "realistic", 7 * 86400)
    assert read.start == datetime(2026, 1, 5, tzinfo=UTC)


def test_all_faults_of_all_parts_are_reported():
    found = faults(
        scenario(
            fro=1,
            seed="x",
            workloads=[
                {"name": "a", "replicas": 1, "daily": {"low": 5, "high": 1}},
                {"name": "b", "cpu": "much", "replicas": 1},
                {"name": "c", "runs": {"every": "1h", "lasts": 5}},
                {"name": "d", "daily": {"low": 1, "high": 2, "peak": "25:00"}},
                {"name": "d", "replicas": -1},
                {"nam": "e"},
            ],
            events=[{"at": "1h"}, {"at": "1h", "fail": {"nodes": "many"}}, {"at": "soon", "fail": {}}],
        )
    )
    assert set(found) == {
        "spec.fro",
        "spec.seed",
        "spec.workloads[0]",
        "spec.workloads[0].daily",
        "spec.workloads[1].cpu",
        "spec.workloads[2].runs.lasts",
        "spec.workloads[3].daily.peak",
        "spec.workloads[4].name",
        "spec.workloads[4].replicas",
        "spec.workloads[5]",
        "spec.workloads[5].nam",
        "spec.workloads[5].name",
        "spec.events[0]",
        "spec.events[1].fail.nodes",
        "spec.events[2].at",
    }


def test_all_faults_of_one_part_are_reported():
    """One field that cannot be read hides none of the others."""
    work = {"name": "a", "cpu": "much", "memory": "-1Gi", "replicas": -1, "labels": {"a": 1}, "colour": "red"}
    generated = {"nodes": 0, "pods": "x", "filled": "0%", "nodepools": {"a": 0}, "mix": [{"cpu": 1}, 5]}
    found = faults(scenario(workloads=[work, work], generate=generated, snapshot="s.yaml"))
    assert set(found) == {
        "spec.workloads[1].name",
        "spec.generate",
        *(
            f"spec.workloads[{at}].{field}"
            for at in (0, 1)
            for field in ("cpu", "memory", "replicas", "labels.a", "colour")
        ),
        *(f"spec.generate.{field}" for field in ("nodes", "pods", "filled", "nodepools.a", "mix[0].memory", "mix[1]")),
    }


def test_an_unknown_field_comes_with_a_suggestion():
    found = faults(scenario(workload=[], events=[{"at": "1h", "interrupt": {"node": 1}}], xyz=1))
    assert found["spec.workload"] == "is not known; did you mean workloads?"
    assert found["spec.events[0].interrupt.node"] == "is not known; did you mean nodes?"
    assert "fields are catalog, events, for," in found["spec.xyz"]


def test_faults_can_be_pickled():
    with pytest.raises(ScenarioInvalid) as caught:
        read_scenario(scenario(seed="x", fro=1), "file")
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults  # noqa: S301 - our own


def test_a_document_that_is_not_a_scenario_is_a_fault():
    assert faults([1]) == {"": "a scenario is a mapping with apiVersion, kind and spec, got [1]"}
    assert set(faults({"apiVersion": "v1", "kind": "Pod", "status": {}})) == {"apiVersion", "kind", "status"}


@pytest.mark.parametrize(("written", "number"), [(3, 3), ("3", 3), ("10%", 2), ("0%", 0), ("100%", 15), ("x", None)])
def test_nodes_are_a_number_or_a_percentage_rounded_up(written, number):
    assert share(written, 15) == number


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ({"fail": {"choose": "oldest"}}, ".fail.choose"),
        ({"setCondition": {"type": "Ready", "status": "Maybe"}}, ".setCondition.status"),
        ({"setCondition": {"nodes": "many", "type": "Ready"}}, ".setCondition.nodes"),
        ({"setCondition": {}}, ".setCondition.type"),
        ({"scale": {"web": -1}}, ".scale.web"),
        ({"fail": {}, "noise": 0.1}, ".noise"),
        ({"scale": {"web": 1}, "noise": 2}, ".noise"),
        ({"runJob": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}, ".runJob"),
        ({"fail": {}, "vanish": {}}, ""),
    ],
)
def test_an_event_is_checked(event, path):
    assert list(faults(scenario(events=[{"at": "1h", **event}]))) == [f"spec.events[0]{path}"]
