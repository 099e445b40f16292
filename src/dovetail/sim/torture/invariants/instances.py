"""The cloud never has two instances for one NodeClaim, by the cloud's own records.

That none is left over in the end is judged once nothing fails any more (`rest`).

No instance ends while a pod runs on its node that a drain has to wait for, or while a volume is attached to it.

Judged when the node goes, by what the API server has at that instant. That the controllers had not heard of the pod is
no excuse: they have to list the pods of a node right before its instance ends. Excused are:

- nodes whose instance was lost, killed or reclaimed, and claims past the deadline of their terminationGracePeriod or
  repaired by force;
- nodes that never registered, or whose NodeClaim is gone: nothing is drained there;
- pods that a drain leaves: finished, static, tolerating the disruption taint, or more than a minute overdue. A pod of a
  DaemonSet is drained like any other, unless it tolerates the taint;
- the race between the list and the end: a pod bound after the pods of the node were last listed, or within `RACE`;
- volumes attached within the last seconds, and those of pods that the drain leaves.

A node whose instance is lost is let go: silent, and unknown to its provider, it holds nothing up for long.

An instance that is lost during a drain ends it; one that is lost at any other time is noticed by comparing. Neither
waits for a budget, a protection or a grace: there is nothing left to protect. After a fault all the time is granted
once more: a fault waits for its calls, however late they come.
"""

from collections.abc import Iterator

from dovetail.sim.cloud.service import InstanceRecord
from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView, holds_up_a_drain
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer


class OneInstanceForAClaim(Invariant):
    """A launch that is repeated finds its instance."""

    name = "one instance for a claim"

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """An instance may be new."""
        if before is not None or not after.claim_uid:
            return
        same = [each for each in self.history.world.cloud.instances.values() if each.claim_uid == after.claim_uid]
        if sum(each.exists for each in same) > 1:
            self.broken(f"{after.claim} has {len(same)} instances: {', '.join(each.provider_id for each in same)}")


RACE = 2.0
LISTED_WITHIN = 60.0
"""Seconds for which a list counts: the call that ends the instance takes up to 45 in a story, and others precede it."""
ATTACHMENTS = ("storage.k8s.io", "VolumeAttachment")
VOLUME_CLAIMS = ("", "PersistentVolumeClaim")


class NoInstanceEndsUnderPods(Invariant):
    """What still runs is evicted first."""

    name = "no instance ends under a running pod"

    def node_gone(self, node: NodeView) -> None:
        """The instance of a node ended."""
        history = self.history
        claim = drained_claim(node, history)
        if claim is None or self.forced(claim, 0.0):
            return
        known_at = bound_before(node.name, history)
        for pod in history.pods_on(node.name):
            bound_at = history.since.bound[pod.uid]
            if bound_at < known_at and holds_up_a_drain(pod, history.instants()):
                self.broken(f"{pod.key}, bound {history.now - bound_at:.0f} s before, ran on {node.name} when it ended")


class VolumesAreDetached(Invariant):
    """A volume is not torn off: it is detached before its instance ends."""

    name = "volumes are detached before the instance ends"

    def node_gone(self, node: NodeView) -> None:
        """The instance of a node ended."""
        history = self.history
        claim = drained_claim(node, history)
        if claim is None or self.forced(claim, 0.0):
            return
        left = {volume for pod in history.pods_on(node.name) for volume in self._volumes(pod)}
        known = history.now - history.stale
        for attached in history.world.store.all(ATTACHMENTS):
            spec = attached.plain["spec"]
            volume = spec["source"].get("persistentVolumeName")
            made_at = history.at_creation(attached)
            if spec["nodeName"] == node.name and volume not in left and made_at <= known:
                self.broken(f"volume {volume} was attached to {node.name} when its instance ended")

    def _volumes(self, pod: ObjectVersion) -> Iterator[str]:
        """The volumes that a pod which is still there uses."""
        names = [
            (each.get("persistentVolumeClaim") or {}).get("claimName")
            for each in pod.plain["spec"].get("volumes") or ()
        ]
        for claim in self.history.world.store.all(VOLUME_CLAIMS) if names else ():
            if claim.key.namespace == pod.key.namespace and claim.key.name in names:
                yield claim.plain["spec"].get("volumeName", "")


def drained_claim(node: NodeView, history: Observer) -> ClaimView | None:
    """The claim of a node that has to be drained before its instance ends; None if nothing has to be."""
    claim = next((each.value for each in history.claims.values() if each.value.provider_id == node.provider_id), None)
    if node.name in history.excused_nodes or claim is None or not claim.has("Registered"):
        return None
    return claim


def bound_before(node: str, history: Observer) -> float:
    """Pods bound to the node before this instant have to be known now."""
    now = history.now
    listed_at = history.supervisor.trouble.pods_listed_at.get(node, now)
    return min(now - RACE, listed_at) if now - listed_at <= LISTED_WITHIN else now - RACE


DRAINED_WITHIN = 300.0  # seconds in which a leader, or the next one, must have ended the drain
NOTICED_WITHIN = 600.0  # and compared, which is done every two minutes


class LostInstancesAreNoticed(Invariant):
    """Nothing waits for an instance that is gone."""

    name = "lost instances are let go"

    def look(self) -> None:
        """Time has passed."""
        for each in self.history.claims.values() if self.history.lost_nodes else ():
            since = self._silent_since(each)
            if since is None:
                continue
            began, patience = since, NOTICED_WITHIN
            if each.deleting_since is not None:
                began, patience = max(since, each.deleting_since), DRAINED_WITHIN
            if self.history.now - began > patience:
                self.broken(f"{each.value.name} is still there, {patience:.0f} s after its lost instance fell silent")

    def _silent_since(self, story: ClaimHistory) -> float | None:
        """Since when its instance is lost and its node says so, if that is how it is."""
        node = self.history.node_of(story.value)
        lost_at = self.history.lost_nodes.get(node.value.name) if node is not None else None
        if node is None or lost_at is None or node.unready_since is None or not story.value.has("Registered"):
            return None
        return max(lost_at, node.unready_since, self.history.supervisor.trouble.struck_at)
