"""Invariants on instances: one for each NodeClaim, no termination under running pods, and lost ones are removed.

The records of the simulated cloud show whether a NodeClaim has two instances. That no instance remains in the end is
checked in `quiescence`.

No instance terminates while its node runs a pod that the drain has to wait for, or while a volume is attached. Checked
with the objects of the API server at that time: a stale cache is no excuse, because the controllers must list the
pods of a node right before its instance terminates. Not checked are:

- nodes whose instance was lost, killed or reclaimed by the trial, and NodeClaims past their drain deadline;
- nodes that never registered, or whose NodeClaim is gone: nothing is drained there;
- pods that a drain ignores: finished, static, tolerating the disruption taint, or overdue by more than a minute. A
  DaemonSet pod is drained like any other unless it tolerates the taint;
- pods bound after the last list of the pods of the node, or within `RACE_SECONDS` of the termination;
- recently attached volumes, and volumes of pods that remain on the node.

A node whose instance is lost is removed soon: a drain of it ends, and otherwise garbage collection finds it. Neither
waits for budgets, protections or grace periods. The time starts again after each injected fault of a call.
"""

from collections.abc import Iterator

from dovetail.sim.cloud.service import InstanceRecord
from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView, blocks_drain
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer


class OneInstanceForAClaim(Invariant):
    """A repeated launch returns the instance of the first one."""

    name = "one instance for each NodeClaim"

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """Count the instances of the NodeClaim of a new instance."""
        if before is not None or not after.claim_uid:
            return
        same = [each for each in self.observer.world.cloud.instances.values() if each.claim_uid == after.claim_uid]
        if sum(each.exists for each in same) > 1:
            self.report(f"{after.claim} has {len(same)} instances: {', '.join(each.provider_id for each in same)}")


RACE_SECONDS = 2.0
LIST_VALID_SECONDS = 60.0  # the call that terminates the instance takes up to 45 s, and others precede it
ATTACHMENTS = ("storage.k8s.io", "VolumeAttachment")
VOLUME_CLAIMS = ("", "PersistentVolumeClaim")


class NoInstanceEndsUnderPods(Invariant):
    """Pods are evicted before their instance terminates."""

    name = "no instance terminates under a running pod"

    def instance_terminating(self, node: NodeView) -> None:
        """Check the node whose instance terminates."""
        observer = self.observer
        claim = drained_claim(node, observer)
        if claim is None or self.force_allowed(claim, 0.0):
            return
        known_at = bound_before(node.name, observer)
        for pod in observer.pods_on(node.name):
            bound_at = observer.since.bound[pod.uid]
            if bound_at < known_at and blocks_drain(pod, observer.clock_readings()):
                bound = f"bound {observer.now - bound_at:.0f} s before"
                self.report(f"{pod.key}, {bound}, ran on {node.name} when its instance terminated")


class VolumesAreDetached(Invariant):
    """Volumes are detached before their instance terminates."""

    name = "volumes are detached before the instance terminates"

    def instance_terminating(self, node: NodeView) -> None:
        """Check the node whose instance terminates."""
        observer = self.observer
        claim = drained_claim(node, observer)
        if claim is None or self.force_allowed(claim, 0.0):
            return
        used = {volume for pod in observer.pods_on(node.name) for volume in self._volumes(pod)}
        known_before = observer.now - observer.max_staleness
        for attached in observer.world.store.all(ATTACHMENTS):
            spec = attached.plain["spec"]
            volume = spec["source"].get("persistentVolumeName")
            made_at = observer.creation_time(attached)
            if spec["nodeName"] == node.name and volume not in used and made_at <= known_before:
                self.report(f"volume {volume} was attached to {node.name} when its instance terminated")

    def _volumes(self, pod: ObjectVersion) -> Iterator[str]:
        """The persistent volumes of a pod."""
        names = [
            (each.get("persistentVolumeClaim") or {}).get("claimName")
            for each in pod.plain["spec"].get("volumes") or ()
        ]
        for claim in self.observer.world.store.all(VOLUME_CLAIMS) if names else ():
            if claim.key.namespace == pod.key.namespace and claim.key.name in names:
                yield claim.plain["spec"].get("volumeName", "")


def drained_claim(node: NodeView, observer: Observer) -> ClaimView | None:
    """The claim of a node that must be drained before its instance terminates; None if there is nothing to drain."""
    claim = next((each.value for each in observer.claims.values() if each.value.provider_id == node.provider_id), None)
    if node.name in observer.excused_nodes or claim is None or not claim.has("Registered"):
        return None
    return claim


def bound_before(node: str, observer: Observer) -> float:
    """The controllers must know the pods that were bound to the node before this second."""
    now = observer.now
    listed_at = observer.supervisor.fault_injector.pods_listed_at.get(node, now)
    return min(now - RACE_SECONDS, listed_at) if now - listed_at <= LIST_VALID_SECONDS else now - RACE_SECONDS


DRAIN_END_SECONDS = 300.0  # in which a leader, or the next one, must end a drain
GARBAGE_COLLECTION_SECONDS = 600.0  # garbage collection runs every two minutes


class LostInstancesAreNoticed(Invariant):
    """Nodes of lost instances are removed."""

    name = "lost instances are removed"

    def on_tick(self) -> None:
        """Report claims of lost instances that still exist after their time."""
        for each in self.observer.claims.values() if self.observer.lost_nodes else ():
            since = self._lost_since(each)
            if since is None:
                continue
            limit = GARBAGE_COLLECTION_SECONDS
            if each.deleting_since is not None:
                since, limit = max(since, each.deleting_since), DRAIN_END_SECONDS
            if self.observer.now - since > limit:
                self.report(f"{each.value.name} still exists {limit:.0f} s after its instance was lost")

    def _lost_since(self, claim_history: ClaimHistory) -> float | None:
        """Since when its instance is lost, its node not ready and no call failed; None if the instance is not lost."""
        node = self.observer.node_of(claim_history.value)
        lost_at = self.observer.lost_nodes.get(node.value.name) if node is not None else None
        if node is None or lost_at is None or node.unready_since is None or not claim_history.value.has("Registered"):
            return None
        return max(lost_at, node.unready_since, self.observer.supervisor.fault_injector.last_fault_at)
