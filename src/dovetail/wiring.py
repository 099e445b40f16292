"""The only place that constructs adapters and hands them to controllers: on a real cluster or on the embedded world."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import SystemRandom
from socket import gethostname
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.controllers.catalogs import find_catalogs
from dovetail.controllers.context import Ports
from dovetail.controllers.listing import list_snapshot
from dovetail.controllers.manager import Manager
from dovetail.controllers.state import ClusterState
from dovetail.kube.access import find_access
from dovetail.kube.connect import connect
from dovetail.kube.transport import Limits
from dovetail.manifest.defaults import with_defaults
from dovetail.manifest.schema import schema_of
from dovetail.manifest.validation import faults_of, scope_of
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import Key
from dovetail.observe.endpoints import Endpoints
from dovetail.observe.events import EventRecorder
from dovetail.observe.ledger import Keep, SqliteLedger, find_place
from dovetail.observe.measured_cloud import MeasuredCloud
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassKeeper
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import ApiError, CloudError, Invalid
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.ledger import Ledger, NoLedger
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.runtime.aside import Aside, ElectionAside
from dovetail.runtime.backoff import Backoff
from dovetail.runtime.gate import Gate, GatedCloud, GatedCluster
from dovetail.runtime.leadership import Election, Seat
from dovetail.runtime.lenient import LenientCluster
from dovetail.runtime.shift import Office, Shift
from dovetail.settings import Settings
from dovetail.sim.world import World, WorldOptions

Plain = dict[str, Any]
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)


class ProviderUnusable(CloudError):
    """The provider that was asked for lacks something it needs; the message says what to do."""


class Supplier(CloudProvider, Protocol):
    """A provider as the process runs it."""

    async def recover(self) -> None:
        """Take up what the process before this one had begun."""
        ...

    async def run(self) -> None:
        """What has to be done all the time; ends at once if that is nothing."""
        ...

    async def aclose(self) -> None:
        """Let go of everything it holds."""
        ...


@dataclass(frozen=True, kw_only=True)
class Supply:
    """A provider, and what comes with it."""

    supplier: Supplier
    interruptions: tuple[InterruptionSource, ...] = ()
    keeper: NodeClassKeeper | None = None


def find_supply(cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics | None = None) -> Supply:
    """The provider the settings ask for; `ProviderUnusable` if it cannot work."""
    if settings.provider == "aws":
        return _aws_supply(cluster, clock, settings, metrics or NoMetrics())
    provider = KwokProvider(cluster, select_catalog(settings.catalog, settings.instance_types_file_path), clock)
    return Supply(supplier=provider, interruptions=(StagedInterruptions(cluster, clock),))


def _aws_supply(cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics) -> Supply:
    try:
        from dovetail.cloud.aws.interruption.sources import find_sources  # noqa: PLC0415 - see below
        from dovetail.cloud.aws.provider import AwsProvider, assemble_aws  # noqa: PLC0415 - an extra, not always there
    except ModuleNotFoundError as error:
        raise ProviderUnusable(f"the aws provider needs {error.name}; pip install dovetail[aws]") from error
    if not settings.cluster_name:
        raise ProviderUnusable("the aws provider needs the name of the EKS cluster; set --cluster-name (CLUSTER_NAME)")
    parts = assemble_aws(cluster, clock, settings)
    if not parts.aws.region:
        raise ProviderUnusable("no AWS region is known; set AWS_REGION, or a region in the profile")
    return Supply(supplier=AwsProvider(parts), interruptions=find_sources(parts, metrics), keeper=parts.keeper)


@dataclass(frozen=True)
class Parts:
    """Everything that runs on one cluster."""

    cluster: Cluster
    supplier: Supplier
    recorder: EventRecorder
    manager: Manager
    metrics: PrometheusMetrics
    gate: Gate
    dry: bool = False

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if not self.dry:
                    tasks.create_task(self._recover(), name="recover")
                    tasks.create_task(self.recorder.run(), name="events")
                tasks.create_task(self.supplier.run(), name="provider")
                tasks.create_task(self.manager.run(), name="controllers")
        finally:
            await self.supplier.aclose()

    @property
    def provider(self) -> KwokProvider:
        """The provider, where instances are simulated."""
        assert isinstance(self.supplier, KwokProvider)
        return self.supplier

    def missing(self) -> tuple[str, ...]:
        """What is not there yet to act upon. One that stands by is ready: it has to be there, not to know."""
        return self.manager.state.unsynced() if self.dry or self.gate.is_open else ()

    async def _recover(self) -> None:
        """Take up what the process before this one had begun, as soon as the API server lets us look."""
        backoff = Backoff(first=1.0, limit=60.0)
        while True:
            try:
                await self.supplier.recover()
            except ApiError:
                await asyncio.sleep(backoff.next())
            else:
                return


def assemble(
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    metrics: PrometheusMetrics | None = None,
    ledger: Ledger | None = None,
) -> Parts:
    """Provider, recorder and controllers over one cluster. Unless told otherwise, an undeclared metric is an error."""
    metrics = metrics or PrometheusMetrics(strict=True)
    gate = Gate()
    if settings.dry_run:
        gate.close("dry run")
    else:
        gate.open()
    cluster = (LenientCluster if settings.dry_run else GatedCluster)(cluster, gate)
    supply = find_supply(cluster, clock, settings, metrics)
    recorder = EventRecorder(cluster, clock, metrics=metrics)
    ports = Ports(
        cluster=cluster,
        cloud=MeasuredCloud(GatedCloud(supply.supplier, gate), metrics),
        clock=clock,
        recorder=recorder,
        metrics=metrics,
        ledger=ledger or NoLedger(),
        interruptions=supply.interruptions,
        node_classes=supply.keeper,
    )
    return Parts(cluster, supply.supplier, recorder, Manager(ports, settings), metrics, gate, settings.dry_run)


def endpoints(parts: Parts, settings: Settings) -> Endpoints:
    """What the process serves over HTTP. It is ready once every kind it looks at has been listed, ours included."""

    async def refresh() -> None:
        leads: dict[tuple[str, ...], float] = {(settings.leader_election_name,): float(parts.gate.is_open)}
        parts.metrics.show("leader_election_master_status", leads)
        await parts.manager.gauges.refresh()

    return Endpoints(
        metrics_port=settings.metrics_port,
        probe_port=settings.health_probe_port,
        refresh=refresh,
        render=parts.metrics.render,
        missing=parts.missing,
    )


@contextmanager
def keeping(settings: Settings, clock: Clock, cluster: str) -> Iterator[Ledger]:
    """The ledger the settings ask for, written to while inside. At the end it has a moment to write what is left."""
    place = find_place(settings.ledger, os.environ)
    if place is None:
        yield NoLedger()
        return
    keep = Keep(age=settings.ledger_keep, size=settings.ledger_max_megabytes * 1024 * 1024)
    ledger = SqliteLedger(place, clock, cluster=cluster, keep=keep)
    ledger.start()
    try:
        yield ledger
    finally:
        ledger.stop()


@asynccontextmanager
async def on_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Parts]:
    """The parts on a real cluster, found as kubectl finds it."""
    clock = SystemClock()
    limits = Limits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    cluster = await connect(kubeconfig, context, clock, SystemRandom(), limits)
    try:
        settings = replace(settings, leader_election_namespace=own_namespace(settings))
        server = find_access(kubeconfig, context, os.environ).endpoint.server
        with keeping(settings, clock, server) as ledger:
            parts = assemble(cluster, clock, settings, PrometheusMetrics(), ledger)
            try:
                yield parts
            finally:
                await parts.supplier.aclose()
    finally:
        await cluster.aclose()


@asynccontextmanager
async def standing(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Office | None]:
    """The office to be won before acting, with a client and a thread of its own: neither load nor throttling matter."""
    if settings.dry_run or settings.disable_leader_election:
        yield None
        return
    clock, aside = SystemClock(), Aside("leadership")
    try:
        cluster = await aside.call(connect(kubeconfig, context, clock, SystemRandom()))
        try:
            yield ElectionAside(await aside.call(_election(cluster, clock, settings)), aside)
        finally:
            await aside.call(cluster.aclose())
    finally:
        await aside.aclose()


async def _election(cluster: Cluster, clock: Clock, settings: Settings) -> Election:
    """On the loop that it will run on."""
    seat = Seat(Key(own_namespace(settings), settings.leader_election_name), f"{gethostname()}_{uuid4().hex[:12]}")
    return Election(cluster, seat, clock, SystemRandom(), _seconds_asleep_included)


def shift(parts: Parts, settings: Settings, stopped: asyncio.Event, office: Office | None) -> Shift:
    """What the process does from here to its end: wait for the office, if there is one, and work until stopped."""
    if settings.dry_run:
        return Shift(Gate(), parts.run, stopped, _die)  # the gate in front of the cluster stays closed

    async def lead() -> None:
        name = (settings.leader_election_name,)
        parts.metrics.show("leader_election_master_status", {name: 1.0})
        try:
            await parts.run()
        finally:
            parts.metrics.show("leader_election_master_status", {name: 0.0})

    return Shift(parts.gate, lead, stopped, _die, office)


def own_namespace(settings: Settings) -> str:
    """Where the process keeps what is its own."""
    if settings.leader_election_namespace:
        return settings.leader_election_namespace
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


def _seconds_asleep_included() -> float:
    """A machine that wakes up must not believe that no time has passed. Only Linux has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _die() -> NoReturn:
    logging.shutdown()
    os._exit(1)


