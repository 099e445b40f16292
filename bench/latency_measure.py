"""Latencies beside a computation: `latency_measure.py NODES inline|thread` prints them as JSON.

Controllers on a real event loop, over the cluster of `plan_measure.py` (`latency_cluster.py`). Each sample is due at a
fixed time, whether or not the one before was answered, and is late by the time from then to its end. *Other process*
is how much later than asked a process without work wakes up: what the machine alone adds.
"""

import asyncio
import gc
import json
import logging
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

import karpenter
from dovetail.controllers import disruption
from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext, ProviderPorts
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.interruption import InterruptionController
from dovetail.controllers.provisioner import Provisioner
from dovetail.model import kinds
from dovetail.model.catalog import InstanceType
from dovetail.model.kube_object import Condition, Key
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.pod import Pod, PodStatus
from dovetail.model.snapshot import Snapshot
from dovetail.observe.endpoints import Endpoints
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.cluster import Notice
from dovetail.ports.compute import Compute, InlineCompute
from dovetail.ports.interruption import Delivery, Interruption, InterruptionKind
from dovetail.ports.ledger import NoLedger
from dovetail.runtime.compute_thread import ComputeThread
from dovetail.runtime.leader_election import LeaseThread
from dovetail.runtime.short_collections import short_collections
from dovetail.settings import Settings
from dovetail.wiring.system_clock import SystemClock
from latency_cluster import SnapshotCluster
from plan_measure import disruptable

Numbers = npt.NDArray[np.float64]
INTERVAL = 0.05  # seconds between samples of one kind
KINDS = 5  # of samples
ROUNDS = 2
FURTHER = 2  # passes of each round that build on the one before, each after a pod changed
PENDING = 20_000
WAITS = Condition(type="PodScheduled", status="False", reason="Unschedulable")
PROBE = """
import http.client, json, sys, time
port, interval, ends = int(sys.argv[1]), float(sys.argv[2]), []
due = time.monotonic()
print("ready", flush=True)
while True:
    due, before = due + interval, time.monotonic()
    time.sleep(max(0.0, due - time.monotonic()))
    woken = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\\n"
    connection.close()
    print(json.dumps((due, woken if before < due else due, time.monotonic())), flush=True)
"""


@dataclass
class Samples:
    """When samples were due and done, by what was measured; and the processor time of this process meanwhile."""

    spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    clock: list[tuple[float, float]] = field(default_factory=list)  # monotonic and processor time, side by side

    def add(self, what: str, due: float, done: float) -> None:
        """Record one sample."""
        self.spans.setdefault(what, []).append((due, done))
        self.tick()

    def tick(self) -> None:
        """Record how much the process has computed so far."""
        self.clock.append((time.monotonic(), time.process_time()))

    def reached(self, instant: float) -> bool:
        """Whether every sample that was due before this instant is done."""
        return len(self.spans) == KINDS and all(spans[-1][0] >= instant for spans in self.spans.values())

    def between(self, since: float, until: float) -> dict[str, dict[str, float]]:
        """Milliseconds from due to done, of the samples that were due in this time: by the clock and by the processor.

        On an idle machine both are the same; on a busy one the first also has the time in which others computed.
        """
        at, used = np.array(sorted(self.clock)).T
        found = {}
        for what, spans in self.spans.items():
            due, done = np.array([span for span in spans if since <= span[0] < until]).T
            computed = np.interp(done, at, used) - np.interp(due, at, used)
            found[what] = {"samples": len(due), **_figures("", done - due), **_figures("cpu_", computed)}
        return found


def _figures(prefix: str, seconds: Numbers) -> dict[str, float]:
    p50, p99, most = 1000 * np.percentile(seconds, [50, 99, 100])
    return {f"{prefix}p50": round(p50, 1), f"{prefix}p99": round(p99, 1), f"{prefix}max": round(most, 1)}


