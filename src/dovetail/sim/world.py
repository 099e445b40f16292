"""The embedded cluster: a Kubernetes API in memory, on virtual time, with the controllers a cluster has.

Implements the `Cluster` port. Every call of the port passes one gate where it takes its time and where faults can be
injected; the simulated controllers behind it (kubelet, scheduler, workloads, garbage collection) are not disturbed. All
chance comes from one seed: the same seed and the same calls give the same event log, byte for byte.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from dovetail.manifest import codec
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.model.pod import Pod
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Deletion, Listing, ListOptions, Patch, WatchEvent
from dovetail.ports.errors import Invalid
from dovetail.sim.cloud.boot import CloudNodeController, InstanceBoot
from dovetail.sim.cloud.provider import CloudClient
from dovetail.sim.cloud.service import CloudOptions, SimulatedCloud
from dovetail.sim.event_log import LogEntry
from dovetail.sim.instance_failures import InstanceFailures
from dovetail.sim.kubernetes.api_server import ApiServer, Validator
from dovetail.sim.kubernetes.attach_detach import AttachDetachController
from dovetail.sim.kubernetes.controller import DelayRange, SimulatedController
from dovetail.sim.kubernetes.garbage_collector import OwnerCollector, PodCollector
from dovetail.sim.kubernetes.kinds import resource_of, resource_of_plain
from dovetail.sim.kubernetes.kubelet import Kubelet, KubeletTiming
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.node_lifecycle import NodeLifecycle, TaintEviction
from dovetail.sim.kubernetes.pdb_controller import PdbController, evict
from dovetail.sim.kubernetes.scheduler import SimulatedScheduler
from dovetail.sim.kubernetes.store import ObjectVersion, Store
from dovetail.sim.kubernetes.watch import Selects, WatchStream, WatchTerms, field_selector, label_selector, view
from dovetail.sim.kubernetes.workload_controllers import DaemonSets, Deployments, Jobs, ReplicaSets
from dovetail.sim.virtual_loop import EPOCH, VirtualClock, pause

T = TypeVar("T", bound=KubeObject)
_EVERYTHING = ListOptions()
_PLAINLY = Deletion()


class ApiCall(NamedTuple):
    """One call of the port, as faults see it."""

    operation: str
    kind: str
    key: Key | None = None
    patch: Patch | None = None


class Interference(Protocol):
    """Where faults come in: raise, wait, or do nothing. An error raised afterwards hides a write that took effect."""

    async def before(self, call: ApiCall) -> None:
        """Before the call has any effect."""
        ...

    async def after(self, call: ApiCall) -> None:
        """After its effect, before its answer."""
        ...


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """How the world behaves; times in seconds."""

    seed: int = 0
    call_time: DelayRange = (0.002, 0.01)
    watch_delay: float = 0.01
    cache_lag: float = 0.0  # how old a list at resource version 0 may be
    bookmark_every: float = 60.0
    watch_lifetime: DelayRange = (300.0, 600.0)
    history_limit: int = 10_000
    epoch: datetime = EPOCH
    keeps_log: bool = True  # a long life does without
    kubelet: KubeletTiming = field(default_factory=KubeletTiming)
    volume_detach: DelayRange = (1.0, 4.0)
    cloud: CloudOptions = field(default_factory=CloudOptions)


class World:
    """A simulated cluster. Make it inside a running loop; `start` brings its controllers to life."""

    def __init__(
        self,
        options: WorldOptions | None = None,
        *,
        clock: Clock | None = None,
        validate: Validator | None = None,
        interference: Interference | None = None,
    ) -> None:
        self.options = options or WorldOptions()
        self.clock = clock or VirtualClock(asyncio.get_running_loop(), self.options.epoch)
        self.interference = interference
        seed = str(self.options.seed)
        self._rng = random.Random(f"{seed}/calls")  # noqa: S311 - reproducible, not secret
        self._listed: dict[type, tuple[int, tuple[Any, ...], tuple[UnreadableObject, ...]]] = {}  # after so many steps
        self.store = Store(self.clock, history_limit=self.options.history_limit, keeps_log=self.options.keeps_log)
        self.api = ApiServer(self.store, random.Random(f"{seed}/objects"), validate)  # noqa: S311 - as above
        self.kubelet = Kubelet(self.api, seed, self.options.kubelet)
        self.node_lifecycle = NodeLifecycle(self.api, seed)
        self.cloud = SimulatedCloud(self.clock, self.store.loop.time, self.options.cloud)
        self.instance_failures = InstanceFailures(self.api, seed, self.cloud, self.kubelet, self.node_lifecycle)
        machines = InstanceBoot(self.api, seed, self.cloud, self.kubelet, self.node_lifecycle)
        self.agents: tuple[SimulatedController[Any], ...] = (
            self.kubelet,
            self.node_lifecycle,
            self.instance_failures,
            machines,
            *((CloudNodeController(self.api, seed, self.cloud),) if self.options.cloud.deletes_nodes else ()),
            TaintEviction(self.api, seed),
            OwnerCollector(self.api, seed),
            PodCollector(self.api, seed),
            ReplicaSets(self.api, seed),
            Deployments(self.api, seed),
            DaemonSets(self.api, seed),
            Jobs(self.api, seed),
            PdbController(self.api, seed),
            AttachDetachController(self.api, seed, self.options.volume_detach),
            SimulatedScheduler(self.api, seed),
        )

    def start(self) -> None:
        """Start the controllers of the cluster."""
        for agent in self.agents:
            agent.start()

    def stop(self) -> None:
        """Stop them."""
        for agent in self.agents:
            agent.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- the port

    async def list(self, kind: Kind[T], options: ListOptions = _EVERYTHING) -> Listing[T]:
        """Every object of the kind, by namespace and name."""
        await self.enter("list", kind, None)
        if options.resource_version or options.exact:
            found = view(self.store, self.store.table(resource_of(kind)), options, self.options.cache_lag)
            items, unreadable = self._look_up(kind, _selects(options), found.records)
            return Listing(items, str(found.version), unreadable)
        if options != _EVERYTHING:
            items, unreadable = self._look_up(kind, _selects(options), self._indexed(kind, options))
            return Listing(items, str(self.store.version), unreadable)
        steps = self.store.table(resource_of(kind)).change_count
        if self._listed.get(kind.model, (-1,))[0] != steps:
            self._listed[kind.model] = steps, *self._look_up(kind, _all)
        _, items, unreadable = self._listed[kind.model]
        return Listing(items, str(self.store.version), unreadable)

    def _indexed(self, kind: Kind[T], options: ListOptions) -> Iterable[ObjectVersion] | None:
        """The pods of one node by index, as a real API server finds them; None where every object is looked at."""
        path, _, node = options.field_selector.partition("=")
        plain = path == "spec.nodeName" and node and "," not in node and not node.startswith("=")
        return self.store.pods_on(node) if kind.name == "Pod" and plain else None

    def _look_up(
        self, kind: Kind[T], selects: Selects, among: Iterable[ObjectVersion] | None = None
    ) -> tuple[tuple[T, ...], tuple[UnreadableObject, ...]]:
        """What can be read, and what cannot."""
        found = self.store.table(resource_of(kind)).objects.values() if among is None else among
        objects = sorted(found, key=lambda record: record.key)
        values = [record.value(kind) for record in objects if selects(record.plain)]
        return (
            tuple(value for value in values if not isinstance(value, UnreadableObject)),
            tuple(value for value in values if isinstance(value, UnreadableObject)),
        )

    def watch(self, kind: Kind[T], since: str, options: ListOptions = _EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Changes after `since`."""

        async def opened() -> WatchTerms:
            await self.enter("watch", kind, None)
            lifetime = self._rng.uniform(*self.options.watch_lifetime)
            return WatchTerms(self.options.watch_delay, self.options.bookmark_every, lifetime)

        table = self.store.table(resource_of(kind))
        return WatchStream(self.store, kind, table, _selects(options), opened).since(since)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """One object."""
        await self.enter("get", kind, key)
        return _readable(self.api.get(resource_of(kind), key), kind)

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create it."""
        await self.enter("create", kind, value.key)
        record = self.api.create(resource_of(kind), codec.to_plain(kind, value))
        await self.leave("create", kind, record.key)
        return _readable(record, kind)

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Merge a patch."""
        await self.enter("patch", kind, key, patch)
        record = self.api.patch(resource_of(kind), key, patch)
        await self.leave("patch", kind, key)
        return _readable(record, kind)

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = _PLAINLY) -> None:
        """Ask for deletion."""
        await self.enter("delete", kind, key)
        self.api.delete(resource_of(kind), key, deletion)
        await self.leave("delete", kind, key)

    async def evict(self, pod: Pod) -> None:
        """Evict, if the budgets allow it."""
        await self.enter("evict", "Pod", pod.key)
        evict(self.api, pod.key, pod.metadata.uid)
        await self.leave("evict", "Pod", pod.key)

    async def enter(self, operation: str, kind: object, key: Key | None, patch: Patch | None = None) -> None:
        """The gate: every call takes a moment, and may be interfered with."""
        await pause(self.store.loop, self._rng.uniform(*self.options.call_time))
        if self.interference is not None:
            await self.interference.before(ApiCall(operation, str(kind), key, patch))

    async def leave(self, operation: str, kind: object, key: Key | None) -> None:
        """The gate on the way back: an error raised here hides what took effect."""
        if self.interference is not None:
            await self.interference.after(ApiCall(operation, str(kind), key))

    def cloud_client(self) -> CloudClient:
        """The cloud this cluster runs in, through the same gate."""
        return CloudClient(self.cloud, self)

    # -- for stories, tests and views: no time passes, nothing interferes

    def apply(self, plain: Plain) -> ObjectVersion:
        """Create an object from its manifest, or merge the manifest into the one that is there."""
        resource = resource_of_plain(plain)
        meta = plain.get("metadata") or {}
        key = Key(meta.get("namespace", ""), meta.get("name", ""))
        if self.store.find(resource, key) is None:
            return self.api.create(resource, plain)
        return self.api.patch(resource, key, Patch(plain))

    def apply_unchecked(self, plain: Plain) -> ObjectVersion:
        """The same without any check: what this server refuses, a later one may store."""
        with self.api.unchecked():
            return self.apply(plain)

    def values(self, kind: Kind[T]) -> tuple[T, ...]:
        """Every readable object of a kind, oldest first."""
        values = (record.value(kind) for record in self.store.all(resource_of(kind)))
        return tuple(value for value in values if not isinstance(value, UnreadableObject))

    def pods_on(self, node: str) -> tuple[ObjectVersion, ...]:
        """The pods bound to a node."""
        return tuple(self.store.pods_on(node))

    def kill_instance(self, node: str) -> None:
        """The machine behind a node is gone without a word: no heartbeats, and nothing on it moves any more."""
        self.instance_failures.kill(node)

    def forget_history(self) -> None:
        """Every watch and resource version from before becomes too old."""
        self.store.forget_history()

    @property
    def log(self) -> Sequence[LogEntry]:
        """Every change so far."""
        return self.store.log

    def log_bytes(self) -> bytes:
        """The event log as text: equal for equal seeds and equal calls."""
        return self.store.log_bytes()


def _selects(options: ListOptions) -> Selects:
    if options == _EVERYTHING:
        return _all
    try:
        labels, fields = label_selector(options.label_selector), field_selector(options.field_selector)
    except ValueError as error:
        raise Invalid(str(error)) from error
    namespace = options.namespace

    def selects(plain: dict[str, Any]) -> bool:
        here = not namespace or plain["metadata"].get("namespace") == namespace
        return here and labels(plain) and fields(plain)

    return selects


def _all(_: dict[str, Any]) -> bool:
    return True


def _readable(record: ObjectVersion, kind: Kind[T]) -> T:
    value = record.value(kind)
    if isinstance(value, UnreadableObject):
        raise Invalid(f"{kind} {record.key} cannot be read", value.faults)
    return value
