"""Puts provider, recorder and controllers together over one cluster, whichever it is."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.controllers.context import Ports
from dovetail.controllers.manager import Manager
from dovetail.observe.events import EventRecorder
from dovetail.observe.instrumented_cloud import InstrumentedCloud
from dovetail.observe.ledger import Retention, SqliteLedger, find_place
from dovetail.observe.metrics import PrometheusMetrics, UnseenMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster
from dovetail.ports.ledger import Ledger, NoLedger
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.reconciler import RetryBackoff
from dovetail.runtime.write_gate import GatedCloud, GatedCluster, WriteGate
from dovetail.settings import Settings
from dovetail.wiring.providers import SimulatedCluster, Supplier, find_supply

if TYPE_CHECKING:
    from dovetail.sim.cloud.provider import SimulatedProvider

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assembly:
    """Everything that runs on one cluster."""

    cluster: Cluster
    supplier: Supplier
    recorder: EventRecorder
    manager: Manager
    metrics: PrometheusMetrics
    gate: WriteGate
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
    def provider(self) -> "SimulatedProvider[KwokProvider]":
        """The provider, where the cloud is simulated."""
        assert not isinstance(self.supplier, KwokProvider), "the cluster runs in no simulated cloud"
        return cast("SimulatedProvider[KwokProvider]", self.supplier)

    def missing(self) -> tuple[str, ...]:
        """What is not there yet to act upon, or no longer. One that stands by is ready: it need not know anything."""
        if not (self.dry or self.gate.is_open):
            return ()
        state = self.manager.state
        stale = (f"{each.kind.plural} are stale: not confirmed for {each.age:.0f} s" for each in state.stale())
        return (*state.unsynced(), *stale)

    async def _recover(self) -> None:
        """Take up what the process before this one had begun, as soon as the API server lets us look."""
        backoff = RetryBackoff(first=1.0, limit=60.0)
        while True:
            try:
                return await self.supplier.recover()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong now, the others go on meanwhile
                log.warning("not recovered yet", extra={"error": str(error) or type(error).__name__})
            await asyncio.sleep(backoff.next())


def assemble(
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    metrics: PrometheusMetrics | None = None,
    ledger: Ledger | None = None,
) -> Assembly:
    """Provider, recorder and controllers over one cluster. Unless told otherwise, an undeclared metric is an error."""
    metrics = metrics or PrometheusMetrics(strict=True)
    gate = WriteGate()
    if settings.dry_run:
        gate.close("dry run")
    else:
        gate.open()
    cloud = cluster.cloud_client() if isinstance(cluster, SimulatedCluster) else None
    cluster = (OptionalKindsCluster if settings.dry_run else GatedCluster)(cluster, gate)
    supply = find_supply(cluster, clock, settings, metrics, cloud)
    recorder = EventRecorder(cluster, clock, metrics=metrics)
    gated = GatedCloud(supply.supplier, gate)
    seen = not isinstance(metrics, UnseenMetrics)
    ports = Ports(
        cluster=cluster,
        cloud=InstrumentedCloud(gated, metrics) if seen else gated,
        clock=clock,
        recorder=recorder,
        metrics=metrics,
        ledger=ledger or NoLedger(),
        interruptions=supply.interruptions,
        node_classes=supply.nodeclass_reconciler,
        seen=seen,
    )
    return Assembly(cluster, supply.supplier, recorder, Manager(ports, settings), metrics, gate, settings.dry_run)


@contextmanager
def keeping(settings: Settings, clock: Clock, cluster: str) -> Iterator[Ledger]:
    """The ledger the settings ask for, written to while inside. At the end it has a moment to write what is left."""
    place = find_place(settings.ledger, os.environ)
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
