"""No node is marked before its time, for a reason its pool does not permit, or for a reason that is not true.

Judged when a node is marked, by the loosest version of its pool that could have been read:

- `WhenEmpty` takes no node as Underutilized; a node with a pod that has to move is not Empty;
- Empty and Underutilized: `consolidateAfter`, `disruptAfter` and `consolidationGracePeriod` have passed since a pod
  last came to the node or ended there, or since the node was initialized if none did. An end that happened while the
  controllers were made to fail does not count: a process that starts later cannot know of it;
- Drifted: the template changed after the claim was made, and `disruptAfter` of Drift has passed since the claim says
  so. Without `disruptAfter` a node may be marked before its claim says that it is drifted;
- Expired: the claim is as old as `expireAfter` and `disruptAfter` of Expiration.

While the clock of the controllers is wrong, or was at the instant they count from, no wait is judged.
"""

from datetime import timedelta

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import only_when_empty, wait_for
from dovetail.sim.torture.invariants.objects import ClaimView, is_daemon, needs_a_place, tolerates_disruption
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import instant

SILENT = (
    180.0  # a NodePool watch that fell silent is given up after 150 s; claims are made from the old template until then
)
SLACK = 12.0  # events are written down within ten seconds; the API keeps whole ones


class DelaysAreKept(Invariant):
    """Every node has the time its pool grants it."""

    name = "no node is marked before its time"

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A node was marked."""
        history, claim = self.history, story.value
        versions = history.versions(claim.pool, history.now - history.stale)
        if not versions:
            return
        if reason == "Underutilized" and all(map(only_when_empty, versions)):
            self.broken(f"{claim.name} is marked Underutilized, and {claim.pool} takes empty nodes alone")
        if reason == "Empty":
            self._judge_empty(claim)
        if reason == "Drifted":
            self._judge_drifted(story)
        wait, since = min(wait_for(each, reason) for each in versions), self._since(story, reason)
        if since is None or history.supervisor.clock.right_since >= history.world.clock.now() - timedelta(
            seconds=history.now - since
        ):
            return
        waited = history.now - since
        if waited >= 0 and waited + SLACK < wait:  # a beginning in the future was written with a wrong clock
            self.broken(f"{claim.name} is marked {reason} after {waited:.0f} s, and {claim.pool} says {wait:.0f} s")

    def _since(self, story: ClaimHistory, reason: str) -> float | None:
        """What the wait counts from, in seconds since the start."""
        history, claim = self.history, story.value
        if reason == "Expired":
            return story.born_at
        if reason == "Drifted":
            drifted = claim.conditions.get("Drifted", {})
            return history.at(instant(drifted["lastTransitionTime"])) if claim.has("Drifted") else history.now
        node = history.node_of(claim)
        begin = claim.conditions.get("Initialized", {}).get("lastTransitionTime")
        if node is None or begin is None:
            return None
        known, name, table = history.now - history.stale, node.value.name, history.since
        bound = [table.bound[pod.uid] for pod in history.pods_on(name) if pod.active and not is_daemon(pod)]
        every_end = table.pod_ends.get(name, ())
        ends = [at for at in every_end if history.calm(at)]
        if not bound and not ends:  # of pods that ended while something failed, no one can tell what was noted
            return None if every_end else history.at(instant(begin))
        if reason != "Empty":  # a node that is taken for empty is known to have lost its pods
            ends = [at for at in ends if at <= known]
        return max([at for at in bound if at <= known] + ends, default=None)

    def _judge_empty(self, claim: ClaimView) -> None:
        history, node = self.history, self.history.node_of(claim)
        known = history.now - history.stale
        for pod in history.pods_on(node.value.name) if node is not None else ():
            moves = needs_a_place(pod) and not tolerates_disruption(pod)
            if moves and history.since.bound[pod.uid] <= known:
                self.broken(f"{claim.name} is marked Empty, and {pod.key} runs on it")

    def _judge_drifted(self, story: ClaimHistory) -> None:
        history, claim = self.history, story.value
        versions = history.versions(claim.pool, story.born_at - SILENT)
        templates = [each["spec"]["template"] for each in versions]
        if all(each == templates[0] for each in templates):
            self.broken(f"{claim.name} is marked Drifted, and the template of {claim.pool} is as it was")
