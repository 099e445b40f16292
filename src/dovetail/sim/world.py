"""The embedded cluster: a Kubernetes API server, its controllers and a cloud, in memory and on virtual time.

`World` implements the `Cluster` port. Every call of the port passes `enter` and `leave`, which add latency and can
inject faults (`Interference`). The simulated controllers behind the port use the API server directly, without latency
or faults. Methods for tests and scenarios (`apply`, `values`, `pods_on` and so on) take no virtual time.

All random numbers derive from one seed: the same seed and the same calls give the same event log, byte for byte.
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
_DEFAULT_DELETION = Deletion()


class ApiCall(NamedTuple):
    """One API call, as passed to `Interference`."""

    operation: str
    kind: str
    key: Key | None = None
    patch: Patch | None = None


class Interference(Protocol):
    """Injects faults into API calls: each method may raise, wait, or do nothing."""

    async def before(self, call: ApiCall) -> None:
        """Called before the call has any effect."""
        ...

    async def after(self, call: ApiCall) -> None:
        """Called after a write took effect and before the caller gets its result; an error hides the write."""
        ...


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Seed and timing of the simulated cluster; times in seconds."""

    seed: int = 0
    call_time: DelayRange = (0.002, 0.01)
    watch_delay: float = 0.01
    cache_lag: float = 0.0  # how old a list at resource version 0 may be
    bookmark_every: float = 60.0
    watch_lifetime: DelayRange = (300.0, 600.0)
    history_limit: int = 10_000
    epoch: datetime = EPOCH
    version: str = "1.33"
    keeps_log: bool = True  # long simulations turn it off to save memory
    kubelet: KubeletTiming = field(default_factory=KubeletTiming)
    volume_detach: DelayRange = (1.0, 4.0)
    cloud: CloudOptions = field(default_factory=CloudOptions)