@dataclass(frozen=True)
class Reach:
    """A real cluster within reach, with nothing running on it."""

    cluster: Cluster
    clock: Clock


@asynccontextmanager
async def reach(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Reach]:
    """A real cluster, found as kubectl finds it, for a command that acts once."""
    clock = SystemClock()
    limits = Limits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    cluster = await connect(kubeconfig, context, clock, SystemRandom(), limits)
    try:
        yield Reach(cluster, clock)
    finally:
        await cluster.aclose()


async def take_snapshot(kubeconfig: Path | None, context: str | None, settings: Settings) -> Snapshot:
    """A real cluster as it is now, read once. Needs no more than permission to list; writes nothing."""
    async with reach(kubeconfig, context, settings) as found:
        supplier = find_supply(found.cluster, found.clock, settings).supplier
        try:
            return await list_snapshot(found.cluster, supplier, found.clock, own_namespace(settings))
        finally:
            await supplier.aclose()


Look = Callable[[], Awaitable[Snapshot]]


@asynccontextmanager
async def watched(
    kubeconfig: Path | None, context: str | None, settings: Settings
) -> AsyncIterator[tuple[ClusterState, Look]]:
    """What informers know of a real cluster once they run, and how to look at it. Nothing can be written."""
    gate = Gate()
    gate.close("only looking")
    async with reach(kubeconfig, context, settings) as found:
        cluster = LenientCluster(found.cluster, gate)
        supplier = find_supply(cluster, found.clock, settings).supplier
        try:
            state = ClusterState(cluster, supplier.well_known_labels, own_namespace(settings))
            yield state, partial(look, state, supplier, found.clock)
        finally:
            await supplier.aclose()


