"""A paused pool is left alone, and a replica in a dry run writes nothing at all.

A pause is the annotation `dovetail.sh/pause` on the NodePool, or on the ConfigMap that pauses all of them. Nothing is
marked for a voluntary reason once the pause could be known; commands that had begun are taken back, which `commands`
judges.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import is_paused
from dovetail.sim.world import ApiCall

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