class World:
    """A simulated cluster. Create it inside a running event loop; `start` starts its controllers."""

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
        # The last full list of each kind, with the change count of its table at that time.
        self._listed: dict[type, tuple[int, tuple[Any, ...], tuple[UnreadableObject, ...]]] = {}
        self.store = Store(self.clock, history_limit=self.options.history_limit, keeps_log=self.options.keeps_log)
        self.api = ApiServer(self.store, random.Random(f"{seed}/objects"), validate)  # noqa: S311 - as above
        self.kubelet = Kubelet(self.api, seed, self.options.kubelet)
        self.node_lifecycle = NodeLifecycle(self.api, seed)
        self.cloud = SimulatedCloud(self.clock, self.store.loop.time, self.options.cloud)
        self.instance_failures = InstanceFailures(self.api, seed, self.cloud, self.kubelet, self.node_lifecycle)
        instance_boot = InstanceBoot(self.api, seed, self.cloud, self.kubelet, self.node_lifecycle)
        self.controllers: tuple[SimulatedController[Any], ...] = (
            self.kubelet,
            self.node_lifecycle,
            self.instance_failures,
            instance_boot,
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
        for controller in self.controllers:
            controller.start()

    def stop(self) -> None:
        """Stop the controllers of the cluster."""
        for controller in self.controllers:
            controller.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- the Cluster port

    async def list(self, kind: Kind[T], options: ListOptions = _EVERYTHING) -> Listing[T]:
        """List the objects of a kind, ordered by namespace and name."""
        await self.enter("list", kind, None)
        if options.resource_version or options.exact:
            found = view(self.store, self.store.table(resource_of(kind)), options, self.options.cache_lag)
            items, unreadable = self._decoded(kind, _selects(options), found.records)
            return Listing(items, str(found.version), unreadable)
        if options != _EVERYTHING:
            items, unreadable = self._decoded(kind, _selects(options), self._indexed(kind, options))
            return Listing(items, str(self.store.version), unreadable)
        changes = self.store.table(resource_of(kind)).change_count
        if self._listed.get(kind.model, (-1,))[0] != changes:
            self._listed[kind.model] = changes, *self._decoded(kind, _all)
        _, items, unreadable = self._listed[kind.model]
        return Listing(items, str(self.store.version), unreadable)

    def _indexed(self, kind: Kind[T], options: ListOptions) -> Iterable[ObjectVersion] | None:
        """The pods of one node from the index on `spec.nodeName`; None if the selector does not use the index."""
        path, _, node = options.field_selector.partition("=")
        plain = path == "spec.nodeName" and node and "," not in node and not node.startswith("=")
        return self.store.pods_on(node) if kind.name == "Pod" and plain else None

    def _decoded(
        self, kind: Kind[T], selects: Selects, records: Iterable[ObjectVersion] | None = None
    ) -> tuple[tuple[T, ...], tuple[UnreadableObject, ...]]:
        """The selected objects, by default of the whole table: decoded ones, and those that cannot be decoded."""
        if records is None:
            records = self.store.table(resource_of(kind)).objects.values()
        ordered = sorted(records, key=lambda record: record.key)
        values = [record.value(kind) for record in ordered if selects(record.plain)]
        return (
            tuple(value for value in values if not isinstance(value, UnreadableObject)),
            tuple(value for value in values if isinstance(value, UnreadableObject)),
        )

    def watch(self, kind: Kind[T], since: str, options: ListOptions = _EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Watch the changes of a kind after resource version `since`."""

        async def opened() -> WatchTerms:
            await self.enter("watch", kind, None)
            lifetime = self._rng.uniform(*self.options.watch_lifetime)
            return WatchTerms(self.options.watch_delay, self.options.bookmark_every, lifetime)

        table = self.store.table(resource_of(kind))
        return WatchStream(self.store, kind, table, _selects(options), opened).since(since)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Get one object."""
        await self.enter("get", kind, key)
        return _readable(self.api.get(resource_of(kind), key), kind)

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create an object."""
        await self.enter("create", kind, value.key)
        record = self.api.create(resource_of(kind), codec.to_plain(kind, value))
        await self.leave("create", kind, record.key)
        return _readable(record, kind)

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch to an object or its status."""
        await self.enter("patch", kind, key, patch)
        record = self.api.patch(resource_of(kind), key, patch)
        await self.leave("patch", kind, key)
        return _readable(record, kind)

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = _DEFAULT_DELETION) -> None:
        """Delete an object."""
        await self.enter("delete", kind, key)
        self.api.delete(resource_of(kind), key, deletion)
        await self.leave("delete", kind, key)

    async def server_version(self) -> str:
        """The Kubernetes version that the world imitates."""
        await self.enter("get", "Version", None)
        return self.options.version

    async def evict(self, pod: Pod) -> None:
        """Evict a pod, if its PodDisruptionBudgets allow it."""
        await self.enter("evict", "Pod", pod.key)
        evict(self.api, pod.key, pod.metadata.uid)
        await self.leave("evict", "Pod", pod.key)

    async def enter(self, operation: str, kind: object, key: Key | None, patch: Patch | None = None) -> None:
        """Runs before every call: adds latency and injects faults."""
        await pause(self.store.loop, self._rng.uniform(*self.options.call_time))
        if self.interference is not None:
            await self.interference.before(ApiCall(operation, str(kind), key, patch))

    async def leave(self, operation: str, kind: object, key: Key | None) -> None:
        """Runs after every write: an error raised here hides a write that took effect."""
        if self.interference is not None:
            await self.interference.after(ApiCall(operation, str(kind), key))

    def cloud_client(self) -> CloudClient:
        """A client of the cluster's cloud, with the same latency and fault injection as the Kubernetes API."""
        return CloudClient(self.cloud, self)

    # -- for scenarios, tests and views: without latency and faults

    def apply(self, plain: Plain) -> ObjectVersion:
        """Create an object from its manifest, or merge the manifest into the existing object."""
        resource = resource_of_plain(plain)
        meta = plain.get("metadata") or {}
        key = Key(meta.get("namespace", ""), meta.get("name", ""))
        if self.store.find(resource, key) is None:
            return self.api.create(resource, plain)
        return self.api.patch(resource, key, Patch(plain))

    def apply_unchecked(self, plain: Plain) -> ObjectVersion:
        """As `apply`, without validation, to store objects as a later API version might."""
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
        """Stop the kubelet of a node: no lease renewals, and its pods no longer change."""
        self.instance_failures.kill(node)

    def forget_history(self) -> None:
        """Make every existing watch and resource version too old, as a restarted API server does."""
        self.store.forget_history()

    @property
    def log(self) -> Sequence[LogEntry]:
        """The event log: every change so far."""
        return self.store.log

    def log_bytes(self) -> bytes:
        """The event log as text."""
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
        in_namespace = not namespace or plain["metadata"].get("namespace") == namespace
        return in_namespace and labels(plain) and fields(plain)

    return selects


def _all(_: dict[str, Any]) -> bool:
    return True


def _readable(record: ObjectVersion, kind: Kind[T]) -> T:
    value = record.value(kind)
    if isinstance(value, UnreadableObject):
        raise Invalid(f"{kind} {record.key} cannot be decoded", value.faults)
    return value
