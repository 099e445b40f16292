"""Pods leave through the eviction API, from nodes that are going, within their PodDisruptionBudgets.

Judged when a pod was told to stop by a call of the controllers. Only a drain whose deadline has come may delete a pod
instead. A PodDisruptionBudget is counted from the pods themselves: after an eviction of a healthy pod, as many healthy
pods must be left as the budget demands of the replicas its workloads ask for. A pod that failed so recently that the
cluster's own controller has not counted it is not held against the eviction.
"""

from collections.abc import Iterator

from dovetail.sim.kubernetes.kinds import PDB
from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.pods import own_grace
from dovetail.sim.torture.invariants.readers import Plain, selects, share
from dovetail.sim.world import ApiCall

COUNTED_WITHIN = 1.0  # seconds in which the cluster's own controller counts pods anew


class DisruptionBudgetsHold(Invariant):
    """No pod is stopped against the PodDisruptionBudgets."""

    name = "PodDisruptionBudgets are never violated"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._evicted: set[str] = set()  # uids

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - it was active
        """A pod was told to stop."""
        node = self.history.node_named(before.node)
        if node is None or not before.active:
            return
        story = self.history.claim_on(before.node)
        claim = story.value if story is not None else None
        if call.operation == "delete":
            if not self.forced(claim, own_grace(before)):
                self.broken(f"{before.key} on {before.node} is deleted, not evicted")
            return
        if not node.value.deleting and not (claim is not None and claim.deleting):
            self.broken(f"{before.key} is evicted from {before.node}, which stays")
        self._evicted.add(before.uid)
        if before.ready:
            for budget in self._budgets(before):
                self._judge(budget, before)

    def _budgets(self, pod: ObjectVersion) -> Iterator[ObjectVersion]:
        for budget in self.history.world.store.all(PDB):
            same = budget.key.namespace == pod.key.namespace
            if same and selects(budget.plain["spec"].get("selector"), pod.meta.get("labels")):
                yield budget

    def _judge(self, budget: ObjectVersion, evicted: ObjectVersion) -> None:
        pods = [
            pod
            for pod in self.history.pods()
            if pod.key.namespace == budget.key.namespace
            and selects(budget.plain["spec"].get("selector"), pod.meta.get("labels"))
        ]
        healthy = sum(pod.uid != evicted.uid and self._counts(pod) for pod in pods)
        status = budget.plain.get("status") or {}
        demanded = _demanded(budget.plain["spec"], self._expected(pods, status))
        if healthy < demanded and healthy < status.get("currentHealthy", 0):
            self.broken(
                f"{evicted.key} is evicted: {budget.key} demands {demanded} healthy pods, and {healthy} are left"
            )

    def _counts(self, pod: ObjectVersion) -> bool:
        """Whether a pod counts as healthy, or may still have been counted: others told it to stop a moment ago."""
        if not pod.deleting or not pod.ready:
            return pod.ready
        stopped_at = self.history.since.stopped[pod.uid]
        return pod.uid not in self._evicted and self.history.now - stopped_at <= COUNTED_WITHIN

    def _expected(self, pods: list[ObjectVersion], status: Plain) -> int:
        """The replicas that the workloads of these pods ask for: the fewest that anybody could have counted."""
        by_uid, asked = self.history.world.store.by_uid, dict[str, int]()
        for pod in pods:
            owner = by_uid.get(pod.controller["uid"]) if pod.controller is not None else None
            above = owner.controller if owner is not None else None
            owner = by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is not None:
                asked[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return min(sum(asked.values()), int(status.get("expectedPods", 0)))


def _demanded(spec: Plain, expected: int) -> int:
    """How many healthy pods a budget demands. `minAvailable` as a count needs no workload."""
    if spec.get("minAvailable") is not None:
        return share(spec["minAvailable"], expected)
    if spec.get("maxUnavailable") is not None:
        return max(expected - share(spec["maxUnavailable"], expected), 0)
    return 0
