"""The scenario file format: what the cluster starts with, the workloads on it, and the events that happen to it.

Each part of the document is a `Part`, parsed strictly by `parsing`; `check` adds rules on the values of one part. Times
count from the start of the scenario: `90m`, `36h`, `2d`, `1d12h`. Objects are plain Kubernetes manifests; whether a
cluster accepts them is checked when the scenario is loaded, not here.
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
    PositiveSpan,
    ScenarioInvalid,
    Span,
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
PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
NonNegative = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
CHOICES = ("random", "busiest")
ROUND = "$(round)"


class Turn(Part, frozen=True):
    """A change of a workload: this many replicas from `at` on."""

    at: Span
    replicas: Count


class Daily(Part, frozen=True):
    """Replicas that follow a daily cycle between `low` and `high`, highest at `peak` (UTC), less on weekends."""

    low: Count
    high: Count
    peak: str = "14:00"
    every: PositiveSpan = msgspec.field(default_factory=lambda: PositiveSpan("15m"))
    weekend: NonNegative = 1.0
    noise: NonNegative = 0.0

    def check(self) -> Iterable[tuple[str, str]]:
        """`low` must not exceed `high`, and `peak` must be a time of day."""
        if self.low > self.high:
            yield "", f"low {self.low} is above high {self.high}; swap them"
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", self.peak):
            yield "peak", f"must be a time of day such as 14:00, got {self.peak!r}"


class Runs(Part, frozen=True):
    """A Job that is started repeatedly: its interval, the run time of its pods, and their number."""

    every: PositiveSpan
    lasts: Span
    pods: PositiveInt = 1


class Workload(Part, frozen=True):
    """Pods of one template. Exactly one of `replicas`, `turns`, `daily`, `runs` defines their number."""

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
        """Names must be valid, and `maxUnavailable` a number or percentage."""
        for field, text in (("name", self.name), ("namespace", self.namespace)):
            if not NAME.fullmatch(text):
                yield field, f"must be lowercase letters, digits and dashes, at most 63, got {text!r}"
        yield from _max_unavailable_faults(self.max_unavailable)


def _max_unavailable_faults(unavailable: int | str | None) -> Iterable[tuple[str, str]]:
    written = "0" if unavailable is None else str(unavailable)
    if not re.fullmatch(r"\d+|\d{1,2}%|100%", written):
        yield "maxUnavailable", f"must be a number or a percentage from 0% to 100%, got {unavailable!r}"


class ObjectPatch(Part, frozen=True):
    """A merge patch of one object by kind and name, or of every object of the kind if no name is given.

    `$(round)` in a string of the patch is replaced by the number of the repetition, starting with 1.
    """

    kind: str
    name: str = ""
    namespace: str = ""
    patch: dict[str, Any] = {}


def numbered(written: Any, round_number: int) -> Any:
    """A patch with `$(round)` replaced by the number of the repetition."""
    if isinstance(written, dict):
        return {key: numbered(value, round_number) for key, value in written.items()}
    if isinstance(written, list):
        return [numbered(value, round_number) for value in written]
    return written.replace(ROUND, str(round_number)) if isinstance(written, str) else written


class NodeSelection(Part, frozen=True):
    """The nodes that an event affects: a number or a percentage of them, random or the busiest.

    Only ready nodes that are not being deleted, or with `draining` only those that are.
    """

    nodes: int | str = 1
    capacity_type: str = ""
    nodepool: str = ""
    draining: bool = False
    choose: str = "random"

    def check(self) -> Iterable[tuple[str, str]]:
        """`nodes` must be a number or percentage; the other fields have fixed choices."""
        number = share(self.nodes, 100)
        over = isinstance(self.nodes, str) and self.nodes.endswith("%") and (number or 0) > 100
        if number is None or over or (isinstance(self.nodes, int) and self.nodes < 0):
            yield "nodes", f"must be a number or a percentage such as 10%, got {self.nodes!r}"
        if self.capacity_type not in {"", *CAPACITY_TYPES}:
            yield "capacityType", f"must be one of {', '.join(CAPACITY_TYPES)}, got {self.capacity_type!r}"
        if self.choose not in CHOICES:
            yield "choose", f"must be one of {', '.join(CHOICES)}, got {self.choose!r}"


class NodeCondition(NodeSelection, kw_only=True, frozen=True):
    """The nodes whose condition an event sets, as an agent on the node would."""

    type: str
    status: str = "True"
    reason: str = "Staged"

    def check(self) -> Iterable[tuple[str, str]]:
        """The status must be a condition status of Kubernetes."""
        yield from super().check()
        if self.status not in {"True", "False", "Unknown"}:
            yield "status", f"must be one of True, False, Unknown, got {self.status!r}"


class ScenarioEvent(Part, frozen=True):
    """An event at one instant, or repeated at an interval. `title` is its description for users."""

    one_of: ClassVar[tuple[str, ...]] = (
        *("interrupt", "fail", "vanish", "deleteNodes", "setCondition", "patch", "apply", "scale", "runJob"),
    )

    at: Span
    every: PositiveSpan | None = None
    title: str = ""
    interrupt: NodeSelection | None = None
    fail: NodeSelection | None = None
    vanish: NodeSelection | None = None
    delete_nodes: NodeSelection | None = None
    set_condition: NodeCondition | None = None
    patch: ObjectPatch | None = None
    apply: dict[str, Any] | None = None
    scale: dict[str, Count] | None = None  # replicas by the name of a Deployment, or namespace/name
    noise: Fraction = 0.0  # replicas vary randomly by up to this fraction
    run_job: dict[str, Any] | None = None

    def check(self) -> Iterable[tuple[str, str]]:
        """`apply` must be a named object, `runJob` a Job, and `noise` needs `scale`."""
        if self.apply is not None and not named(self.apply):
            yield "apply", "needs apiVersion, kind and metadata.name"
        if self.run_job is not None and not (named(self.run_job) and self.run_job["kind"] == "Job"):
            yield "runJob", "must be a Job with apiVersion, kind and metadata.name"
        if self.noise and not self.scale:
            yield "noise", "can only be used with scale; remove it"


class PodSize(Part, frozen=True):
    """A pod size in a generated cluster; `weight` is the relative number of workloads with it."""

    cpu: Quantity
    memory: Quantity
    weight: Weight = 1.0
    annotations: dict[str, str] = {}
    max_unavailable: int | str | None = None

    def check(self) -> Iterable[tuple[str, str]]:
        """`maxUnavailable` must be a number or percentage."""
        return _max_unavailable_faults(self.max_unavailable)


def _default_mix() -> tuple[PodSize, ...]:
    sizes = (("100m", "256Mi", 4), ("250m", "512Mi", 4), ("500m", "2Gi", 3), ("1", "2Gi", 2), ("2", "8Gi", 1))
    return tuple(
        PodSize(cpu=Quantity.of(cpu), memory=Quantity.of(memory), weight=weight) for cpu, memory, weight in sizes
    )


class Generate(Part, frozen=True):
    """A generated initial cluster: the numbers of nodes of the scenario's NodePools, of pods and of workloads."""

    nodes: PositiveInt
    pods: Count
    workloads: PositiveInt | None = None
    seed: int | None = None
    filled: Percent = Percent("70%")
    age: Span = msgspec.field(default_factory=lambda: Span("7d"))
    nodepools: dict[str, Weight] = {}
    mix: tuple[PodSize, ...] = msgspec.field(default_factory=_default_mix)

    def check(self) -> Iterable[tuple[str, str]]:
        """`mix` must not be empty."""
        if not self.mix:
            yield "mix", "must have at least one size; remove it for the default sizes"


