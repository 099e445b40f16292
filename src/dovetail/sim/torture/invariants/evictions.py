"""Pods leave through the eviction API, from nodes that are going, within their PodDisruptionBudgets.

Judged when a pod was told to stop by a call of the controllers. Only a drain whose deadline has come may delete a pod
instead. A PodDisruptionBudget is counted from the pods themselves: after an eviction of a healthy pod, as many healthy
pods must be left as the budget demands of the replicas its workloads ask for. A pod that failed so recently that the
cluster's own controller has not counted it is not held against the eviction.

A drain goes tier by tier: pods, then DaemonSets, then critical pods, then critical DaemonSets.

Judged at every eviction that took effect: no pod of an earlier tier that the drain has to wait for is left on the node.
Pods bound a moment ago are excused, and so are deletions that the deadline of the drain forces: those go all at once.

A pod that is told to stop gets its own grace period; only the deadline of its node's drain shortens it.

Judged when a call of the controllers told a pod to stop, or to stop sooner, from the grace the API server granted:

- no pod on a live node is removed without any grace, and none gets less than its own grace, less than it had, and less
  than what is left until the deadline at the same time;
- a pod that has finished has nothing left to stop: the API server removes it at once, whatever grace is asked for;
- a deadline that is known early enough costs no pod its grace: the pod is deleted as long before as it may take. This
  is judged where nothing was made to fail since.
"""

from collections.abc import Iterator

from dovetail.sim.kubernetes.kinds import PDB
from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import NodeView, holds_up_a_drain, is_finished, own_grace, tier
from dovetail.sim.torture.invariants.observer import ClaimHistory, Observer
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


NAMES = ("a pod", "a DaemonSet's pod", "a critical pod", "a critical DaemonSet's pod")


class DrainsGoByTiers(Invariant):
    """What others depend on goes last."""

    name = "drains go tier by tier"

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - evicted at all
        """A pod was evicted."""
        turn = tier(before)
        if call.operation != "evict" or turn == 0 or not before.active:
            return
        history = self.history
        known = history.now - history.stale
        for pod in history.pods_on(before.node):
            waited_for = pod.uid != before.uid and tier(pod) < turn and holds_up_a_drain(pod, history.instants())
            if waited_for and history.since.bound[pod.uid] <= known:
                kind, earlier = NAMES[turn], NAMES[tier(pod)]
                self.broken(f"{before.key} on {before.node}, {kind}, is evicted before {pod.key}, {earlier}")


SLACK = 2.0  # the API keeps whole seconds
REACTION = 15.0
"""Seconds in which the controllers must have acted on what is known: retries of refused evictions take up to ten."""


class PodsKeepTheirGrace(Invariant):
    """Every pod has the time to stop that it asks for."""

    name = "pods keep their grace period"

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - any call
        """A pod was told to stop, or to stop sooner."""
        node = self.history.node_named(before.node)
        if node is None or before.node in self.history.excused_nodes or is_finished(before):
            return
        granted = float(after.meta.get("deletionGracePeriodSeconds", 0)) if after is not None else 0.0
        due = own_grace(before)
        if granted + SLACK >= due:
            return
        story = self.history.claim_on(before.node)
        left = self._left(story)
        if granted == 0 or left is None or granted + SLACK < min(due, left):
            self.broken(f"{before.key} on {before.node} gets {granted:.0f} s to stop, and asks for {due:.0f} s")
        elif story is not None and before.active and self._could_have_been_earlier(before, story):
            self.broken(f"{before.key} on {before.node} gets {granted:.0f} of its {due:.0f} s: it was deleted too late")

    def node_gone(self, node: NodeView) -> None:
        """The instance ended, by the deadline perhaps: its pods must have been told in time."""
        story = next((e for e in self.history.claims.values() if e.value.provider_id == node.provider_id), None)
        if story is None or node.name in self.history.excused_nodes or story.value.deadline is None:
            return
        for pod in self.history.pods_on(node.name):
            if pod.active and holds_up_a_drain(pod, ()) and self._could_have_been_earlier(pod, story):
                self.broken(f"{pod.key} on {node.name} was never told to stop before the deadline of the drain")

    def _left(self, story: ClaimHistory | None) -> float | None:
        """The least that can be left until the deadline, by any clock; None without one."""
        deadline = story.value.deadline if story is not None else None
        if deadline is None:
            return None
        return min((deadline - now).total_seconds() for now in self.history.instants())

    def _could_have_been_earlier(self, pod: ObjectVersion, story: ClaimHistory) -> bool:
        """Whether the deadline and the pod were known for long when the pod's own grace just fitted before it."""
        history, deadline = self.history, story.value.deadline
        if deadline is None or story.deadline_since is None or len(history.instants()) > 2:  # two: the clock is right
            return False
        turn = history.at(deadline) - own_grace(pod)
        known = max(story.deadline_since, history.since.bound.get(pod.uid, history.now))
        return known + REACTION < turn and history.now > turn + REACTION and history.calm(turn)
