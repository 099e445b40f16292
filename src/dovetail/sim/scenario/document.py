"""A scenario as people write it: read strictly, every fault with its path and remedy, nothing guessed.

Times in a scenario count from its start: `90m`, `36h`, `2d`, `1d12h`. Objects are plain Kubernetes manifests.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from dovetail.model.duration import Duration
from dovetail.model.quantity import Quantity
from dovetail.model.wire import Fault
from dovetail.sim.loop import EPOCH

Plain = dict[str, Any]
S = TypeVar("S", bound=msgspec.Struct)

API_VERSION = "dovetail.sh/v1alpha1"
KIND = "Scenario"
_DAYS = re.compile(r"^(\d+)d(.*)$")


class ScenarioInvalid(Exception):
    """A scenario that cannot be lived through; `faults` has all that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def parse_span(text: str) -> timedelta:
    """A length of time: a Go duration, with days allowed in front; ValueError says what is wrong."""
    found = _DAYS.match(text.strip())
    days, rest = (int(found[1]), found[2]) if found else (0, text.strip())
    span = timedelta(days=days) + (Duration.parse(rest).span if rest or not found else timedelta())
    if span < timedelta():
        raise ValueError(f"{text!r} is negative; time runs forward from the start")
    return span


class Span:
    """A length of time in a scenario."""

    def __init__(self, text: str) -> None:
        self.seconds = parse_span(text).total_seconds()


class _Part(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True, frozen=True):
    pass


class Turn(_Part, frozen=True):
    """From `at` on, this many replicas."""

    at: Span
    replicas: int


class Daily(_Part, frozen=True):
    """Replicas that swing once a day between two numbers, highest at `peak` (UTC); weekends may be quieter."""

    low: int
    high: int
    peak: str = "14:00"
    every: Span = msgspec.field(default_factory=lambda: Span("15m"))
    weekend: float = 1.0
    noise: float = 0.0


class Runs(_Part, frozen=True):
    """A Job started again and again: how often, how long its pods run, and how many there are."""

    every: Span
    lasts: Span
    pods: int = 1


class Workload(_Part, frozen=True):
    """Pods of one kind. Exactly one of `replicas`, `turns`, `daily`, `runs` says how many there are."""

    name: str
    namespace: str = "default"
    cpu: Quantity = Quantity.of("1")
    memory: Quantity = Quantity.of("1Gi")
    replicas: int | None = None
    turns: tuple[Turn, ...] = ()
    daily: Daily | None = None
    runs: Runs | None = None
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    pod: dict[str, Any] = {}
    max_unavailable: int | str | None = None


class Patched(_Part, frozen=True):
    """A merge patch of one object, by kind and name."""

    kind: str
    name: str
    namespace: str = ""
    patch: dict[str, Any] = {}


class Struck(_Part, frozen=True):
    """Nodes something happens to: a number of them, or a share such as `10%`, chosen by the seed."""

    nodes: int | str = 1
    capacity_type: str = ""
    nodepool: str = ""


class Happening(_Part, frozen=True):
    """Something that happens at one instant, or again and again."""

    at: Span
    every: Span | None = None
    interrupt: Struck | None = None
    fail: Struck | None = None
    delete_nodes: Struck | None = None
    patch: Patched | None = None
    apply: dict[str, Any] | None = None


class Scenario(_Part, frozen=True):
    """A whole story."""

    name: str
    start: datetime = EPOCH
    lasts: Span = msgspec.field(default_factory=lambda: Span("7d"))
    seed: int = 0
    catalog: str = "realistic"
    settings: dict[str, str] = {}
    objects: tuple[Plain, ...] = ()
    workloads: tuple[Workload, ...] = ()
    happenings: tuple[Happening, ...] = ()
    snapshot: str = ""
    trace: str = ""


_LISTS: Mapping[str, type[msgspec.Struct]] = {"workloads": Workload, "happenings": Happening}
_FIELDS = {
    "start",
    "for",
    "seed",
    "catalog",
    "settings",
    "objects",
    "workloads",
    "happenings",
    "snapshot",
    "trace",
}


def read_scenario(written: object, name: str) -> Scenario:
    """The scenario of a document; `ScenarioInvalid` with every fault."""
    if not isinstance(written, dict):
        raise ScenarioInvalid([Fault("", f"a scenario is a mapping with apiVersion, kind and spec, got {written!r}")])
    faults = [*_header(written)]
    spec = written.get("spec") or {}
    if not isinstance(spec, dict):
        raise ScenarioInvalid([*faults, Fault("spec", "must be a mapping")])
    known = ", ".join(sorted(_FIELDS))
    faults += [Fault(f"spec.{field}", f"is not known; fields are {known}") for field in sorted(set(spec) - _FIELDS)]
    values: Plain = {"name": str((written.get("metadata") or {}).get("name") or name)}
    for field, model in _LISTS.items():
        values[field] = _items(spec.get(field), model, f"spec.{field}", faults)
    plain = {key: spec[key] for key in spec if key in _FIELDS - set(_LISTS)}
    scalars = _convert(plain, _Scalars, "spec", faults)
    if scalars is not None:
        values |= {key: getattr(scalars, key) for key in scalars.__struct_fields__}
    faults.extend(_sense(values))
    if faults:
        raise ScenarioInvalid(faults)
    return Scenario(**values)


