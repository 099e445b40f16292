"""A few torture trials as part of the test suite; `make torture` runs hundreds."""

import pytest
from typer.testing import CliRunner

from dovetail.cli import torture as command
from dovetail.cli.app import app
from dovetail.controllers import garbage_collection
from dovetail.sim.torture.fault_generator import draw_trial


@pytest.mark.parametrize("seed", [12, 13, 35, 37, 43, 78, 83, 110, 201, 1629])
def test_trials_that_once_violated_an_invariant_pass(seed):
    assert command.run_seed(seed).violations == ()


def test_the_command_line_replays_a_seed_exactly():
    outputs = [CliRunner().invoke(app, ["torture", "--seed", "1"]) for _ in range(2)]
    assert outputs[0].exit_code == 0
    assert outputs[0].output == outputs[1].output
    assert "end of faults" in outputs[0].output
    assert "1 trials, 0.0 cluster-days" in outputs[0].output


def test_a_violation_is_printed_with_a_shrunk_trial_that_replays_it(monkeypatch):
    async def gone(*_):
        return True

    monkeypatch.setattr(garbage_collection, "has_no_leftovers", lambda *_: False)
    monkeypatch.setattr(garbage_collection, "lost_claims", lambda held: held.claims)
    monkeypatch.setattr(garbage_collection.GarbageCollection, "_instance_is_gone", gone)
    violated = command.run_with_controllers(draw_trial(4).only(["w0"]))
    arguments = command._describe_shrunk(violated).partition("replay: dovetail ")[2].split()
    replayed = CliRunner().invoke(app, arguments)
    assert replayed.exit_code == 1
    assert f"violated: {violated.violations[0]}".split(": ", 2)[1] in replayed.output
