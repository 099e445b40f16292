"""Traces are parsed strictly; all faults are reported with their rows."""

import pytest

from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.trace import MOST_FAULTS, read_trace

HEADER = "name,arrive,leave,cpu,memory\n"


def faults(text, name="t.csv"):
    with pytest.raises(ScenarioInvalid) as caught:
        read_trace(text, name)
    return [str(fault) for fault in caught.value.faults]


def test_rows_are_read_in_the_order_of_arrival():
    first, second = read_trace(HEADER + "b,90m,,2,4Gi\na,10,1h,500m,1Gi\n", "t.csv")
    assert (first.name, first.arrive, first.leave, first.cpu) == ("a", 10.0, 3600.0, "500m")
    assert (second.name, second.arrive, second.leave, second.pods) == ("b", 5400.0, None, 1)


def test_json_and_csv_give_the_same_result():
    text = '{"arrivals": [{"name": "a", "arrive": 10, "leave": null, "cpu": "1", "memory": "1Gi", "pods": 3}]}'
    (group,) = read_trace(text, "t.json")
    assert (group.pods, group.leave) == (3, None)


CONSTRAINED = "name,arrive,cpu,memory,pods,priority,node_selector,tolerations,annotations\n"


def test_constraints_are_pairs():
    (group,) = read_trace(CONSTRAINED + "a,0,1,1Gi,4,100,x=1;y=2,gpu;team=a,karpenter.sh/do-not-disrupt=4h\n", "t.csv")
    assert group.node_selector == {"x": "1", "y": "2"}
    assert group.tolerations == {"gpu": "", "team": "a"}
    assert group.annotations == {"karpenter.sh/do-not-disrupt": "4h"}
    assert (group.pods, group.priority) == (4, 100)


def test_json_may_write_pairs_as_mappings():
    row = '{"name": "a", "arrive": 0, "cpu": 1, "memory": "1Gi", "node_selector": {"x": "1"}}'
    (group,) = read_trace(f"[{row}]", "t.json")
    assert group.node_selector == {"x": "1"}


def test_a_mapping_is_not_taken_apart_and_a_list_of_tolerations_is():
    pairs = '"annotations": {"x": "1;y=2"}, "tolerations": ["b", "c=d"]'
    (group,) = read_trace(f'[{{"name": "a", "arrive": 0, "cpu": 1, "memory": "1Gi", {pairs}}}]', "t.json")
    assert group.annotations == {"x": "1;y=2"}
    assert group.tolerations == {"b": "", "c": "d"}


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("name,arrive,cpu,memory,arrive\na,0,1,1Gi,5\n", "t.csv", "column arrive occurs twice"),
        ('[{"name": "a", "name": "b", "arrive": 0, "cpu": 1, "memory": 1}]', "t.json", "'name' occurs twice"),
        ('{"arrivals": [], "arivals": []}', "t.json", "arivals: is not known"),
        ('[{"name": "a", "arrive": 0, "cpu": [1], "memory": 1}]', "t.json", "cpu: must be one value, got [1]"),
        ('[{"name": "a", "arrive": 0, "cpu": 1, "memory": 1, "tolerations": "=x"}]', "t.json", "must be of the form"),
    ],
)
def test_ambiguous_input_is_refused(text, name, why):
    assert any(why in line for line in faults(text, name))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("a,0,1,1Gi,0,,,,", "pods: must be at least 1, got 0"),
        ("a,0,1,1Gi,1.5,,,,", "pods: must be a whole number, got '1.5'"),
        ("a,0,1,1Gi,,high,,,", "priority: must be a whole number, got 'high'"),
        ("a,0,-1,1Gi,,,,,", "cpu: '-1' is negative"),
        ("a b,0,1,1Gi,,,,,", "name: 'a b' is not a valid name"),
        ("a,0,1,1Gi,,,arch,,", "node_selector: must be of the form key=value;key=value, got 'arch'"),
        ("a,0,1,1Gi,,,,,,more", "has more values than there are columns"),
    ],
)
def test_an_invalid_row_is_a_fault(row, why):
    (reported,) = faults(CONSTRAINED + row + "\n")
    assert f"t.csv: line 2: {why}" in reported


def test_leave_must_be_after_arrive():
    (reported,) = faults(HEADER + "a,10m,5m,1,1Gi\n")
    assert "leave: 5m is not after arrive, 10m" in reported


def test_missing_and_invalid_values_are_reported_for_every_row():
    reported = faults(HEADER + "a,,1h,1,1Gi\nb,5,,x,1Gi\nb,nan,,1,1Gi\nc,1,2,1,\n")
    assert [line.split(":")[1].strip() for line in reported] == ["line 2", "line 3", "line 4", "line 4", "line 5"]
    assert "arrive is missing" in reported[0]


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("name,cpu\n", "t.csv", "column arrive is missing"),
        ("name,arrive,cpu,memory,colour\n", "t.csv", "column 'colour' is not known"),
        (HEADER, "t.csv", "has no rows"),
        ("{", "t.json", "is not JSON"),
        ('{"rows": []}', "t.json", "must be a list of arrivals"),
    ],
)
def test_a_document_that_is_not_a_trace_is_a_fault(text, name, why):
    assert any(why in line for line in faults(text, name))


def test_a_long_list_of_faults_is_truncated():
    reported = faults(HEADER + ",1,,1,1Gi\n" * 200)
    assert len(reported) == MOST_FAULTS + 1
    assert "more faults" in reported[-1]


@pytest.mark.parametrize("ending", ["\r", "\r\n", "\n"])
def test_lines_of_a_csv_may_end_in_any_way(ending):
    text = ending.join(["name,arrive,cpu,memory", "a,0,1,1Gi", "b,5,1,1Gi"])
    assert [each.name for each in read_trace(text, "trace.csv")] == ["a", "b"]


def test_a_field_that_is_too_long_is_a_fault_of_its_line():
    with pytest.raises(ScenarioInvalid, match=r"trace.csv: line \d+: is not CSV"):
        read_trace("name,arrive,cpu,memory\n" + "x" * 200_000 + ",0,1,1Gi\n", "trace.csv")
