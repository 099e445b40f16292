"""Invariants on evictions: PodDisruptionBudgets hold, drains go tier by tier, and pods keep their grace period.

PodDisruptionBudgets: the controllers evict pods only from nodes that are being deleted, and delete a pod only when the
drain deadline allows force. Healthy pods are counted from the pods, not from the status of the budget: after the
eviction of a healthy pod, as many must remain as the budget requires for the replicas of the workloads. A pod that
users stopped so recently that the disruption controller has not counted it yet still counts as healthy.

Tiers: pods, then DaemonSet pods, then critical pods, then critical DaemonSet pods. At an eviction no pod of an earlier
tier that the drain has to wait for may remain on the node. Recently bound pods and forced deletions are not checked.

Grace periods, compared with `deletionGracePeriodSeconds` that the API server stored:

- a pod gets its full `terminationGracePeriodSeconds`, or the time until the drain deadline if that is shorter, and
  never 0 seconds on a running node;
- a finished pod is removed at once by the API server, whatever grace period is requested;
- a deadline that is known early enough shortens no grace period: the pod is deleted early enough before it. This is
  checked only if no faults were injected since.
"""

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import NodeView, blocks_drain, grace_period, is_finished, tier
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer
from dovetail.sim.torture.invariants.readers import Plain, scaled_value, selector_matches
from dovetail.sim.world import ApiCall

PDB_SYNC_SECONDS = 1.0  # the disruption controller counts the pods of a budget within this time


