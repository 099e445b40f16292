"""Invariants on writes: only the leader writes, dry runs do not write, pauses hold, and Node lists are patched safely.

Leader: checked when a write takes effect, against the Lease in the API server. A renewal is valid for the duration that
the Lease states; no other replica can have acquired it before then, whatever its clock says.

Pause: the annotation `dovetail.sh/pause` on a NodePool, or on the ConfigMap that pauses all NodePools. No node is
marked for a voluntary reason once the controllers must know of the pause. `commands` checks commands in progress.

Node lists: a merge patch replaces a list as a whole, so a patch that was computed from an older version removes taints
and finalizers that others have added since. It must name the resourceVersion it was computed from.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer
from dovetail.sim.torture.invariants.readers import is_paused
from dovetail.sim.world import ApiCall


class NodePatchesNameAVersion(Invariant):
    """Patches do not overwrite taints, finalizers and owner references of others."""

    name = "patches of node lists carry a resourceVersion"

    def before_call(self, call: ApiCall) -> None:
        """Check patches of Nodes."""
        if call.kind != "Node" or call.patch is None or call.patch.resource_version:
            return
        body = call.patch.body
        lists = [
            name
            for part, name in (("spec", "taints"), ("metadata", "finalizers"), ("metadata", "ownerReferences"))
            if (body.get(part) or {}).get(name) is not None
        ]
        if lists and "resourceVersion" not in (body.get("metadata") or {}):
            self.report(f"the {' and '.join(lists)} of node {call.key} are patched without a resourceVersion")


class SingleLeader(Invariant):
    """Only the holder of an unexpired Lease writes."""

    name = "only the holder of the Lease writes"

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self._holder = ""
        self._expires_at = 0.0

    def lease_changed(self, holder: str, seconds: float) -> None:
        """Record the holder and the expiry."""
        self._holder, self._expires_at = holder, self.observer.now + seconds

    def before_write(self, identity: str, call: ApiCall) -> None:
        """Check the identity of the writer."""
        if identity.startswith(DRY_RUN):
            return
        write = f"{identity} is about to {call.operation} {call.kind} {call.key}"
        if self._holder != identity:
            self.report(f"{write}, but {self._holder or 'no replica'} holds the Lease")
        elif self.observer.now > self._expires_at:
            self.report(f"{write}, but its Lease has expired")


DRY_RUN = "dry-run"
"""The prefix of the identity of a replica in dry run."""


class PausedPoolsAreLeftAlone(Invariant):
    """A pause prevents voluntary disruption."""

    name = "paused NodePools are not disrupted"

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Check that neither the pool nor all pools are paused."""
        observer, pool = self.observer, claim_history.value.pool
        since = observer.now - observer.max_staleness
        versions_by_pause = {f"{pool} is paused": observer.versions(pool, since)}
        versions_by_pause["the ConfigMap pauses every NodePool"] = observer.pause_versions(since)
        for what, versions in versions_by_pause.items():
            if versions and all(is_paused(each, now) for each in versions for now in observer.clock_readings()):
                self.report(f"{claim_history.value.name} is marked {reason}, but {what}")


class DryRunsWriteNothing(Invariant):
    """A replica in dry run does not write."""

    name = "a dry run writes nothing"

    def before_write(self, identity: str, call: ApiCall) -> None:
        """Check the identity of the writer."""
        if identity.startswith(DRY_RUN):
            self.report(f"{identity} is about to {call.operation} {call.kind} {call.key}")