async def look(state: ClusterState, cloud: CloudProvider, clock: Clock) -> Snapshot:
    """What informers know, as a snapshot."""
    catalogs = await find_catalogs(cloud, state.nodepools.items.values())
    return replace(state.snapshot(clock.now(), catalogs), repair_statements=cloud.repair_statements())


def admit(_resource: object, before: Plain | None, after: Plain) -> Plain:
    """What the schema of a custom resource does on a real API server: refuse with every fault, or fill in defaults."""
    scope = scope_of(after["apiVersion"], after["kind"])
    if scope is None or (before is not None and before.get("spec") == after.get("spec")):
        return after
    faults = faults_of(after, before).faults
    if faults:
        name = after["metadata"].get("name", "")
        raise Invalid(f"{scope.kind} {name} is invalid: {'; '.join(map(str, faults))}", faults)
    filled: Plain = with_defaults(schema_of(scope), after)
    return filled


@dataclass(frozen=True)
class Embedded:
    """A simulated cluster with the real controllers on it."""

    world: World
    parts: Parts


@asynccontextmanager
async def embedded(options: WorldOptions, settings: Settings) -> AsyncIterator[Embedded]:
    """The controllers alive on a world of their own. Must be entered on a virtual loop. Only a ledger named is kept."""
    world = World(options, validate=admit)
    kept = replace(settings, ledger=settings.ledger or "off")
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(keeping(kept, world.clock, "embedded"))
        parts = assemble(world, world.clock, settings, PrometheusMetrics(), ledger)
        await stack.enter_async_context(world)
        running = asyncio.get_running_loop().create_task(parts.run(), name="dovetail")
        try:
            yield Embedded(world, parts)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await parts.supplier.aclose()
        if not running.cancelled() and running.exception() is not None:
            raise RuntimeError("the controllers stopped") from running.exception()
