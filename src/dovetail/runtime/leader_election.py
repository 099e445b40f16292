"""Leader election with a Kubernetes Lease, as in client-go, and a thread that keeps renewing it.

Safety: at most one replica acts at a time. The holder counts from the moment it *sent* its last confirmed renewal;
candidates count from the moment they *saw* the Lease change, which is later. A holder that stops after `renew_deadline`
has therefore stopped before a candidate that waits `duration` can begin. Neither reads the wall clock; the timestamps
in the Lease are informational. Every call has a deadline, any error counts as a failed renewal, and every write of the
Lease is conditional on the resource version that was read.

`LeaseThread` runs an event loop in a separate thread for the renewals: a plan for ten thousand nodes can block the main
loop for seconds, which could let the lease expire. Writes stay safe either way, because the write gate
checks the time of the last renewal before each write.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from dovetail.model.cluster_objects import Lease, LeaseSpec
from dovetail.model.kinds import LEASE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster, Patch
from dovetail.ports.errors import Denied, NotFound

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDurations:
    """Seconds: client-go's leaseDuration, renewDeadline and retryPeriod, and the time a former leader has to stop."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    stop: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.renew_deadline + self.stop < self.duration:
            raise ValueError(f"must be retry < renew deadline < renew deadline + stop < duration, got {self}")


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The Lease and the identity of a candidate. A restarted process must use a new identity."""

    key: Key
    identity: str
    durations: LeaseDurations = LeaseDurations()


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(
        self,
        cluster: Cluster,
        lease_holder: LeaseHolder,
        clock: Clock,
        random: Random,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Create a candidate; `now` is the holder's clock, which should also advance while the host is suspended.

        While it waits, a candidate uses the loop's clock. If that clock stops, the candidate waits longer, never less.
        """
        self.lease_holder = lease_holder
        self.durations = lease_holder.durations
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._loop_time = asyncio.get_running_loop().time
        self._now = now or self._loop_time
        self._written: Lease | None = None  # our last write, so that a renewal needs no read
        self._observed: tuple[str, float] = ("", 0.0)  # the last seen resource version, and when it was first seen
        self._held_until = float("-inf")

    @property
    def remaining(self) -> float:
        """Seconds for which no other candidate can hold the Lease; negative once it is lost."""
        return self._held_until - self._now()

    def holds(self) -> bool:
        """Whether this candidate is the leader at this instant."""
        return self._now() < self._held_until

    async def acquire(self) -> None:
        """Retry until this candidate holds the Lease."""
        log.info("waiting to lead", extra={"lease": str(self.lease_holder.key), "identity": self.lease_holder.identity})
        while True:
            if await self._try_acquire(self.durations.renew_deadline / 2) and self.holds():
                break
            await asyncio.sleep(self.durations.retry * self._random.uniform(1.0, 1.2))
        log.info("leading", extra={"lease": str(self.lease_holder.key), "identity": self.lease_holder.identity})

    async def renew(self) -> None:
        """Renew until another candidate holds the Lease; the caller checks whether it expires meanwhile."""
        while True:
            await asyncio.sleep(self.durations.retry)
            if await self._try_acquire(self.durations.renew_deadline / 2) is False:
                self._held_until = float("-inf")
                return

    async def release(self) -> None:
        """Release the Lease, so that the next leader need not wait. Call only after all work has stopped."""
        if not self.holds():
            return
        known, self._held_until = self._written, float("-inf")
        if known is not None:
            try:
                async with asyncio.timeout(self.durations.stop):
                    await self._cluster.patch(LEASE, self.lease_holder.key, self._patch(known, "", 1))
                log.info("released the lease", extra={"lease": str(self.lease_holder.key)})
            except Exception as error:  # noqa: BLE001 - the lease expires by itself
                log.warning("lease not released", extra={"lease": str(self.lease_holder.key), "error": str(error)})

    async def _try_acquire(self, within: float) -> bool | None:
        """Acquire or renew once; return whether this candidate holds the Lease, or None after an error."""
        try:
            async with asyncio.timeout(within):
                return await self._attempt()
        except Exception as error:  # noqa: BLE001 - any failure at all is a renewal that failed
            self._written = None
            facts = {"lease": str(self.lease_holder.key), "error": str(error) or type(error).__name__}
            if isinstance(error, Denied):
                facts["remedy"] = f"grant create on leases, and get and patch on {self.lease_holder.key.name}"
            log.warning("lease not renewed" if self.holds() else "lease not taken", extra=facts)
            return None

    async def _attempt(self) -> bool:
        lease = self._written or await self._read()
        if lease is None:
            sent_at = self._now()
            self._confirm(await self._cluster.create(LEASE, self._lease()), sent_at)
            return True
        holder = lease.spec.holder_identity or ""
        if holder not in {"", self.lease_holder.identity} and not self._expired(lease):
            return False
        sent_at = self._now()
        patch = self._patch(lease, self.lease_holder.identity, round(self.durations.duration))
        self._confirm(await self._cluster.patch(LEASE, self.lease_holder.key, patch), sent_at)
        return True

    def _confirm(self, written: Lease, sent_at: float) -> None:
        self._written = written
        self._held_until = sent_at + self.durations.renew_deadline

    async def _read(self) -> Lease | None:
        """Read the Lease. If it was deleted, treat it as held until its last holder must have stopped."""
        try:
            lease = await self._cluster.get(LEASE, self.lease_holder.key)
        except NotFound:
            if self._observed[0] and not self._unchanged_for(self.durations.duration):
                raise
            return None
        if lease.metadata.resource_version != self._observed[0]:
            self._observed = (lease.metadata.resource_version, self._loop_time())
        return lease

    def _expired(self, lease: Lease) -> bool:
        return self._unchanged_for(max(self.durations.duration, lease.spec.lease_duration_seconds or 0))

    def _unchanged_for(self, seconds: float) -> bool:
        return self._loop_time() - self._observed[1] >= seconds

    def _lease(self) -> Lease:
        now = self._clock.now()
        spec = LeaseSpec(
            holder_identity=self.lease_holder.identity,
            lease_duration_seconds=round(self.durations.duration),
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        return Lease(
            metadata=ObjectMeta(name=self.lease_holder.key.name, namespace=self.lease_holder.key.namespace), spec=spec
        )

    def _patch(self, lease: Lease, holder: str, seconds: int) -> Patch:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now}
        if holder not in {"", lease.spec.holder_identity}:
            spec |= {"acquireTime": now, "leaseTransitions": (lease.spec.lease_transitions or 0) + 1}
        return Patch({"spec": spec}, lease.metadata.resource_version)


