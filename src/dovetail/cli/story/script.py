"""The story as it is written: steps in virtual time, and the manifests they speak of, from the package's own files.

A step scales Deployments, runs a Job, or does to a node what happens to nodes. After its length the story starts again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import count
from typing import Any, Literal

import yaml

from dovetail.manifest.documents import read_documents
from dovetail.model.duration import Duration

Plain = dict[str, Any]
Act = Literal["", "delete-node", "lose-instance", "change-template", "reclaim-spot", "deadlock-kernel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """What happens at one moment of the story."""

    at: float  # seconds from the start of the story
    title: str
    scale: Mapping[str, int] = field(default_factory=dict)
    run: str = ""  # the name of a Job
    act: Act = ""


@dataclass(frozen=True, slots=True)
class DemoStory:
    """The steps in order, and after how many seconds they begin again."""

    length: float
    steps: tuple[StoryStep, ...]

    def moments(self) -> Iterator[tuple[float, int, StoryStep]]:
        """When each step is due, in which round, for ever."""
        for round_number in count():
            for step in self.steps:
                yield round_number * self.length + step.at, round_number + 1, step


def load_story() -> DemoStory:
    """The shipped story."""
    written = yaml.safe_load(_text("story.yaml"))
    steps = tuple(StoryStep(**{**step, "at": _seconds(step["at"])}) for step in written["steps"])
    return DemoStory(_seconds(written["length"]), steps)


def load_nodepools() -> tuple[Plain, ...]:
    """The shipped NodePools and their class."""
    return _documents("nodepools.yaml")


def load_workloads() -> tuple[Plain, ...]:
    """What the story runs."""
    return _documents("workloads.yaml")


def _documents(name: str) -> tuple[Plain, ...]:
    return tuple(document.content for document in read_documents(_text(name), name))


def _text(name: str) -> str:
    return resources.files("dovetail.cli.story").joinpath(name).read_text(encoding="utf-8")


def _seconds(text: str) -> float:
    return Duration.parse(text).span.total_seconds()