class DisruptionBudgetsHold(Invariant):
    """No pod is evicted against its PodDisruptionBudgets."""

    name = "PodDisruptionBudgets are never violated"

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self._evicted: set[str] = set()  # uids

    def pod_termination_requested(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - it was active
        """Check the node, the kind of call, and the PodDisruptionBudgets of the pod."""
        node = self.observer.find_node(before.node)
        if node is None or not before.active:
            return
        claim_history = self.observer.claim_on(before.node)
        claim = claim_history.value if claim_history is not None else None
        if call.operation == "delete":
            if not self.force_allowed(claim, grace_period(before)):
                self.report(f"{before.key} on {before.node} is deleted instead of evicted")
            return
        if not node.value.deleting and not (claim is not None and claim.deleting):
            self.report(f"{before.key} is evicted from {before.node}, which is not being deleted")
        self._evicted.add(before.uid)
        if before.ready:
            for budget in self.observer.pdbs_of(before):
                self._check_budget(budget, before)

    def _check_budget(self, budget: ObjectVersion, evicted: ObjectVersion) -> None:
        pods = [
            pod
            for pod in self.observer.pods()
            if pod.key.namespace == budget.key.namespace
            and selector_matches(budget.plain["spec"].get("selector"), pod.meta.get("labels"))
        ]
        healthy = sum(pod.uid != evicted.uid and self._counts_as_healthy(pod) for pod in pods)
        status = budget.plain.get("status") or {}
        required = _required_healthy(budget.plain["spec"], self._expected(pods, status))
        if healthy < required and healthy < status.get("currentHealthy", 0):
            self.report(f"{evicted.key} is evicted: {budget.key} requires {required} healthy pods, {healthy} remain")

    def _counts_as_healthy(self, pod: ObjectVersion) -> bool:
        """Whether a pod is healthy, or may still be counted because users stopped it a moment ago."""
        if not pod.deleting or not pod.ready:
            return pod.ready
        stopped_at = self.observer.since.deleting[pod.uid]
        return pod.uid not in self._evicted and self.observer.now - stopped_at <= PDB_SYNC_SECONDS

    def _expected(self, pods: list[ObjectVersion], status: Plain) -> int:
        """The replicas of the workloads of these pods, or `status.expectedPods` if that is lower."""
        by_uid, replicas = self.observer.world.store.by_uid, dict[str, int]()
        for pod in pods:
            owner = by_uid.get(pod.controller["uid"]) if pod.controller is not None else None
            above = owner.controller if owner is not None else None  # the Deployment of a ReplicaSet
            owner = by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is not None:
                replicas[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return min(sum(replicas.values()), int(status.get("expectedPods", 0)))


def _required_healthy(spec: Plain, expected: int) -> int:
    """How many healthy pods a budget requires if `expected` replicas are configured."""
    if spec.get("minAvailable") is not None:
        return scaled_value(spec["minAvailable"], expected)
    if spec.get("maxUnavailable") is not None:
        return max(expected - scaled_value(spec["maxUnavailable"], expected), 0)
    return 0


TIER_NAMES = ("a pod", "a DaemonSet pod", "a critical pod", "a critical DaemonSet pod")


class DrainsGoByTiers(Invariant):
    """Critical pods and DaemonSet pods are evicted after the pods that may depend on them."""

    name = "drains go tier by tier"

    def pod_termination_requested(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - the eviction counts
        """Check that no pod of an earlier tier remains."""
        evicted_tier = tier(before)
        if call.operation != "evict" or evicted_tier == 0 or not before.active:
            return
        observer = self.observer
        known_before = observer.now - observer.max_staleness
        for pod in observer.pods_on(before.node):
            earlier = pod.uid != before.uid and tier(pod) < evicted_tier
            if (
                earlier
                and blocks_drain(pod, observer.clock_readings())
                and observer.since.bound[pod.uid] <= known_before
            ):
                evicted, remaining = TIER_NAMES[evicted_tier], TIER_NAMES[tier(pod)]
                self.report(f"{before.key} on {before.node}, {evicted}, is evicted before {pod.key}, {remaining}")


TIMESTAMP_SLACK = 2.0  # the API stores whole seconds
REACTION_SECONDS = 15.0  # in which the controllers must act on a deadline; retries of refused evictions take up to ten


class PodsKeepTheirGrace(Invariant):
    """Every pod gets its terminationGracePeriodSeconds."""

    name = "pods keep their grace period"

    def pod_termination_requested(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - any call
        """Compare the granted grace period with that of the pod."""
        node = self.observer.find_node(before.node)
        if node is None or before.node in self.observer.excused_nodes or is_finished(before):
            return
        granted = float(after.meta.get("deletionGracePeriodSeconds", 0)) if after is not None else 0.0
        required = grace_period(before)
        if granted + TIMESTAMP_SLACK >= required:
            return
        claim_history = self.observer.claim_on(before.node)
        remaining = self._seconds_to_deadline(claim_history)
        grace = f"{before.key} on {before.node} gets {granted:.0f} of {required:.0f} s of its grace period"
        if granted == 0 or remaining is None or granted + TIMESTAMP_SLACK < min(required, remaining):
            self.report(grace)
        elif claim_history is not None and before.active and self._was_deleted_too_late(before, claim_history):
            self.report(f"{grace}: it was deleted too late before the drain deadline")

    def instance_terminating(self, node: NodeView) -> None:
        """Check that pods with a drain deadline were deleted before the instance terminates."""
        claims = self.observer.claims.values()
        claim_history = next((each for each in claims if each.value.provider_id == node.provider_id), None)
        if claim_history is None or node.name in self.observer.excused_nodes or claim_history.value.deadline is None:
            return
        for pod in self.observer.pods_on(node.name):
            if pod.active and blocks_drain(pod, ()) and self._was_deleted_too_late(pod, claim_history):
                self.report(f"{pod.key} on {node.name} was not deleted before the drain deadline")

    def _seconds_to_deadline(self, claim_history: ClaimHistory | None) -> float | None:
        """The fewest seconds until the drain deadline, by any clock reading; None without a deadline."""
        deadline = claim_history.value.deadline if claim_history is not None else None
        if deadline is None:
            return None
        return min((deadline - now).total_seconds() for now in self.observer.clock_readings())

    def _was_deleted_too_late(self, pod: ObjectVersion, claim_history: ClaimHistory) -> bool:
        """Whether deadline and pod were known well before the last moment at which the full grace period fits."""
        observer, deadline = self.observer, claim_history.value.deadline
        is_skewed = len(observer.clock_readings()) > 2
        if deadline is None or claim_history.deadline_since is None or is_skewed:
            return False
        latest = observer.seconds_at(deadline) - grace_period(pod)
        known_at = max(claim_history.deadline_since, observer.since.bound.get(pod.uid, observer.now))
        in_time = known_at + REACTION_SECONDS < latest
        return in_time and observer.now > latest + REACTION_SECONDS and observer.undisturbed_since(latest)
