"""A scenario as people write it: what the cluster starts with, what runs on it and what happens to it.

Times in a scenario count from its start: `90m`, `36h`, `2d`, `1d12h`. Objects are plain Kubernetes manifests; whether
a cluster would take them is not looked at here.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec

from dovetail.model.kube_object import Fault
from dovetail.model.labels import CAPACITY_TYPES
from dovetail.model.resources import Quantity
from dovetail.sim.scenario.parsing import (
    Part,
    Percent,
    Plain,
    ScenarioInvalid,
    Span,
    Stretch,
    aware,
    header_faults,
    read_part,
    share,
)
from dovetail.sim.virtual_loop import EPOCH

API_VERSION = "dovetail.sh/v1alpha1"
KIND = "Scenario"

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Count = Annotated[int, msgspec.Meta(ge=0)]
Some = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
CHOICES = ("random", "busiest")
ROUND = "$(round)"


class Turn(Part, frozen=True):
    """From `at` on, this many replicas."""

    at: Span
    replicas: Count


class Daily(Part, frozen=True):
    """Replicas that swing once a day between two numbers, highest at `peak` (UTC); weekends may be quieter."""

    low: Count
    high: Count
    peak: str = "14:00"
    every: Stretch = msgspec.field(default_factory=lambda: Stretch("15m"))
    weekend: Amount = 1.0
    noise: Amount = 0.0

    def check(self) -> Iterable[tuple[str, str]]:
        """Low is low, and the peak is a time of day."""
        if self.low > self.high:
            yield "", f"low {self.low} is above high {self.high}; swap them"
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", self.peak):
            yield "peak", f"must be a time of day such as 14:00, got {self.peak!r}"


class Runs(Part, frozen=True):
    """A Job started again and again: how often, how long its pods run, and how many there are."""

    every: Stretch
    lasts: Span
    pods: Some = 1


class Workload(Part, frozen=True):
    """Pods of one kind. Exactly one of `replicas`, `turns`, `daily`, `runs` says how many there are."""

    one_of: ClassVar[tuple[str, ...]] = ("replicas", "turns", "daily", "runs")

    name: str
    namespace: str = "default"
    cpu: Quantity = Quantity.of("1")
    memory: Quantity = Quantity.of("1Gi")
    replicas: Count | None = None
    turns: tuple[Turn, ...] = ()
    daily: Daily | None = None
    runs: Runs | None = None
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    pod: dict[str, Any] = {}
    max_unavailable: int | str | None = None

    def check(self) -> Iterable[tuple[str, str]]:
        """It can be called that in a cluster, and its budget is one."""
        for field, text in (("name", self.name), ("namespace", self.namespace)):
            if not NAME.fullmatch(text):
                yield field, f"must be small letters, digits and dashes, at most 63, got {text!r}"
        yield from _allowed(self.max_unavailable)


def _allowed(unavailable: int | str | None) -> Iterable[tuple[str, str]]:
    """What a PodDisruptionBudget may allow."""
    written = "0" if unavailable is None else str(unavailable)
    if not re.fullmatch(r"\d+|\d{1,2}%|100%", written):
        yield "maxUnavailable", f"must be a number or a share from 0% to 100%, got {unavailable!r}"


class ObjectPatch(Part, frozen=True):
    """A merge patch of one object by kind and name, or of every object of the kind when no name is given.

    `$(round)` in a text of the patch is the number of the time an event happens: 1 at first, then 2.
    """

    kind: str
    name: str = ""
    namespace: str = ""
    patch: dict[str, Any] = {}


def numbered(written: Any, round_number: int) -> Any:
    """A patch with the number of the round in place of `$(round)`."""
    if isinstance(written, dict):
        return {key: numbered(value, round_number) for key, value in written.items()}
    if isinstance(written, list):
        return [numbered(value, round_number) for value in written]
    return written.replace(ROUND, str(round_number)) if isinstance(written, str) else written


class NodeSelection(Part, frozen=True):
    """Nodes something happens to: a number of them, or a share such as `10%`, at random by the seed, or the busiest.

    They are ready and stay, unless `draining` asks for those that are on their way out.
    """

    nodes: int | str = 1
    capacity_type: str = ""
    nodepool: str = ""
    draining: bool = False
    choose: str = "random"

    def check(self) -> Iterable[tuple[str, str]]:
        """A number or a share."""
        number = share(self.nodes, 100)
        over = isinstance(self.nodes, str) and self.nodes.endswith("%") and (number or 0) > 100
        if number is None or over or (isinstance(self.nodes, int) and self.nodes < 0):
            yield "nodes", f"must be a number or a share such as 10%, got {self.nodes!r}"
        if self.capacity_type not in {"", *CAPACITY_TYPES}:
            yield "capacityType", f"must be one of {', '.join(CAPACITY_TYPES)}, got {self.capacity_type!r}"
        if self.choose not in CHOICES:
            yield "choose", f"must be one of {', '.join(CHOICES)}, got {self.choose!r}"


class NodeCondition(NodeSelection, kw_only=True, frozen=True):
    """Nodes whose condition of this type gets a new status, as an agent on the node would report it."""

    type: str
    status: str = "True"
    reason: str = "Staged"

    def check(self) -> Iterable[tuple[str, str]]:
        """The status is one that Kubernetes knows."""
        yield from super().check()
        if self.status not in {"True", "False", "Unknown"}:
            yield "status", f"must be one of True, False, Unknown, got {self.status!r}"


class ScenarioEvent(Part, frozen=True):
    """Something that happens at one instant, or again and again. `title` says to people what it is."""

    one_of: ClassVar[tuple[str, ...]] = (
        *("interrupt", "fail", "vanish", "deleteNodes", "setCondition", "patch", "apply", "scale", "runJob"),
    )

    at: Span
    every: Stretch | None = None
    title: str = ""
    interrupt: NodeSelection | None = None
    fail: NodeSelection | None = None
    vanish: NodeSelection | None = None
    delete_nodes: NodeSelection | None = None
    set_condition: NodeCondition | None = None
    patch: ObjectPatch | None = None
    apply: dict[str, Any] | None = None
    scale: dict[str, Count] | None = None  # replicas by the name of a Deployment, or namespace/name
    noise: Share = 0.0  # by which share replicas vary with the seed
    run_job: dict[str, Any] | None = None

    def check(self) -> Iterable[tuple[str, str]]:
        """What is applied says what it is, and what is run is a Job."""
        if self.apply is not None and not named(self.apply):
            yield "apply", "needs apiVersion, kind and metadata.name"
        if self.run_job is not None and not (named(self.run_job) and self.run_job["kind"] == "Job"):
            yield "runJob", "must be a Job with apiVersion, kind and metadata.name"
        if self.noise and not self.scale:
            yield "noise", "is for scale only; leave it out"


class PodSize(Part, frozen=True):
    """Pods of one size among those of a generated cluster; `weight` says how many workloads have it."""

    cpu: Quantity
    memory: Quantity
    weight: Weight = 1.0
    annotations: dict[str, str] = {}
    max_unavailable: int | str | None = None

    def check(self) -> Iterable[tuple[str, str]]:
        """Its budget is one."""
        return _allowed(self.max_unavailable)


def _usual() -> tuple[PodSize, ...]:
    sizes = (("100m", "256Mi", 4), ("250m", "512Mi", 4), ("500m", "2Gi", 3), ("1", "2Gi", 2), ("2", "8Gi", 1))
    return tuple(
        PodSize(cpu=Quantity.of(cpu), memory=Quantity.of(memory), weight=weight) for cpu, memory, weight in sizes
    )


class Generate(Part, frozen=True):
    """A cluster to start from that nobody recorded: so many nodes of the scenario's NodePools, with so many pods."""

    nodes: Some
    pods: Count
    workloads: Some | None = None
    seed: int | None = None
    filled: Percent = Percent("70%")
    age: Span = msgspec.field(default_factory=lambda: Span("7d"))
    nodepools: dict[str, Weight] = {}
    mix: tuple[PodSize, ...] = msgspec.field(default_factory=_usual)

    def check(self) -> Iterable[tuple[str, str]]:
        """Nodes are filled with something."""
        if not self.mix:
            yield "mix", "must have at least one size; leave it out for the usual ones"


