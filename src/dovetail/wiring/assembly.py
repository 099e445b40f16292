"""Assembles provider, event recorder, ledger, metrics and controllers for one cluster, real or embedded.

All writes of the assembly go through one `WriteGate`, which is closed in a dry run and while a replica is not leader.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.controllers.context import Ports, ProviderPorts
from dovetail.controllers.manager import Manager
from dovetail.observe.events import EventRecorder
from dovetail.observe.instrumented_cloud import InstrumentedCloud
from dovetail.observe.ledger import Retention, SqliteLedger, resolve_ledger_path
from dovetail.observe.ledger_query import LedgerMissing
from dovetail.observe.ledger_savings import read_costs
from dovetail.observe.metrics import PrometheusMetrics, UnseenMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster
from dovetail.ports.compute import Compute, InlineCompute
from dovetail.ports.ledger import Ledger, NoLedger
from dovetail.ports.tracing import NoTracer, Tracer
from dovetail.runtime.default_spread import spread_by_default
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.reconciler import RetryBackoff
from dovetail.runtime.write_gate import GatedCloud, GatedCluster, WriteGate
from dovetail.settings import Settings
from dovetail.wiring.providers import ProviderParts, Providers, SimulatedCluster, Supplier, build_providers, route

if TYPE_CHECKING:
    from dovetail.sim.cloud.provider import SimulatedProvider

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assembly:
    """The parts of a controller process."""

    cluster: Cluster
    providers: Providers
    recorder: EventRecorder
    manager: Manager
    metrics: PrometheusMetrics
    gate: WriteGate
    dry: bool = False

    async def run(self) -> None:
        """Run provider, event recorder and controllers until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if not self.dry:
                    tasks.create_task(self._recover(), name="recover")
                    tasks.create_task(self.recorder.run(), name="events")
                for parts in self.providers.parts:
                    tasks.create_task(_run_when_in_use(parts), name="provider")
                tasks.create_task(self.manager.run(), name="controllers")
        finally:
            await self.providers.aclose()

    @property
    def supplier(self) -> Supplier:
        """The only provider."""
        (parts,) = self.providers.parts
        return parts.supplier

    @property
    def provider(self) -> "SimulatedProvider[KwokProvider]":
        """The provider of a simulated cloud."""
        assert not isinstance(self.supplier, KwokProvider), "the cloud is not simulated"
        return cast("SimulatedProvider[KwokProvider]", self.supplier)

    def missing(self) -> tuple[str, ...]:
        """Return why the process is not ready: caches that are unsynced or stale. A standby replica is always ready."""
        if not (self.dry or self.gate.is_open):
            return ()
        state = self.manager.state
        stale = (f"{each.kind.plural} are stale: not confirmed for {each.age:.0f} s" for each in state.stale())
        return (*state.unsynced(), *stale)

    async def _recover(self) -> None:
        """Let the provider resume the work of an earlier process; retries until the API server answers."""
        backoff = RetryBackoff(first=1.0, limit=60.0)
        while True:
            try:
                return await self.providers.recover()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - the other tasks continue meanwhile
                log.warning("not recovered yet", extra={"error": str(error) or type(error).__name__})
            await asyncio.sleep(backoff.next())


async def _run_when_in_use(parts: ProviderParts) -> None:
    await parts.ports.in_use.wait()
    await parts.supplier.run()


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """Where the controllers of an assembly report, besides events and log lines."""

    metrics: PrometheusMetrics | None = None
    ledger: Ledger = field(default_factory=NoLedger)
    tracer: Tracer = field(default_factory=NoTracer)


def assemble(
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    telemetry: Telemetry | None = None,
    compute: Compute | None = None,
) -> Assembly:
    """Assemble the parts for a cluster. By default, an undeclared metric is an error, and plans are made inline."""
    telemetry = telemetry or Telemetry()
    metrics = telemetry.metrics or PrometheusMetrics(strict=True, now=lambda: clock.now().timestamp())
    gate = WriteGate()
    if settings.dry_run:
        gate.close("dry run")
    else:
        gate.open()
    cloud = cluster.cloud_client() if isinstance(cluster, SimulatedCluster) else None
    cluster = spread_by_default(cluster, settings.scheduler_config)
    if settings.dry_run or cloud is None:
        cluster = OptionalKindsCluster(cluster, gate, every_kind=settings.dry_run)
    else:
        cluster = GatedCluster(cluster, gate)
    providers = build_providers(cluster, clock, settings, metrics, cloud)
    recorder = EventRecorder(cluster, clock, metrics=metrics)
    seen = not isinstance(metrics, UnseenMetrics)

    provider_ports = tuple(_gated(each.ports, gate, metrics if seen else None) for each in providers.parts)
    ports = Ports(
        cluster=cluster,
        cloud=route(provider_ports),
        providers=provider_ports,
        unusable=providers.unusable,
        clock=clock,
        recorder=recorder,
        metrics=metrics,
        ledger=telemetry.ledger,
        tracer=telemetry.tracer,
        compute=compute or InlineCompute(),
        seen=seen,
    )
    manager = Manager(ports, settings)
    _recall_savings(manager, ports)
    return Assembly(cluster, providers, recorder, manager, metrics, gate, settings.dry_run)


def _gated(provider: ProviderPorts, gate: WriteGate, metrics: PrometheusMetrics | None) -> ProviderPorts:
    """Let the calls of a provider pass the gate, and measure them if there are metrics."""
    gated = GatedCloud(provider.cloud, gate)
    return replace(provider, cloud=InstrumentedCloud(gated, metrics) if metrics is not None else gated)


def _recall_savings(manager: Manager, ports: Ports) -> None:
    """Read what earlier processes saved from the ledger file, if there is one."""
    ledger = ports.ledger
    if isinstance(ledger, SqliteLedger):
        with suppress(LedgerMissing):  # the first start
            manager.savings.recall(read_costs(ledger.path, ledger.cluster, ports.clock.now()))


@contextmanager
def open_ledger(settings: Settings, clock: Clock, cluster: str) -> Iterator[Ledger]:
    """Open the ledger that the settings select; `stop` flushes it at the end of the context."""
    place = resolve_ledger_path(settings.ledger, os.environ)
    if place is None:
        yield NoLedger()
        return
    keep = Retention(age=settings.ledger_keep, size=settings.ledger_max_megabytes * 1024 * 1024)
    ledger = SqliteLedger(place, clock, cluster=cluster, keep=keep)
    ledger.start()
    try:
        yield ledger
    finally:
        ledger.stop()
