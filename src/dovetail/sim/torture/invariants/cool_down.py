"""Invariant: in pools with minSavings, consolidation does not evict a pod again right after it moved.

A pod that was evicted is replaced by a new one, so nothing on the new pod tells why it exists. The rule is therefore
about all pods: none that was bound less than two minutes ago is on a node that consolidation selects. Pods that the
controllers may not have known of yet do not count, nor does a node that was selected while the clock was wrong.
"""

from datetime import timedelta

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import is_restrained
from dovetail.sim.torture.invariants.objects import must_be_rescheduled, tolerates_disruption
from dovetail.sim.torture.invariants.observer import ClaimHistory

COOL_DOWN = 120.0
TIMESTAMP_SLACK = 2.0  # the API stores whole seconds


class MovedPodsCoolDown(Invariant):
    """No pod is evicted by consolidation twice within its cool-down."""

    name = "consolidation leaves pods alone that just moved"

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Check the pods of a node that consolidation selects."""
        observer, claim = self.observer, claim_history.value
        node = observer.node_of(claim)
        versions = observer.versions(claim.pool, observer.now - observer.max_staleness)
        if reason != "Underutilized" or node is None or not versions or not all(map(is_restrained, versions)):
            return
        if observer.supervisor.clock.correct_since >= observer.world.clock.now() - timedelta(seconds=COOL_DOWN):
            return
        for pod in observer.pods_on(node.value.name):
            if not pod.active or not must_be_rescheduled(pod) or tolerates_disruption(pod):
                continue
            age = observer.now - observer.since.bound[pod.uid]
            if observer.max_staleness <= age < COOL_DOWN - TIMESTAMP_SLACK:
                self.report(f"{claim.name} is marked Underutilized, but {pod.key} was bound to it {age:.0f} s ago")
