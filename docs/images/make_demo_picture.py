"""Draws docs/images/demo.svg: one moment of the real demo, through the real view. Run it with `make picture`.

The same code gives the same picture: the moment is one of virtual time, the seed is fixed, and no font is fetched.
"""

import io
import re
from itertools import count
from pathlib import Path

from rich.console import Console

from dovetail.cli.story.pace import Pacer
from dovetail.cli.story.performance import Plan, Stage, perform
from dovetail.cli.story.script import load_nodepools
from dovetail.cli.view.screen import screen

MOMENT = 41 * 60 + 3  # seconds: a burst has been served, and somebody has just deleted a node
TARGET = Path(__file__).with_name("demo.svg")
PLAN = Plan(seconds=7200.0, speed=120.0, seed=0, catalog="realistic", nodepools=load_nodepools())


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

    perform(PLAN, pacer, lambda _entry: None, opened)
    svg = console.export_svg(title="dovetail demo", unique_id="demo")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(
        r"font-family: Fira Code, monospace", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace", svg
    )


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
