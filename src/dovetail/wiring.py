"""The only place that constructs adapters and hands them to controllers: on a real cluster or on the embedded world."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import Any

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.controllers.context import Ports
from dovetail.controllers.listing import list_snapshot
from dovetail.controllers.manager import Manager
from dovetail.kube.connect import connect
from dovetail.kube.transport import Limits
from dovetail.manifest.defaults import with_defaults
from dovetail.manifest.schema import schema_of
from dovetail.manifest.validation import faults_of, scope_of
from dovetail.model.snapshot import Snapshot
from dovetail.observe.endpoints import Endpoints
from dovetail.observe.events import EventRecorder
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import ApiError, Invalid
from dovetail.runtime.backoff import Backoff
from dovetail.settings import Settings
from dovetail.sim.world import World, WorldOptions

Plain = dict[str, Any]


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)


@dataclass(frozen=True)
class Parts:
    """Everything that runs on one cluster."""

    cluster: Cluster
    provider: KwokProvider
    recorder: EventRecorder
    manager: Manager
    metrics: PrometheusMetrics

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recover(), name="recover")
            tasks.create_task(self.recorder.run(), name="events")
            tasks.create_task(self.manager.run(), name="controllers")

    async def _recover(self) -> None:
        """Take up what the process before this one had begun, as soon as the API server lets us look."""
        backoff = Backoff(first=1.0, limit=60.0)
        while True:
            try:
                await self.provider.recover()
            except ApiError:
                await asyncio.sleep(backoff.next())
            else:
                return


def assemble(cluster: Cluster, clock: Clock, settings: Settings, metrics: PrometheusMetrics | None = None) -> Parts:
    """Provider, recorder and controllers over one cluster. Unless told otherwise, an undeclared metric is an error."""
    metrics = metrics or PrometheusMetrics(strict=True)
    provider = KwokProvider(cluster, select_catalog(settings.catalog, settings.instance_types_file_path), clock)
    recorder = EventRecorder(cluster, clock)
    ports = Ports(
        cluster=cluster,
        cloud=provider,
        clock=clock,
        recorder=recorder,
        metrics=metrics,
        interruptions=(StagedInterruptions(cluster, clock),),
    )
    return Parts(cluster, provider, recorder, Manager(ports, settings), metrics)


def endpoints(parts: Parts, settings: Settings) -> Endpoints:
    """What the process serves over HTTP. It is ready once every kind it looks at has been listed, ours included."""
    return Endpoints(
        metrics_port=settings.metrics_port,
        probe_port=settings.health_probe_port,
        render=parts.metrics.render,
        missing=parts.manager.state.unsynced,
    )


@asynccontextmanager
async def on_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Parts]:
    """The parts on a real cluster, found as kubectl finds it."""
    clock = SystemClock()
    limits = Limits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    cluster = await connect(kubeconfig, context, clock, SystemRandom(), limits)
    try:
        parts = assemble(cluster, clock, settings, PrometheusMetrics())
        try:
            yield parts
        finally:
            await parts.provider.aclose()
    finally:
        await cluster.aclose()


async def take_snapshot(kubeconfig: Path | None, context: str | None, settings: Settings) -> Snapshot:
    """A real cluster as it is now, read once. Needs no more than permission to list; writes nothing."""
    clock = SystemClock()
    catalog = select_catalog(settings.catalog, settings.instance_types_file_path)
    limits = Limits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    cluster = await connect(kubeconfig, context, clock, SystemRandom(), limits)
    try:
        return await list_snapshot(cluster, KwokProvider(cluster, catalog, clock), clock)
    finally:
        await cluster.aclose()


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
    """The controllers alive on a world of their own. Must be entered on a virtual loop."""
    world = World(options, validate=admit)
    parts = assemble(world, world.clock, settings, PrometheusMetrics())
    async with world:
        running = asyncio.get_running_loop().create_task(parts.run(), name="dovetail")
        try:
            yield Embedded(world, parts)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await parts.provider.aclose()
        if not running.cancelled() and running.exception() is not None:
            raise RuntimeError("the controllers stopped") from running.exception()
