"""Patches that replace a list of a Node name the version they were computed from.

A merge patch replaces lists as a whole: one that was computed from an older version takes away the taints and
finalizers that others have added since.

One writer: a replica that writes holds the Lease in that instant, and could not have lost it unknowingly.

Judged in the instant a write takes effect, by the Lease as the API server has it. How long a renewal lasts is what the
Lease says; no other replica may have taken it by then, whatever clock it reads.

A paused pool is left alone, and a replica in a dry run writes nothing at all.

A pause is the annotation `dovetail.sh/pause` on the NodePool, or on the ConfigMap that pauses all of them. Nothing is
marked for a voluntary reason once the pause could be known; commands that had begun are taken back, which `commands`
judges.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer
from dovetail.sim.torture.invariants.readers import is_paused
from dovetail.sim.world import ApiCall


class NodePatchesNameAVersion(Invariant):
    """Nobody's taints and finalizers are overwritten."""

    name = "patches of node lists carry a resourceVersion"

    def about_to(self, call: ApiCall) -> None:
        """A Node may be patched."""
        if call.kind != "Node" or call.patch is None or call.patch.resource_version:
            return
        body = call.patch.body
        lists = [
            name
            for part, name in (("spec", "taints"), ("metadata", "finalizers"), ("metadata", "ownerReferences"))
            if (body.get(part) or {}).get(name) is not None
        ]
        if lists and "resourceVersion" not in (body.get("metadata") or {}):
            self.broken(f"the {' and '.join(lists)} of node {call.key} are patched without a resourceVersion")


class SingleLeader(Invariant):
    """There is one leader, or none."""

    name = "only the holder of the Lease writes"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._holder = ""
        self._ends = 0.0

    def lease_changed(self, holder: str, seconds: float) -> None:
        """It was taken, renewed or given back."""
        self._holder, self._ends = holder, self.history.now + seconds

    def acts(self, who: str, call: ApiCall) -> None:
        """Somebody writes."""
        if who.startswith(DRY_RUN):
            return
        if self._holder != who:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and {self._holder or 'nobody'} leads")
        elif self.history.now > self._ends:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and its lease has run out")


DRY_RUN = "dry-run"
"""How the name of a replica begins that must not write."""


class PausedPoolsAreLeftAlone(Invariant):
    """A pause stops voluntary disruption."""

    name = "paused pools are left alone"

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A node was chosen."""
        history, pool = self.history, story.value.pool
        since = history.now - history.stale
        written = {f"{pool} is paused": history.versions(pool, since)}
        written["the ConfigMap pauses every NodePool"] = history.pause_versions(since)
        for what, versions in written.items():
            if versions and all(is_paused(each, now) for each in versions for now in history.instants()):
                self.broken(f"{story.value.name} is marked {reason}, and {what}")


class DryRunsWriteNothing(Invariant):
    """A dry run decides and tells, and changes nothing."""

    name = "a dry run writes nothing"

    def acts(self, who: str, call: ApiCall) -> None:
        """Somebody writes."""
        if who.startswith(DRY_RUN):
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}")
