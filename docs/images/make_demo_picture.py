"""Draws docs/images/demo.svg and top.svg: one moment of the real demo, and a real `top`. Run it with `make picture`.

The same code gives the same picture: the moment is one of virtual time, the seed is fixed, and no font is fetched.
"""

import io
import re
from itertools import count
from pathlib import Path

from rich.console import Console

from dovetail.cli.demo.run import DemoOptions, Pacer, Stage, run_demo
from dovetail.cli.demo.scenario import demo_scenario
from dovetail.cli.view.demo_screen import screen
from dovetail.cli.view.plan import plan_document
from dovetail.cli.view.top import TopView, top_document, top_screen
from dovetail.core.disruption.planner import plan_disruption
from dovetail.dashboard.publisher import draw_once
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.settings import DecisionOptions

MOMENT = 36 * 60 + 45  # seconds: the cloud wants a spot machine back; it drains, and its replacement is ready
TARGET = Path(__file__).with_name("demo.svg")
TOP = Path(__file__).with_name("top.svg")
OFFICE = Path(__file__).parents[2] / "examples" / "snapshots" / "office-hours.yaml"
OPTIONS = DemoOptions(scenario=demo_scenario(), speed=120.0)


def draw() -> str:
    """The picture as SVG."""
    console = Console(
        record=True, width=124, height=34, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    ticks = count()
    pacer = Pacer(None, lambda: float(next(ticks)), lambda _seconds: None)

    def opened(stage: Stage) -> None:
        def frame(now: float) -> None:
            if now >= MOMENT:
                console.print(screen(stage, MOMENT, console), end="")
                pacer.draw = None
                pacer.stop()

        pacer.draw = frame

    run_demo(OPTIONS, pacer, lambda _entry: None, opened)
    return _svg(console, "demo")


def draw_top() -> str:
    """The screen of `dovetail top`, of the snapshot the guides look at."""
    snapshot = read_snapshot_file(OFFICE)
    plan = plan_document(plan_disruption(snapshot, thorough=True), snapshot)
    tiles, summary = draw_once(snapshot, plan, DecisionOptions(), still=True)
    console = Console(
        record=True, width=168, height=14, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(top_screen(top_document(tiles.values(), summary, TopView()), TopView(), console)[0], end="")
    return _svg(console, "top")


def _svg(console: Console, name: str) -> str:
    svg = console.export_svg(title=f"dovetail {name}", unique_id=name)
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(
        r"font-family: Fira Code, monospace", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace", svg
    )


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
    TOP.write_text(draw_top(), encoding="utf-8")
