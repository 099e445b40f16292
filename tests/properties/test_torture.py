"""A few stories in the suite itself; `make torture` tells hundreds."""

import pytest
from typer.testing import CliRunner

from dovetail.cli import torture as command
from dovetail.cli.app import app
from dovetail.controllers import garbage_collection
from dovetail.sim.torture.fault_generator import draw_story


@pytest.mark.parametrize("seed", [12, 13, 35, 37, 43, 78, 83, 110, 201, 1629])
def test_stories_that_once_broke_an_invariant_keep_them_all(seed):
    assert command.tell_seed(seed).violations == ()


def test_a_seed_is_told_and_replayed_from_the_command_line():
    outputs = [CliRunner().invoke(app, ["torture", "--seed", "1"]) for _ in range(2)]
    assert outputs[0].exit_code == 0
    assert outputs[0].output == outputs[1].output
    assert "nothing fails any more" in outputs[0].output
    assert "1 stories, 0.0 cluster-days" in outputs[0].output


def test_a_broken_invariant_is_told_with_a_short_story_that_breaks_it_again(monkeypatch):
    async def gone(*_):
        return True

    monkeypatch.setattr(garbage_collection, "nothing_is_left", lambda *_: False)
    monkeypatch.setattr(garbage_collection, "lost_claims", lambda held: held.claims)
    monkeypatch.setattr(garbage_collection.GarbageCollection, "_is_gone", gone)
    broken = command.tell(draw_story(4).only(["w0"]))
    told = command._short_story(broken)
    replay = told.partition("again: dovetail ")[2].split()
    again = CliRunner().invoke(app, replay)
    assert again.exit_code == 1
    assert f"broken: {broken.violations[0]}".split(": ", 2)[1] in again.output
