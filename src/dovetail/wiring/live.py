"""What a process serves over HTTP; not among the parts, since a simulated story serves nothing and is to start soon.

Constructs the adapters for a real cluster, found as kubectl finds it: to run on, to look at, to act on once.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import SystemRandom
from socket import gethostname
from typing import NoReturn
from uuid import uuid4

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import find_catalogs
from dovetail.controllers.one_shot_snapshot import list_snapshot
from dovetail.kube.cluster_access import connect, find_access
from dovetail.kube.token_review import open_reviewer
from dovetail.kube.transport import TransportLimits
from dovetail.model.kube_object import Key
from dovetail.model.snapshot import Snapshot
from dovetail.observe.endpoints import Endpoints
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.cluster import Cluster
from dovetail.ports.token_review import Reviewer
from dovetail.runtime.leader_election import LeaderElection, LeaseHolder, LeaseThread, ThreadedLeaderElection
from dovetail.runtime.leader_term import Leadership, LeaderTerm
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.write_gate import WriteGate
from dovetail.settings import Settings
from dovetail.wiring.assembly import Assembly, assemble, keeping
from dovetail.wiring.providers import find_supply


def endpoints(parts: Assembly, settings: Settings) -> Endpoints:
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


_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)


@asynccontextmanager
async def on_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Assembly]:
    """The parts on a real cluster, found as kubectl finds it."""
    clock = SystemClock()
    limits = TransportLimits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
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
async def standing(
    kubeconfig: Path | None, context: str | None, settings: Settings
) -> AsyncIterator[Leadership | None]:
    """The office to be won before acting, with a client and a thread of its own: neither load nor throttling matter."""
    if settings.dry_run or settings.disable_leader_election:
        yield None
        return
    clock, aside = SystemClock(), LeaseThread("leadership")
    try:
        cluster = await aside.call(connect(kubeconfig, context, clock, SystemRandom()))
        try:
            yield ThreadedLeaderElection(await aside.call(_election(cluster, clock, settings)), aside)
        finally:
            await aside.call(cluster.aclose())
    finally:
        await aside.aclose()


async def _election(cluster: Cluster, clock: Clock, settings: Settings) -> LeaderElection:
    """On the loop that it will run on."""
    lease_holder = LeaseHolder(
        Key(own_namespace(settings), settings.leader_election_name), f"{gethostname()}_{uuid4().hex[:12]}"
    )
    return LeaderElection(cluster, lease_holder, clock, SystemRandom(), _seconds_asleep_included)


def shift(parts: Assembly, settings: Settings, stopped: asyncio.Event, leadership: Leadership | None) -> LeaderTerm:
    """What the process does from here to its end: wait for the office, if there is one, and work until stopped."""
    if settings.dry_run:
        return LeaderTerm(WriteGate(), parts.run, stopped, _die)  # the gate in front of the cluster stays closed

    async def lead() -> None:
        name = (settings.leader_election_name,)
        parts.metrics.show("leader_election_master_status", {name: 1.0})
        try:
            await parts.run()
        finally:
            parts.metrics.show("leader_election_master_status", {name: 0.0})

    return LeaderTerm(parts.gate, lead, stopped, _die, leadership)


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
    limits = TransportLimits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
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


@asynccontextmanager
async def reviewer(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Reviewer]:
    """Whom a real cluster knows, and what they may do. On the loop it is entered on; nothing is kept by the cluster."""
    asking = await open_reviewer(find_access(kubeconfig, context, os.environ), SystemClock())
    try:
        yield asking
    finally:
        await asking.aclose()


Look = Callable[[], Awaitable[Snapshot]]


@asynccontextmanager
async def watched(
    kubeconfig: Path | None, context: str | None, settings: Settings
) -> AsyncIterator[tuple[ClusterState, Look]]:
    """What informers know of a real cluster once they run, and how to look at it. Nothing can be written."""
    gate = WriteGate()
    gate.close("only looking")
    async with reach(kubeconfig, context, settings) as found:
        cluster = OptionalKindsCluster(found.cluster, gate)
        supplier = find_supply(cluster, found.clock, settings).supplier
        try:
            state = ClusterState(
                cluster, supplier.well_known_labels, own_namespace(settings), settings.watch_stale_after
            )
            yield state, partial(look, state, supplier, found.clock)
        finally:
            await supplier.aclose()


async def look(state: ClusterState, cloud: CloudProvider, clock: Clock) -> Snapshot:
    """What informers know, as a snapshot."""
    catalogs = await find_catalogs(cloud, state.nodepools.items.values())
    return replace(state.snapshot(clock.now(), catalogs), repair_statements=cloud.repair_statements())
