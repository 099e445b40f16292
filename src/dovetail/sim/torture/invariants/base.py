"""The base class of invariants, and the watcher that notifies them.

Invariants are notified of every change after it happened, and of every call of the controllers right before it takes
effect. `pod_termination_requested` combines the two: it reports changes of pods that a call of the controllers made,
because an eviction by the controllers is judged differently from a deletion by a user. The observer has already
recorded a change when the invariants are notified of it.
"""

from typing import ClassVar

from dovetail.sim.cloud.service import InstanceRecord
from dovetail.sim.kubernetes.kinds import LEASE, NODE_CLAIM, POD
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange
from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import LEASE_NAME, ClaimHistory, Observer
from dovetail.sim.world import ApiCall


class Invariant:
    """A rule that holds throughout every trial. Subclasses override the notifications they need."""

    name: ClassVar[str]

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """A NodeClaim was created or changed."""

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """A NodeClaim that is not being deleted was just marked with a voluntary disruption reason."""

    def instance_terminating(self, node: NodeView) -> None:
        """The instance of a node begins to shut down; its pods stop with it."""

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """The cloud launched an instance, or its record changed."""

    def pod_termination_requested(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:
        """A call of the controllers evicted or deleted a pod, or shortened its grace period. `after` None: removed."""

    def before_call(self, call: ApiCall) -> None:
        """The controllers are about to make this call."""

    def before_write(self, identity: str, call: ApiCall) -> None:
        """The replica with this identity is about to make this write."""

    def lease_changed(self, holder: str, seconds: float) -> None:
        """The Lease was acquired, renewed or released; a renewal is valid for so many seconds."""

    def on_tick(self) -> None:
        """Some time has passed."""

    def report(self, message: str) -> None:
        """Report a violation of this invariant."""
        self.observer.report_violation(self.name, message)

    def force_allowed(self, claim: ClaimView | None, seconds: float) -> bool:
        """Whether the drain deadline of the claim allows force on a pod with a grace period of so many seconds."""
        deadline = claim.deadline if claim is not None else None
        if deadline is None:
            return False
        return any((deadline - now).total_seconds() <= seconds + 1.0 for now in self.observer.clock_readings())

    def deleted_claim(self, call: ApiCall) -> ClaimView | None:
        """The NodeClaim that the call begins to delete; None if it is another call or the deletion began earlier."""
        if call.operation != "delete" or call.kind != "NodeClaim" or call.key is None:
            return None
        claim_history = self.observer.claims.get(call.key.name)
        return None if claim_history is None or claim_history.value.deleting else claim_history.value


class Watcher:
    """Notifies the invariants of calls and changes."""

    def __init__(self, observer: Observer, invariants: tuple[Invariant, ...]) -> None:
        self._observer = observer
        self._invariants = invariants
        self._call: ApiCall | None = None
        self._called_at = -1.0

    def call(self, identity: str, call: ApiCall, *, writes: bool) -> None:
        """The replica with this identity is about to make a call."""
        self._call, self._called_at = call, self._observer.now
        for each in self._invariants:
            each.before_call(call)
            if writes:
                each.before_write(identity, call)

    def on_change(self, step: StoreChange) -> None:
        """An object changed."""
        resource, key = step.after.resource, step.after.key
        known = self._observer.claims.get(key.name) if resource == NODE_CLAIM else None
        claim_before = known.value if known is not None else None
        self._observer.on_change(step)
        if resource == POD:
            self._pod_changed(step)
        elif resource == NODE_CLAIM and step.type != "DELETED":
            self._claim_changed(claim_before, self._observer.claims[key.name])
        elif resource == LEASE and step.type != "DELETED" and key == LEASE_NAME:
            spec = step.after.plain["spec"]
            for each in self._invariants:
                each.lease_changed(spec.get("holderIdentity", ""), float(spec["leaseDurationSeconds"]))

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """The cloud launched an instance, or its record changed."""
        node = self._observer.nodes.get(after.provider_id)
        ends = before is not None and before.runs and not after.runs
        for each in self._invariants:
            each.instance_changed(before, after)
            if ends and node is not None:
                each.instance_terminating(node.value)

    def on_tick(self) -> None:
        """Some time has passed."""
        for each in self._invariants:
            each.on_tick()

    def _claim_changed(self, before: ClaimView | None, claim_history: ClaimHistory) -> None:
        after = claim_history.value
        marked = after.voluntary_reason and not after.deleting and not (before is not None and before.voluntary_reason)
        for each in self._invariants:
            each.claim_changed(before, after)
            if marked:
                each.claim_marked(claim_history, after.voluntary_reason)

    def _pod_changed(self, step: StoreChange) -> None:
        """Notify if the current call of the controllers made this change: same object, same virtual time."""
        call, before = self._call, step.before
        if call is None or before is None or step.at != self._called_at or call.key != step.after.key:
            return
        if call.operation not in ("evict", "delete") or call.kind != "Pod":
            return
        after = step.after if step.type != "DELETED" else None
        if after is not None and after.meta.get("deletionTimestamp") == before.meta.get("deletionTimestamp"):
            return
        for each in self._invariants:
            each.pod_termination_requested(before, after, call)
