"""Invariant: no node is marked too early, for a reason its pool does not permit, or for a reason that is not true.

Checked when a node is marked, with the most permissive version of its pool that the controllers may have read:

- `WhenEmpty` permits no Underutilized; a node with a pod that must be rescheduled is not Empty;
- Empty and Underutilized: `consolidateAfter`, `disruptAfter` and `consolidationGracePeriod` have passed since a pod was
  last bound to the node or ended there, or since the node was initialized if there was none. Pods that ended while
  faults were injected do not count: a process that started later cannot know of them;
- Drifted: the template changed after the claim was created, and `disruptAfter` of Drift has passed since the condition
  Drifted. Without `disruptAfter` a node may be marked before its claim has the condition;
- Expired: the claim is older than `expireAfter` and `disruptAfter` of Expiration.

Delays are not checked while the clock of the controllers is skewed, or if it was skewed when the delay began.
"""

from datetime import timedelta

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import disruption_delay, only_when_empty
from dovetail.sim.torture.invariants.objects import ClaimView, is_daemon, must_be_rescheduled, tolerates_disruption
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import parse_time

SILENT_WATCH = 180.0
"""Seconds for which NodeClaims may be created from an old template: a silent NodePool watch is detected after 150 s."""
TIMESTAMP_SLACK = 12.0  # pod events are recorded within ten seconds, and the API stores whole seconds


class DelaysAreKept(Invariant):
    """Every node keeps running for as long as its pool guarantees."""

    name = "no node is marked too early"

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Check the policy, the reason and the delay."""
        observer, claim = self.observer, claim_history.value
        versions = observer.versions(claim.pool, observer.now - observer.max_staleness)
        if not versions:
            return
        if reason == "Underutilized" and all(map(only_when_empty, versions)):
            self.report(f"{claim.name} is marked Underutilized, but {claim.pool} consolidates empty nodes only")
        if reason == "Empty":
            self._check_empty(claim)
        if reason == "Drifted":
            self._check_drifted(claim_history)
        since = self._delay_begins_at(claim_history, reason)
        if since is None:
            return
        waited = observer.now - since
        if observer.supervisor.clock.correct_since >= observer.world.clock.now() - timedelta(seconds=waited):
            return
        delay = min(disruption_delay(each, reason) for each in versions)
        if waited >= 0 and waited + TIMESTAMP_SLACK < delay:  # a begin in the future was written with a skewed clock
            required = f"{claim.pool} requires {delay:.0f} s"
            self.report(f"{claim.name} is marked {reason} after {waited:.0f} s, but {required}")

    def _delay_begins_at(self, claim_history: ClaimHistory, reason: str) -> float | None:
        """When the delay begins, in seconds since the start; None if unknown."""
        observer, claim = self.observer, claim_history.value
        if reason == "Expired":
            return claim_history.created_at
        if reason == "Drifted":
            drifted = claim.conditions.get("Drifted", {})
            return (
                observer.seconds_at(parse_time(drifted["lastTransitionTime"])) if claim.has("Drifted") else observer.now
            )
        node = observer.node_of(claim)
        initialized_at = claim.conditions.get("Initialized", {}).get("lastTransitionTime")
        if node is None or initialized_at is None:
            return None
        known_before, name, table = observer.now - observer.max_staleness, node.value.name, observer.since
        bound = [table.bound[pod.uid] for pod in observer.pods_on(name) if pod.active and not is_daemon(pod)]
        all_ends = table.pod_ends.get(name, ())
        ends = [at for at in all_ends if observer.undisturbed_since(at)]
        if not bound and not ends:  # pods that ended while faults were injected: unknown what was recorded
            return None if all_ends else observer.seconds_at(parse_time(initialized_at))
        if reason != "Empty":  # a node marked Empty is known to have lost its pods
            ends = [at for at in ends if at <= known_before]
        return max([at for at in bound if at <= known_before] + ends, default=None)

    def _check_empty(self, claim: ClaimView) -> None:
        observer, node = self.observer, self.observer.node_of(claim)
        known_before = observer.now - observer.max_staleness
        for pod in observer.pods_on(node.value.name) if node is not None else ():
            must_move = must_be_rescheduled(pod) and not tolerates_disruption(pod)
            if must_move and observer.since.bound[pod.uid] <= known_before:
                self.report(f"{claim.name} is marked Empty, but {pod.key} runs on it")

    def _check_drifted(self, claim_history: ClaimHistory) -> None:
        observer, claim = self.observer, claim_history.value
        versions = observer.versions(claim.pool, claim_history.created_at - SILENT_WATCH)
        templates = [each["spec"]["template"] for each in versions]
        if all(each == templates[0] for each in templates):
            self.report(f"{claim.name} is marked Drifted, but the template of {claim.pool} did not change")
