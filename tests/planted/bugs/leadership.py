"""Bugs in leader election and the write gate."""

from planted.bug import Bug

BUGS = (
    Bug(
        id="lease-counted-from-the-answer",
        says="The renewal deadline is counted from the answer to a renewal, not from the moment it was sent.",
        file="runtime/leader_election.py",
        before="        self._confirm(await self._cluster.patch(LEASE, self.lease_holder.key, patch), sent_at)\n",
        after="""\
        written = await self._cluster.patch(LEASE, self.lease_holder.key, patch)
        self._confirm(written, max(sent_at, self._now()))
""",
        tests=("tests/runtime/test_leader_election_leases.py",),
    ),
    Bug(
        id="shorter-lease-wins",
        says="A candidate waits for the shorter of its own lease duration and the one the holder wrote.",
        file="runtime/leader_election.py",
        before="max(self.durations.duration, lease.spec.lease_duration_seconds or 0)",
        after="min(self.durations.duration, lease.spec.lease_duration_seconds or 0)",
        tests=("tests/runtime/test_leader_election_leases.py",),
    ),
    Bug(
        id="lease-patch-without-version",
        says="The Lease is written without the version that was read: two candidates can both win.",
        file="runtime/leader_election.py",
        before='return Patch({"spec": spec}, lease.metadata.resource_version)',
        after='return Patch({"spec": spec})',
        tests=("tests/runtime/test_leader_election.py",),
    ),
    Bug(
        id="lease-released-before-the-work",
        says="The Lease is released before the controllers have stopped.",
        file="runtime/leader_term.py",
        before="""\
            await self._cancel_work(working)
            keeping.cancel()
            await asyncio.wait({keeping})
            if election is not None:
                await election.release()
""",
        after="""\
            keeping.cancel()
            await asyncio.wait({keeping})
            if election is not None:
                await election.release()
            await self._cancel_work(working)
""",
        tests=("tests/runtime/test_leader_election_leases.py",),
    ),
    Bug(
        id="gate-open-after-the-lease",
        says="Writes pass the gate although the Lease has expired.",
        file="runtime/leader_term.py",
        before="        self.gate.open(election.holds if election is not None else lambda: True)\n",
        after="        self.gate.open(lambda: True)\n",
        tests=("tests/runtime/test_leader_election.py",),
    ),
    Bug(
        id="evictions-pass-the-gate",
        says="Evictions are not held back by the gate.",
        file="runtime/write_gate.py",
        before="""\
        async with self._gate.guard("evict", pod.key):
            await self._cluster.evict(pod)
""",
        after="        await self._cluster.evict(pod)\n",
        tests=("tests/runtime/test_write_gate.py",),
    ),
    Bug(
        id="vanished-lease-taken-at-once",
        says="A Lease that was deleted under its holder is created again at once by another candidate.",
        file="runtime/leader_election.py",
        before="""\
            if self._observed[0] and not self._unchanged_for(self.durations.duration):
                raise
""",
        after="",
        tests=("tests/runtime/test_leader_election.py",),
    ),
    Bug(
        id="failed-renewal-remembered",
        says="After a renewal that failed the Lease is not read again before it is written.",
        file="runtime/leader_election.py",
        before="            self._written = None\n            facts",
        after="            facts",
        tests=("tests/runtime/test_leader_election.py",),
    ),
)
