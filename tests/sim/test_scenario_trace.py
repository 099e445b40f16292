"""Traces are read strictly; holes are told row by row."""

import pytest

from dovetail.sim.scenario.document import ScenarioInvalid
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


def test_json_says_the_same():
    text = '{"arrivals": [{"name": "a", "arrive": 10, "leave": null, "cpu": "1", "memory": "1Gi", "pods": 3}]}'
    (group,) = read_trace(text, "t.json")
    assert (group.pods, group.leave) == (3, None)


def test_holes_and_nonsense_are_told_for_every_row():
    told = faults(HEADER + "a,,1h,1,1Gi\nb,5,,x,1Gi\nb,nan,,1,1Gi\nc,1,2,1,\n")
    assert [line.split(":")[1].strip() for line in told] == ["line 2", "line 3", "line 4", "line 4", "line 5"]
    assert "arrive is missing" in told[0]


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
def test_what_is_no_trace_is_said(text, name, why):
    assert any(why in line for line in faults(text, name))


def test_a_long_list_of_faults_ends():
    told = faults(HEADER + ",1,,1,1Gi\n" * 200)
    assert len(told) == MOST_FAULTS + 1
    assert "more faults" in told[-1]