class Scenario(Part, frozen=True):
    """A whole scenario."""

    name: str
    start: datetime = EPOCH
    lasts: PositiveSpan = msgspec.field(name="for", default_factory=lambda: PositiveSpan("7d"))
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
    """Parse a scenario document; raises `ScenarioInvalid` with all faults."""
    if not isinstance(written, dict):
        raise ScenarioInvalid([Fault("", f"a scenario is a mapping with apiVersion, kind and spec, got {written!r}")])
    faults = [*header_faults(written, API_VERSION, KIND)]
    spec = written.get("spec")
    named_spec: object = spec
    if spec is None or isinstance(spec, dict):
        title = (written.get("metadata") or {}).get("name") if isinstance(written.get("metadata"), dict) else None
        named_spec = {**(spec or {}), "name": str(title or name)}
    scenario = read_part(named_spec, Scenario, "spec", faults)
    if isinstance(spec, dict) and "name" in spec:
        faults.append(Fault("spec.name", "is not known; a scenario is named in metadata.name"))
    faults.extend(_cross_field_faults(spec or {}) if spec is None or isinstance(spec, dict) else ())
    if faults or scenario is None:
        raise ScenarioInvalid(faults)
    return msgspec.structs.replace(scenario, start=aware(scenario.start, UTC))


def rename_deprecated(document: object) -> tuple[str, ...]:
    """Rename deprecated fields of a document in place; returns a warning for each."""
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict) or "happenings" not in spec or "events" in spec:
        return ()
    spec["events"] = spec.pop("happenings")
    return ("spec.happenings: is deprecated and will not be read by the next release; rename it to events",)


def _cross_field_faults(spec: Plain) -> Iterable[Fault]:
    """A scenario has one initial cluster, and the names of its workloads are unique."""
    if spec.get("snapshot") and spec.get("generate"):
        yield Fault("spec.generate", "cannot be used with spec.snapshot; remove one of the two")
    seen: set[str] = set()
    workloads = spec.get("workloads")
    for index, each in enumerate(workloads if isinstance(workloads, list) else ()):
        if isinstance(each, dict) and "name" in each:
            full_name = f"{each.get('namespace', 'default')}/{each['name']}"
            if full_name in seen:
                yield Fault(f"spec.workloads[{index}].name", f"{full_name} is used already; names must be unique")
            seen.add(full_name)


def named(plain: object) -> bool:
    """Whether a manifest has apiVersion, kind and name, all as text."""
    if not isinstance(plain, dict):
        return False
    meta = plain.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return all(isinstance(each, str) and each for each in (plain.get("apiVersion"), plain.get("kind"), name))
