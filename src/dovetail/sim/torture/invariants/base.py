"""What an invariant is, and when it is asked: at every change of the objects it is about, and at every call.

Invariants hear a change after it happened, and a call of the controllers right before it takes effect. A change of a
pod that a call of the controllers made is told apart (`pod_stopped`): who made a change decides whether it is allowed.
"""

from typing import ClassVar

from dovetail.sim.cloud.service import InstanceRecord
from dovetail.sim.kubernetes.kinds import LEASE, NODE_CLAIM, POD
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import LEASE_NAME, ClaimHistory, Observer
from dovetail.sim.world import ApiCall


class Invariant:
    """Something that holds whatever happens."""

    name: ClassVar[str]

    def __init__(self, history: Observer) -> None:
        self.history = history

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """A claim is new or changed; the history has it already."""

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A claim that is not deleted was marked for a voluntary reason just now."""

    def node_gone(self, node: NodeView) -> None:
        """The instance behind a node begins to end: what ran on it is cut off."""

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """The cloud launched an instance, or its record changed."""

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:
        """A call of the controllers told a pod to stop, or to stop sooner. `after` None: it is gone at once."""

    def about_to(self, call: ApiCall) -> None:
        """The controllers are about to do this."""

    def acts(self, who: str, call: ApiCall) -> None:
        """One of the replicas is about to write this."""

    def lease_changed(self, holder: str, seconds: float) -> None:
        """The Lease was taken, renewed or given back; a renewal lasts that many seconds."""

    def look(self) -> None:
        """Some time has passed."""

    def broken(self, message: str) -> None:
        """It does not hold."""
        self.history.broken(self.name, message)

    def forced(self, claim: ClaimView | None, seconds: float) -> bool:
        """Whether the deadline of the claim's drain allows force on a pod that needs this many seconds to stop."""
        deadline = claim.deadline if claim is not None else None
        if deadline is None:
            return False
        return any((deadline - now).total_seconds() <= seconds + 1.0 for now in self.history.instants())


class Watcher:
    """Tells the invariants what happens."""

    def __init__(self, history: Observer, invariants: tuple[Invariant, ...]) -> None:
        self._history = history
        self._invariants = invariants
        self._call: ApiCall | None = None
        self._called_at = -1.0

    def call(self, who: str, call: ApiCall, *, writes: bool) -> None:
        """A replica is about to make a call."""
        self._call, self._called_at = call, self._history.now
        for each in self._invariants:
            each.about_to(call)
            if writes:
                each.acts(who, call)

    def hear(self, step: StoreChange) -> None:
        """Something changed."""
        before = self._claim_before(step)
        self._history.hear(step)
        resource = step.after.resource
        if resource == POD:
            self._pod_changed(step)
        elif resource == NODE_CLAIM and step.type != "DELETED":
            self._claim_changed(before)
        elif resource == LEASE and step.type != "DELETED" and step.after.key == LEASE_NAME:
            spec = step.after.plain["spec"]
            for each in self._invariants:
                each.lease_changed(spec.get("holderIdentity", ""), float(spec["leaseDurationSeconds"]))

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """The cloud launched an instance, or its record changed."""
        node = self._history.nodes.get(after.provider_id)
        ends = before is not None and before.runs and not after.runs
        for each in self._invariants:
            each.instance_changed(before, after)
            if ends and node is not None:
                each.node_gone(node.value)

    def look(self) -> None:
        """Some time has passed."""
        for each in self._invariants:
            each.look()

    def _claim_before(self, step: StoreChange) -> tuple[ClaimView | None, str] | None:
        if step.after.resource != NODE_CLAIM:
            return None
        known = self._history.claims.get(step.after.key.name)
        return (known.value if known is not None else None, step.after.key.name)

    def _claim_changed(self, found: tuple[ClaimView | None, str] | None) -> None:
        assert found is not None, "only changes of claims come here"
        before, story = found[0], self._history.claims[found[1]]
        marked = story.value.voluntary and not story.value.deleting and not (before is not None and before.voluntary)
        for each in self._invariants:
            each.claim_changed(before, story.value)
            if marked:
                each.claim_marked(story, story.value.voluntary)

    def _pod_changed(self, step: StoreChange) -> None:
        call, before = self._call, step.before
        if call is None or before is None or step.at != self._called_at or call.key != step.after.key:
            return
        if call.operation not in ("evict", "delete") or call.kind != "Pod":
            return
        after = step.after if step.type != "DELETED" else None
        if after is not None and after.meta.get("deletionTimestamp") == before.meta.get("deletionTimestamp"):
            return
        for each in self._invariants:
            each.pod_stopped(before, after, call)