class Scenario(Part, frozen=True):
    """A whole story."""

    name: str
    start: datetime = EPOCH
    lasts: Stretch = msgspec.field(name="for", default_factory=lambda: Stretch("7d"))
    seed: int = 0
    catalog: str = "realistic"
    settings: dict[str, str] = {}
    objects: tuple[dict[str, Any], ...] = ()
    workloads: tuple[Workload, ...] = ()
    events: tuple[ScenarioEvent, ...] = ()
    snapshot: str = ""
    generate: Generate | None = None
    trace: str = ""


def read_scenario(written: object, name: str) -> Scenario:
    """The scenario of a document; `ScenarioInvalid` with every fault."""
    if not isinstance(written, dict):
        raise ScenarioInvalid([Fault("", f"a scenario is a mapping with apiVersion, kind and spec, got {written!r}")])
    faults = [*header_faults(written, API_VERSION, KIND)]
    spec = written.get("spec")
    given: object = spec
    if spec is None or isinstance(spec, dict):
        titled = (written.get("metadata") or {}).get("name") if isinstance(written.get("metadata"), dict) else None
        given = {**(spec or {}), "name": str(titled or name)}
    scenario = read_part(given, Scenario, "spec", faults)
    if isinstance(spec, dict) and "name" in spec:
        faults.append(Fault("spec.name", "is not known; a scenario is named in metadata.name"))
    faults.extend(_together(spec or {}) if spec is None or isinstance(spec, dict) else ())
    if faults or scenario is None:
        raise ScenarioInvalid(faults)
    return msgspec.structs.replace(scenario, start=aware(scenario.start, UTC))


def rename_deprecated(document: object) -> tuple[str, ...]:
    """Give fields of a document that have a new name that name, in place; says what people should change."""
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict) or "happenings" not in spec or "events" in spec:
        return ()
    spec["events"] = spec.pop("happenings")
    return ("spec.happenings: is deprecated and will not be read by the next release; rename it to events",)


def _together(spec: Plain) -> Iterable[Fault]:
    """The story starts from one cluster, and no two workloads are called the same."""
    if spec.get("snapshot") and spec.get("generate"):
        yield Fault("spec.generate", "the story starts from a snapshot already; leave one of the two out")
    seen: set[str] = set()
    workloads = spec.get("workloads")
    for index, each in enumerate(workloads if isinstance(workloads, list) else ()):
        if isinstance(each, dict) and "name" in each:
            called = f"{each.get('namespace', 'default')}/{each['name']}"
            if called in seen:
                yield Fault(f"spec.workloads[{index}].name", f"{called} is there already; names are unique")
            seen.add(called)


def named(plain: object) -> bool:
    """Whether a manifest says what it is, in text."""
    if not isinstance(plain, dict):
        return False
    meta = plain.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return all(isinstance(each, str) and each for each in (plain.get("apiVersion"), plain.get("kind"), name))