R = TypeVar("R")


class LeaseThread:
    """An event loop in a daemon thread, which does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the thread and wait for it; cancelling the wait cancels the coroutine."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def aclose(self) -> None:
        """Stop the loop and wait for its thread without blocking the caller's loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()


class ThreadedLeaderElection:
    """A `LeaderElection` that runs in a `LeaseThread`. Its properties may be read from any thread."""

    def __init__(self, election: LeaderElection, thread_loop: LeaseThread) -> None:
        self._election = election
        self._thread_loop = thread_loop

    @property
    def lease_holder(self) -> LeaseHolder:
        """The Lease and the identity of this candidate."""
        return self._election.lease_holder

    @property
    def durations(self) -> LeaseDurations:
        """The durations of the Lease."""
        return self._election.durations

    @property
    def remaining(self) -> float:
        """Seconds for which leadership is certain; negative once it is lost."""
        return self._election.remaining

    def holds(self) -> bool:
        """Whether this candidate is the leader at this instant."""
        return self._election.holds()

    async def acquire(self) -> None:
        """Retry until this candidate holds the Lease."""
        await self._thread_loop.call(self._election.acquire())

    async def renew(self) -> None:
        """Renew until another candidate holds the Lease."""
        await self._thread_loop.call(self._election.renew())

    async def release(self) -> None:
        """Release the Lease."""
        await self._thread_loop.call(self._election.release())