class _Scalars(_Part, frozen=True):
    start: datetime = EPOCH
    lasts: Span = msgspec.field(name="for", default_factory=lambda: Span("7d"))
    seed: int = 0
    catalog: str = "realistic"
    settings: dict[str, str] = {}
    objects: tuple[dict[str, Any], ...] = ()
    snapshot: str = ""
    trace: str = ""


def _header(written: Plain) -> Iterable[Fault]:
    if written.get("apiVersion") != API_VERSION:
        yield Fault("apiVersion", f"must be {API_VERSION}, got {written.get('apiVersion')!r}")
    if written.get("kind") != KIND:
        yield Fault("kind", f"must be {KIND}, got {written.get('kind')!r}")
    for field in sorted(set(written) - {"apiVersion", "kind", "metadata", "spec"}):
        yield Fault(field, "is not known here; a scenario has apiVersion, kind, metadata and spec")


def _items(written: object, model: type[S], path: str, faults: list[Fault]) -> tuple[S | None, ...]:
    """Each item, None where it could not be read: positions stay what they are in the file."""
    if written is None:
        return ()
    if not isinstance(written, list):
        faults.append(Fault(path, "must be a list"))
        return ()
    return tuple(_convert(item, model, f"{path}[{index}]", faults) for index, item in enumerate(written))


def _convert(plain: object, model: type[S], path: str, faults: list[Fault]) -> S | None:
    try:
        return msgspec.convert(plain, model, dec_hook=_hook)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        faults.append(Fault(path + where.rstrip("`"), what))
        return None


def _hook(wanted: type, value: object) -> object:
    if wanted is Span:
        if not isinstance(value, str):
            raise ValueError(f"expected a length of time such as 30m or 2d, got {value!r}")
        return Span(value)
    if wanted is Quantity:
        return Quantity.of(value)  # type: ignore[arg-type]  # it refuses what it cannot read
    raise NotImplementedError(wanted)


def _sense(values: Plain) -> Iterable[Fault]:
    """What each part says may be right and the whole still make none."""
    start = values.get("start")
    if isinstance(start, datetime) and start.tzinfo is None:
        values["start"] = start.replace(tzinfo=UTC)
    if isinstance(values.get("lasts"), Span) and values["lasts"].seconds <= 0:
        yield Fault("spec.for", "must be longer than nothing")
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(values.get("workloads", ())):
        if each is None:
            continue
        path = f"spec.workloads[{index}]"
        ways = [each.replicas is not None, bool(each.turns), each.daily is not None, each.runs is not None]
        if sum(ways) != 1:
            yield Fault(path, "needs exactly one of replicas, turns, daily and runs")
        if (each.namespace, each.name) in seen:
            yield Fault(f"{path}.name", f"{each.namespace}/{each.name} is there already; names are unique")
        seen.add((each.namespace, each.name))
        yield from _numbers(each, path)
    for index, happening in enumerate(values.get("happenings", ())):
        if happening is not None:
            yield from _event(happening, f"spec.happenings[{index}]")


def _event(happening: Happening, path: str) -> Iterable[Fault]:
    acts = (happening.interrupt, happening.fail, happening.delete_nodes, happening.patch, happening.apply)
    if sum(act is not None for act in acts) != 1:
        yield Fault(path, "needs exactly one of interrupt, fail, deleteNodes, patch and apply")
    for name, struck in zip(("interrupt", "fail", "deleteNodes"), acts, strict=False):
        if isinstance(struck, Struck) and share(struck.nodes, 100) is None:
            yield Fault(f"{path}.{name}.nodes", f"must be a number or a share such as 10%, got {struck.nodes!r}")
    if happening.every is not None and happening.every.seconds <= 0:
        yield Fault(f"{path}.every", "must be longer than nothing")


def _numbers(each: Workload, path: str) -> Iterable[Fault]:
    counts = {"replicas": each.replicas or 0, **{f"turns[{i}].replicas": t.replicas for i, t in enumerate(each.turns)}}
    if each.daily is not None:
        counts |= {"daily.low": each.daily.low, "daily.high": each.daily.high}
        if each.daily.low > each.daily.high:
            yield Fault(f"{path}.daily", f"low {each.daily.low} is above high {each.daily.high}")
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", each.daily.peak):
            yield Fault(f"{path}.daily.peak", f"must be a time of day such as 14:00, got {each.daily.peak!r}")
        if each.daily.every.seconds < 1:
            yield Fault(f"{path}.daily.every", "must be a second or longer")
    if each.runs is not None and each.runs.every.seconds < 1:
        yield Fault(f"{path}.runs.every", "must be a second or longer")
    for field, number in counts.items():
        if number < 0:
            yield Fault(f"{path}.{field}", f"must not be negative, got {number}")


def share(written: int | str, total: int) -> int | None:
    """How many of `total` a number or a percentage means, at least one where any is meant; None if it means nothing."""
    if isinstance(written, int):
        return max(0, written)
    if re.fullmatch(r"\d{1,3}%", written):
        percent = int(written[:-1])
        return -(-total * percent // 100)
    return int(written) if written.isdigit() else None
