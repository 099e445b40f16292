"""What do-not-disrupt protects stays: protected pods are not evicted, and their nodes are not chosen.

A pod is protected by `true`, by a duration from its creation, and by any other value but `false`; a node by `true`, its
own or that of the NodePool's template. Exceptions: a drain with a deadline takes every pod in the end, and a Node that
somebody deleted by hand is drained of its protected pods too, unless its claim has a terminationGracePeriod.
"""

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import is_protected, own_grace
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.readers import DO_NOT_DISRUPT, annotations
from dovetail.sim.world import ApiCall


class ProtectedPodsStay(Invariant):
    """What is protected stays where it is."""

    name = "protected pods are never evicted"

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - it was active
        """A pod was evicted, or deleted."""
        if not self._protected(before) or self.history.node_named(before.node) is None:
            return
        story = self.history.claim_on(before.node)
        claim = story.value if story is not None else None
        bounded = claim is not None and claim.bounded
        if before.node in self.history.deleted_by_hand and not bounded:
            return
        if not self.forced(claim, own_grace(before)):
            self.broken(f"{call.operation} of {before.key} on {before.node}, protected {_written(before)!r}")

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A node was chosen."""
        claim, history = story.value, self.history
        node = history.node_of(claim)
        if node is None:
            return
        known = history.now - history.stale
        guarded_since = history.since.guarded_nodes.get(node.value.uid)
        if guarded_since is not None and guarded_since <= known:
            self.broken(f"{claim.name} is marked {reason}, and its node is protected")
        elif claim.annotations.get(DO_NOT_DISRUPT) == "true":
            self.broken(f"{claim.name} is marked {reason}, and the template it was made from is protected")
        for pod in history.pods_on(node.value.name):
            if history.since.bound[pod.uid] <= known and self._protected(pod):
                self.broken(f"{claim.name} is marked {reason}, and {pod.key} on it is protected {_written(pod)!r}")

    def _protected(self, pod: ObjectVersion) -> bool:
        """Whether it is, and could be known to be."""
        history = self.history
        changed_at = history.since.annotated.get(pod.uid)  # None: it was created so
        known = changed_at is None or history.now - changed_at > history.stale
        return known and is_protected(pod, history.instants())


def _written(pod: ObjectVersion) -> str:
    return str(annotations(pod.plain).get(DO_NOT_DISRUPT, ""))
