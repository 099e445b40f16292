"""Constructs the adapters for a real cluster, with the credentials that kubectl would use.

`on_cluster` assembles a controller process, `open_leadership` and `leader_term` its leader election, and `endpoints`
its HTTP endpoints. `take_snapshot` and `watch_cluster` read a cluster, once or continuously, and cannot write.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from socket import gethostname
from typing import NoReturn
from uuid import uuid4

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import read_catalogs
from dovetail.controllers.one_shot_snapshot import list_snapshot
from dovetail.kube.cluster_access import connect, find_access
from dovetail.kube.cluster_access import open_cluster as connect_to
from dovetail.kube.kubeconfig import EksContext
from dovetail.kube.token_review import open_reviewer
from dovetail.kube.transport import TransportLimits
from dovetail.model.cluster_objects import Lease
from dovetail.model.kinds import LEASE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.snapshot import Snapshot
from dovetail.observe.endpoints import Endpoints
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, UnusableProvider
from dovetail.ports.cluster import Cluster, Notice
from dovetail.ports.token_review import Reviewer
from dovetail.runtime.compute_thread import ComputeThread
from dovetail.runtime.default_spread import spread_by_default
from dovetail.runtime.leader_election import LeaderElection, LeaseHolder, LeaseThread, ThreadedLeaderElection
from dovetail.runtime.leader_term import Leadership, LeaderTerm
from dovetail.runtime.optional_kinds import OptionalKindsCluster
from dovetail.runtime.short_collections import short_collections
from dovetail.runtime.write_gate import WriteGate
from dovetail.settings import Settings
from dovetail.wiring.assembly import Assembly, Telemetry, assemble, open_ledger
from dovetail.wiring.providers import build_readers
from dovetail.wiring.system_clock import SystemClock
from dovetail.wiring.tracing import open_tracer


def endpoints(parts: Assembly, settings: Settings) -> Endpoints:
    """Build the endpoints for metrics and probes. A leader is ready when all its caches are synced and not stale."""

    async def refresh() -> None:
        leads: dict[tuple[str, ...], float] = {(settings.leader_election_name,): float(parts.gate.is_open)}
        parts.metrics.show("leader_election_master_status", leads)
        parts.metrics.count("leader_election_slowpath_total", 0, name=settings.leader_election_name)
        await parts.manager.gauges.refresh()

    return Endpoints(
        metrics_port=settings.metrics_port,
        probe_port=settings.health_probe_port,
        refresh=refresh,
        render=parts.metrics.render,
        missing=parts.missing,
    )


_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@asynccontextmanager
async def on_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[Assembly]:
    """Assemble the controllers for a real cluster."""
    clock = SystemClock()
    limits = TransportLimits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    cluster, metrics = await connect(kubeconfig, context, clock, SystemRandom(), limits), PrometheusMetrics()
    cluster.report_to(metrics)
    try:
        endpoint = find_access(kubeconfig, context, os.environ).endpoint
        ca_bundle = settings.cluster_ca_bundle or endpoint.ca_bundle  # as Karpenter finds it
        settings = replace(settings, leader_election_namespace=own_namespace(settings), cluster_ca_bundle=ca_bundle)
        with (
            open_ledger(settings, clock, endpoint.server) as ledger,
            open_tracer(settings, clock, os.environ) as tracer,
            short_collections(),
        ):
            telemetry = Telemetry(metrics=metrics, ledger=ledger, tracer=tracer)
            compute = ComputeThread("planning")
            parts = assemble(cluster, clock, settings, telemetry, compute)
            try:
                yield parts
            finally:
                compute.close()
                await parts.providers.aclose()
    finally:
        await cluster.aclose()


@asynccontextmanager
async def open_leadership(
    kubeconfig: Path | None, context: str | None, settings: Settings
) -> AsyncIterator[Leadership | None]:
    """Open the leader election, or None if it is disabled.

    It has a separate client and thread, so that load and client-side throttling do not delay lease renewals.
    """
    if settings.dry_run or settings.disable_leader_election:
        yield None
        return
    clock, thread = SystemClock(), LeaseThread("leadership")
    try:
        cluster = await thread.call(connect(kubeconfig, context, clock, SystemRandom()))
        try:
            yield ThreadedLeaderElection(await thread.call(_election(cluster, clock, settings)), thread)
        finally:
            await thread.call(cluster.aclose())
    finally:
        await thread.aclose()


async def _election(cluster: Cluster, clock: Clock, settings: Settings) -> LeaderElection:
    """Construct the election on the event loop that it runs on."""
    lease_holder = LeaseHolder(
        Key(own_namespace(settings), settings.leader_election_name), f"{gethostname()}_{uuid4().hex[:12]}"
    )
    return LeaderElection(cluster, lease_holder, clock, SystemRandom(), _seconds_asleep_included)


def leader_term(
    parts: Assembly, settings: Settings, stopped: asyncio.Event, leadership: Leadership | None
) -> LeaderTerm:
    """Build the main task of the process: wait for leadership, if any, and run the controllers until stopped."""
    if settings.dry_run:
        return LeaderTerm(WriteGate(), parts.run, stopped, _exit_at_once)  # the gate of the assembly stays closed

    async def lead() -> None:
        name = (settings.leader_election_name,)
        parts.metrics.show("leader_election_master_status", {name: 1.0})
        if isinstance(leadership, ThreadedLeaderElection):
            parts.recorder.publish(_became_leader(leadership.lease_holder))
        try:
            await parts.run()
        finally:
            parts.metrics.show("leader_election_master_status", {name: 0.0})

    return LeaderTerm(parts.gate, lead, stopped, _exit_at_once, leadership)


def _became_leader(holder: LeaseHolder) -> Notice:
    lease = Lease(metadata=ObjectMeta(name=holder.key.name, namespace=holder.key.namespace))
    return Notice(LEASE, lease, "LeaderElection", f"{holder.identity} became leader")


def own_namespace(settings: Settings) -> str:
    """Return the namespace of the Lease and of the pause ConfigMap."""
    if settings.leader_election_namespace:
        return settings.leader_election_namespace
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


def _seconds_asleep_included() -> float:
    """Return a monotonic time that includes time in suspension, where the platform has one (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _exit_at_once() -> NoReturn:
    logging.shutdown()
    os._exit(1)


@dataclass(frozen=True)
class OpenCluster:
    """A connection to a real cluster, without controllers."""

    cluster: Cluster
    clock: Clock
    eks: EksContext


@asynccontextmanager
async def open_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> AsyncIterator[OpenCluster]:
    """Connect to a real cluster."""
    clock = SystemClock()
    limits = TransportLimits(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    access = find_access(kubeconfig, context, os.environ)
    cluster = await connect_to(access, clock, SystemRandom(), limits)
    try:
        yield OpenCluster(spread_by_default(cluster, settings.scheduler_config), clock, access.eks)
    finally:
        await cluster.aclose()


async def take_snapshot(kubeconfig: Path | None, context: str | None, settings: Settings) -> Snapshot:
    """Read a real cluster once. Needs only permission to get and list; writes nothing."""
    async with open_cluster(kubeconfig, context, settings) as opened:
        providers = build_readers(opened.cluster, opened.clock, settings, opened.eks)
        try:
            namespace, unusable = own_namespace(settings), providers.unusable
            return await list_snapshot(opened.cluster, providers.cloud, opened.clock, namespace, unusable)
        finally:
            await providers.aclose()


@asynccontextmanager
async def token_reviewer(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Reviewer]:
    """Open a reviewer that authenticates and authorizes users with the API server; bound to the current event loop."""
    reviewer = await open_reviewer(find_access(kubeconfig, context, os.environ), SystemClock())
    try:
        yield reviewer
    finally:
        await reviewer.aclose()


TakeSnapshot = Callable[[], Awaitable[Snapshot]]


@asynccontextmanager
async def watch_cluster(
    kubeconfig: Path | None, context: str | None, settings: Settings
) -> AsyncIterator[tuple[ClusterState, TakeSnapshot]]:
    """Build the informers of a real cluster, which the caller runs, and a function that takes snapshots. Read-only."""
    gate = WriteGate()
    gate.close("read-only")
    async with open_cluster(kubeconfig, context, settings) as opened:
        cluster = OptionalKindsCluster(opened.cluster, gate, every_kind=True)
        providers = build_readers(cluster, opened.clock, settings, opened.eks)
        cloud = providers.cloud
        try:
            state = ClusterState(
                cluster,
                cloud.well_known_labels,
                own_namespace(settings),
                settings.watch_stale_after,
                relax_min_values=settings.relax_min_values,
            )
            yield state, partial(snapshot_from_state, state, cloud, opened.clock, providers.unusable)
        finally:
            await providers.aclose()


async def snapshot_from_state(
    state: ClusterState, cloud: CloudProvider, clock: Clock, unusable: Sequence[UnusableProvider] = ()
) -> Snapshot:
    """Build a snapshot from the informers and the instance types of the provider."""
    catalogs, missing = await read_catalogs(cloud, state.nodepools.items.values(), unusable)
    return replace(state.snapshot(clock.now(), catalogs, missing), repair_statements=cloud.repair_statements())
