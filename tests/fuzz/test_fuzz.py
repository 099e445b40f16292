"""Every reader of outside input on seeded mutations: no traceback, no hang, nothing unsafe to show, no 500.

The cases are the same in every run. `make fuzz SECONDS=600 SEED=n` tries others for longer; see docs/development.
"""

import logging

import pytest

from fuzz.engine import Target, TooSlow, failure_of, input_of, minimized, time_limit, try_case
from fuzz.targets import TARGETS

SEED = 15


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_mutation_breaks_a_reader(name):
    target = TARGETS[name]
    for case in range(target.cases):
        found = try_case(target, SEED, case)
        assert found is None, f"\n{found}"


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_case_is_known_by_its_seed_and_number(name):
    target = TARGETS[name]
    assert input_of(target, 1, 2) == input_of(target, 1, 2)
    assert len({input_of(target, 1, case) for case in range(20)}) > 10, "cases differ"


def _breaks_on_x(content: bytes) -> None:
    if b"x" in content:
        raise KeyError("x")
    if b"y" in content:
        raise ValueError("y")


def test_what_breaks_is_found_and_made_smaller():
    target = Target("example", lambda random: b"abc" * 50 + b"x" + random.randbytes(3) + b"def" * 50, _breaks_on_x)
    found = try_case(target, 0, 0)
    assert found.content == b"x"
    assert "KeyError" in found.error
    assert "make fuzz TARGET=example SEED=0 CASE=0" in str(found)
    assert minimized(target, b"aaxaay", "KeyError") == b"x"


def test_a_case_without_end_is_a_finding(monkeypatch):
    monkeypatch.setattr("fuzz.engine.CPU_SECONDS", 0.05)

    def forever(_content):
        while True:
            pass

    assert "TooSlow" in failure_of(Target("example", lambda _: b"", forever), b"")
    with pytest.raises(TooSlow), time_limit():
        forever(b"")