class Warnings:
    """An interruption source with one spot interruption each `INTERVAL`, of one node after the other."""

    shared = True

    def __init__(self, claims: Sequence[Key], instances: Sequence[str], samples: Samples) -> None:
        self._samples = samples
        self._instances = instances
        self._number = {key: number for number, key in enumerate(claims)}
        self._began = time.monotonic()
        self._next = 0

    async def receive(self) -> Sequence[Delivery]:
        """Wait until the next message is due."""
        self._next += 1
        await asyncio.sleep(max(0.0, self._began + self._next * INTERVAL - time.monotonic()))
        instance = self._instances[self._next % len(self._instances)]
        return [Delivery(str(self._next), Interruption(InterruptionKind.SPOT_INTERRUPTED, (instance,)))]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Forget them."""

    def deleted(self, key: Key) -> None:
        """Note that the NodeClaim of a message was deleted: the reaction that counts."""
        rounds, place = divmod(self._next - self._number[key], len(self._instances))
        number = self._next - place if rounds >= 0 else self._number[key]
        due = self._began + number * INTERVAL
        self._samples.add("interruption", due, time.monotonic())


class Catalog:
    """A provider of which only the catalog and the interruptions are used."""

    name = "bench"
    well_known_labels: frozenset[str] = frozenset()
    node_class_labels: frozenset[str] = frozenset()
    can_drift = False

    def __init__(self, types: dict[str, tuple[InstanceType, ...]]) -> None:
        self._types = types

    def supports(self, _ref: NodeClassRef) -> bool:
        """Support every node class."""
        return True

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return the same catalog each time."""
        return self._types[pool.name]

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Change nothing."""


class Recorder:
    """Drops the notices."""

    def publish(self, notice: Notice) -> None:
        """Drop it."""


class KeepingLedger(NoLedger):
    """A ledger that wants the evidence of decisions, and drops it."""

    keeps = True


@dataclass
class Controllers:
    """The controllers, and what feeds them."""

    context: ControllerContext
    cluster: SnapshotCluster
    queue: DisruptionQueue
    provisioner: Provisioner
    samples: Samples


@asynccontextmanager
async def controllers(snapshot: Snapshot, compute: Compute) -> AsyncIterator[Controllers]:
    """Run informers, interruption controller, probe endpoint and the samples."""
    samples = Samples()
    claims = [node.claim for node in snapshot.nodes if node.claim is not None]
    ids = [claim.provider_id.rpartition("/")[2] for claim in claims]
    warnings = Warnings([claim.key for claim in claims], ids, samples)
    cluster = SnapshotCluster(snapshot, warnings.deleted)
    cloud: Any = Catalog(dict(snapshot.catalogs))
    provider = ProviderPorts(cloud=cloud, interruptions=(warnings,))
    provider.in_use.set()
    state = ClusterState(cluster, snapshot.well_known)
    context = ControllerContext(
        cluster=cluster, cloud=cloud, providers=(provider,), clock=SystemClock(), recorder=Recorder(),
        metrics=PrometheusMetrics(), ledger=KeepingLedger(), compute=compute, state=state, settings=Settings(),
    )  # fmt: skip
    made = Controllers(context, cluster, DisruptionQueue(context), Provisioner(context), samples)
    interruptions = InterruptionController(context)
    lease = LeaseThread("lease")
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer.run()) for informer in (*state.informers, state.switch)]
        await state.synced()
        await state.switch.synced.wait()
        running.append(tasks.create_task(lease.call(_tick("lease thread", samples))))
        running.append(tasks.create_task(_tick("timer", samples)))
        running.append(tasks.create_task(interruptions.run()))
        async with _probed(samples):
            yield made
        for each in running:
            each.cancel()
        await asyncio.wait(running)
    await lease.aclose()


async def _tick(what: str, samples: Samples) -> None:
    due = time.monotonic()
    while True:
        due += INTERVAL
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        samples.add(what, due, time.monotonic())


@asynccontextmanager
async def _probed(samples: Samples) -> AsyncIterator[None]:
    """Serve probes, and ask for them from another process."""
    port = random.randrange(20000, 40000)  # noqa: S311 - not for secrets

    async def refresh() -> None:
        return

    endpoints = Endpoints(metrics_port=0, probe_port=port, refresh=refresh, render=bytes, missing=tuple)
    async with endpoints.served():
        probe = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROBE, str(port), str(INTERVAL), stdout=subprocess.PIPE
        )
        assert probe.stdout is not None
        await probe.stdout.readline()
        reading = asyncio.create_task(_read(probe.stdout, samples))
        try:
            yield
        finally:
            reading.cancel()
            probe.kill()
            await probe.wait()


async def _read(lines: asyncio.StreamReader, samples: Samples) -> None:
    async for line in lines:
        due, woken, done = json.loads(line)
        samples.add("probe", due, done)
        samples.add("other process", due, max(due, woken))


async def timed(samples: Samples, work: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    """Run the work, and summarize the samples that were due meanwhile."""
    await _caught_up(samples)
    began = time.monotonic()
    await work()
    ended = time.monotonic()
    await _caught_up(samples)
    return {"seconds": round(ended - began, 2), "late": samples.between(began, ended)}


async def _caught_up(samples: Samples) -> None:
    """Wait until no sample that is due by now is left."""
    now = time.monotonic()
    while not samples.reached(now):  # noqa: ASYNC110 - it waits for samples of other tasks, threads and processes
        await asyncio.sleep(INTERVAL)


async def measure(nodes: int, mode: str) -> dict[str, Any]:
    """Passes and solves over one cluster."""
    vars(disruption)["VALIDATION_DELAY"] = timedelta()  # a wait without computation would dilute the samples
    snapshot = disruptable(nodes, "settling")
    with ExitStack() as stack:
        compute: Compute = InlineCompute()
        if mode == "thread":  # as `wiring.live` does
            compute = ComputeThread("planning")
            stack.enter_context(short_collections())
        async with controllers(snapshot, compute) as made:
            await disruption.DisruptionController(made.context, made.queue).run_pass()  # the process has grown by then
            gc.collect()
            return {"pass": await timed(made.samples, lambda: passes(made)), "solve": await solves(made)}


async def passes(made: Controllers) -> None:
    """First passes, each followed by some after a pod changed."""
    rng = random.Random(3)  # noqa: S311 - not for secrets
    pods = [pod for pod in made.context.state.pods.items.values() if not pod.daemon]
    for _ in range(ROUNDS):
        controller = disruption.DisruptionController(made.context, made.queue)
        for number in range(1 + FURTHER):
            await controller.run_pass()
            made.cluster.show(kinds.POD, _annotated(rng.choice(pods), str(number)))
            await asyncio.sleep(0)


def _annotated(pod: Pod, text: str) -> Pod:
    meta = msgspec.structs.replace(pod.metadata, labels={**pod.metadata.labels, "example.com/seen": text})
    return msgspec.structs.replace(pod, metadata=meta)


async def solves(made: Controllers) -> dict[str, Any]:
    """Provisioning for many pending pods, repeatedly."""
    for pod in karpenter.diverse_pods(PENDING):
        meta = msgspec.structs.replace(pod.metadata, uid=pod.metadata.name)
        status = PodStatus(phase="Pending", conditions=(WAITS,))
        made.cluster.show(kinds.POD, msgspec.structs.replace(pod, metadata=meta, status=status))
    state = made.context.state
    while len(tuple(state.unbound_pods)) < PENDING:
        await state.wait_for_change(state.revision)
    launched: list[int] = []

    async def repeat() -> None:
        for _ in range(ROUNDS):
            await made.provisioner.provision()
            launched.append(made.cluster.forget_created())
            await asyncio.sleep(0)

    found = await timed(made.samples, repeat)
    return {**found, "launched": launched}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    json.dump(asyncio.run(measure(int(sys.argv[1]), sys.argv[2])), sys.stdout, indent=2)
