"""The live view: it shows every state, fits the terminal, and only reads."""

import io

import pytest
from rich.console import Console

from dovetail.cli.demo.run import DemoOptions, Pacer, Summary, run_demo
from dovetail.cli.demo.scenario import demo_scenario
from dovetail.cli.view.demo_screen import screen
from dovetail.core.lifecycle.registration import stage_of
from dovetail.sim.scenario.meter import Meter


class Machine:
    """A clock that only sleeping moves, and by a second whenever it is read, if asked to."""

    def __init__(self, tick=0.0):
        self.now = 0.0
        self.tick = tick
        self.naps = []

    def clock(self):
        self.now += self.tick
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds


def lived(minutes, look=None):
    """The feed of a run; `look` sees the stage at every jump of time."""
    machine = Machine(tick=1.0)
    pacer = Pacer(None, machine.clock, machine.sleep)
    entries = []

    def opened(stage):
        if look is not None:
            pacer.draw = lambda now: look(stage, now)

    run_demo(DemoOptions(scenario=demo_scenario(f"{minutes}m")), pacer, entries.append, opened)
    return entries


def test_every_state_of_a_node_is_seen():
    seen = set()
    lived(91, lambda stage, _: seen.update(stage_of(each) for each in stage.parts.manager.state.cluster_nodes()))
    assert seen == {"Launching", "Registering", "NotReady", "Ready", "Draining", "Lost"}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 45), (40, 12)])
def test_the_screen_fits_the_terminal(width, height):
    frames = []

    def look(stage, now):
        if now // 60 != len(frames):
            return
        console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
        console.print(screen(stage, now, console))
        frames.append(console.file.getvalue())

    lived(43, look)
    assert frames
    for frame in frames:
        lines = frame.rstrip("\n").split("\n")
        assert len(lines) <= height
        assert max(map(len, lines)) <= width
    if width >= 80:
        assert all(part in frames[-1] for part in ("Ready", "t4g.2xlarge", "general-", "$", "web", "Decisions"))


def test_drawing_changes_nothing():
    def look(stage, now):
        console = Console(file=io.StringIO(), width=80, height=24)
        console.print(screen(stage, now, console))

    assert lived(2, look) == lived(2)


def test_the_pacer_keeps_the_chosen_speed():
    machine = Machine()
    pacer = Pacer(60.0, machine.clock, machine.sleep)
    for when in (0.0, 30.0, 600.0):
        pacer(when)
    assert machine.now == pytest.approx(10.0)
    assert max(machine.naps) <= pacer.frame


def test_frames_come_while_time_stands_still():
    machine, drawn = Machine(), []
    pacer = Pacer(60.0, machine.clock, machine.sleep, draw=drawn.append)
    pacer(0.0)
    pacer(120.0)
    assert len(drawn) == pytest.approx(2.0 / pacer.frame, abs=2)
    assert drawn == sorted(drawn)


def test_a_stopped_pacer_waits_no_more_and_calls_on_stop():
    machine, told = Machine(), []
    pacer = Pacer(1.0, machine.clock, machine.sleep, on_stop=lambda: told.append("stop"))
    pacer.stop()
    pacer(1000.0)
    assert machine.now == 0.0
    assert told == ["stop"]


def test_percentiles_are_waits_of_actual_pods():
    meter = Meter(waits=[float(number) for number in range(1, 101)])
    waits = Summary(0, "generic", 3600.0, False, meter).as_data()["pods"]["pendingSeconds"]
    assert waits == {"p50": 50.0, "p95": 95.0, "max": 100.0}
