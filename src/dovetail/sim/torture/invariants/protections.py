"""Invariant: do-not-disrupt protects pods from eviction, and their nodes from being selected for disruption.

A pod is protected by `true`, by a duration since its creation, and by any other value except `false`. A node is
protected by `true` on itself or on the template of its NodePool. Exceptions: a drain deadline allows force on every
pod, and a Node that a user deleted is drained of protected pods too, unless its NodeClaim has a terminationGracePeriod.
"""

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import grace_period, is_protected
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import DO_NOT_DISRUPT, annotations
from dovetail.sim.world import ApiCall


class ProtectedPodsStay(Invariant):
    """Protected pods stay on their nodes."""

    name = "protected pods are never evicted"

    def pod_termination_requested(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - it was active
        """Check that the pod is not protected."""
        if not self._is_protected(before) or self.observer.find_node(before.node) is None:
            return
        claim_history = self.observer.claim_on(before.node)
        claim = claim_history.value if claim_history is not None else None
        bounded = claim is not None and claim.has_termination_grace_period
        if before.node in self.observer.deleted_by_users and not bounded:
            return
        if not self.force_allowed(claim, grace_period(before)):
            self.report(f"{call.operation} of {before.key} on {before.node}, protected {_annotation(before)!r}")

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Check that neither the node nor a pod on it is protected."""
        claim, observer = claim_history.value, self.observer
        node = observer.node_of(claim)
        if node is None:
            return
        known_before = observer.now - observer.max_staleness
        protected_since = observer.since.protected_nodes.get(node.value.uid)
        if protected_since is not None and protected_since <= known_before:
            self.report(f"{claim.name} is marked {reason}, but its node is protected")
        elif claim.annotations.get(DO_NOT_DISRUPT) == "true":
            self.report(f"{claim.name} is marked {reason}, but its template is protected")
        for pod in observer.pods_on(node.value.name):
            if observer.since.bound[pod.uid] <= known_before and self._is_protected(pod):
                self.report(f"{claim.name} is marked {reason}, but {pod.key} on it is protected {_annotation(pod)!r}")

    def _is_protected(self, pod: ObjectVersion) -> bool:
        """Whether the pod is protected, and has been for long enough that the controllers know."""
        observer = self.observer
        changed_at = observer.since.annotation_changed_at.get(pod.uid)  # None: unchanged since its creation
        known = changed_at is None or observer.now - changed_at > observer.max_staleness
        return known and is_protected(pod, observer.clock_readings())


def _annotation(pod: ObjectVersion) -> str:
    return str(annotations(pod.plain).get(DO_NOT_DISRUPT, ""))
