"""PodDisruptionBudgets: the eviction API and the disruption controller.

`evict` follows the rules of the eviction subresource: pods that are not running skip the budgets; a pod with two
budgets cannot be evicted; an allowed eviction decrements `disruptionsAllowed` before the controller counts the pod.

`PdbController` keeps the status of each budget with the arithmetic of the disruption controller: percentages round up
and refer to the replicas that the pods' owners specify, not to the existing pods; pods that are being deleted, or were
just evicted, are not healthy. `BudgetPods` counts the pods of a budget incrementally. Lost pods are counted at once and
new healthy pods with a rate limit, so the status never allows more disruptions than are safe.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model import kinds
from dovetail.model.cluster_objects import PodDisruptionBudget, PodDisruptionBudgetSpec
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion, Patch
from dovetail.ports.errors import Conflict, EvictionBlocked, EvictionImpossible
from dovetail.sim.kubernetes.api_server import ApiServer, with_condition
from dovetail.sim.kubernetes.controller import SimulatedController
from dovetail.sim.kubernetes.kinds import DEPLOYMENTS, PDB, POD, REPLICAS
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.store import ObjectVersion, Store, StoreChange


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The fields of one PodDisruptionBudget that the eviction API reads."""

    generation: int
    observed_generation: int
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    always_allow_unhealthy: bool

    @staticmethod
    def of(plain: Plain) -> "BudgetState":
        """Read them from the object."""
        status = plain.get("status") or {}
        return BudgetState(
            generation=plain["metadata"].get("generation", 0),
            observed_generation=status.get("observedGeneration", 0),
            disruptions_allowed=status.get("disruptionsAllowed", 0),
            current_healthy=status.get("currentHealthy", 0),
            desired_healthy=status.get("desiredHealthy", 0),
            always_allow_unhealthy=(plain.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        )

    def ignores(self, *, ready: bool) -> bool:
        """Whether a pod can be evicted without counting against the budget: unready pods, depending on the policy."""
        if ready:
            return False
        return self.always_allow_unhealthy or self.current_healthy >= self.desired_healthy > 0

    def refusal(self) -> str:
        """Why the budget does not allow an eviction now, or empty."""
        if self.observed_generation < self.generation:
            return "the disruption budget is still being processed by the server"
        if self.disruptions_allowed <= 0:
            need = f"needs {self.desired_healthy} healthy pods and has {self.current_healthy} currently"
            return f"the disruption budget {need}"
        return ""


def evict(api: ApiServer, key: Key, uid: str) -> None:
    """Evict a pod; raises `EvictionBlocked`, `EvictionImpossible` or `Conflict`."""
    pod = api.get(POD, key)
    if uid and uid != pod.uid:
        raise Conflict(f"Pod {key}: uid is {pod.uid}, not {uid}")
    phase = (pod.plain.get("status") or {}).get("phase", "Pending")
    if pod.deleting or phase != "Running":
        api.delete(POD, key, Deletion(uid=pod.uid))
        return
    budgets = budgets_of(api.store, pod)
    if len(budgets) > 1:
        raise EvictionImpossible(f"Pod {key} has more than one PodDisruptionBudget, which eviction does not support")
    for budget in budgets:
        _charge(api, budget, pod)
    marked = with_condition(
        pod.plain["status"],
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        api.timestamp(),
    )
    api.update(pod, {**pod.plain, "status": marked}, "status")
    api.delete(POD, key, Deletion(uid=pod.uid))


def _charge(api: ApiServer, budget: ObjectVersion, pod: ObjectVersion) -> None:
    state = BudgetState.of(budget.plain)
    if state.ignores(ready=pod.ready):
        return
    if refusal := state.refusal():
        raise EvictionBlocked(f"cannot evict pod {pod.key}: {refusal} ({budget.key.name})")
    status = budget.plain["status"]
    disrupted = {**(status.get("disruptedPods") or {}), pod.key.name: api.timestamp()}
    charged = {**status, "disruptionsAllowed": state.disruptions_allowed - 1, "disruptedPods": disrupted}
    api.update(budget, {**budget.plain, "status": charged}, "status")


def budgets_of(store: Store, pod: ObjectVersion) -> list[ObjectVersion]:
    """The PodDisruptionBudgets that select a pod; one with an invalid selector selects none, as in the API server."""
    labels = pod.meta.get("labels") or {}
    found = []
    for budget in store.all(PDB):
        value = budget.value(kinds.POD_DISRUPTION_BUDGET)
        selector = value.spec.selector if isinstance(value, PodDisruptionBudget) else None
        if budget.key.namespace == pod.key.namespace and selector is not None and selector.matches(labels):
            found.append(budget)
    return found


_EVICTION_TIMEOUT = timedelta(minutes=2)  # an evicted pod that is not being deleted by then counts as healthy again


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """The pod counts that the controller writes into the status."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """The number of pods that may be disrupted now."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def count(spec: PodDisruptionBudgetSpec, *, pods: int, scale: int | None, healthy: int) -> BudgetCount:
    """The counts of a budget. `scale` is the sum of the owners' replicas; None if an owner has no replicas field."""
    if spec.max_unavailable is not None:
        if scale is None:
            return BudgetCount(expected=0, desired=0, healthy=healthy)
        return BudgetCount(expected=scale, desired=max(0, scale - scaled(spec.max_unavailable, scale)), healthy=healthy)
    if spec.min_available is None:
        return BudgetCount(expected=pods, desired=0, healthy=healthy)
    if isinstance(spec.min_available, int):
        return BudgetCount(expected=pods, desired=spec.min_available, healthy=healthy)
    if scale is None:
        return BudgetCount(expected=0, desired=0, healthy=healthy)
    return BudgetCount(expected=scale, desired=scaled(spec.min_available, scale), healthy=healthy)


def scaled(value: int | str, total: int) -> int:
    """An integer unchanged, or a percentage of the total, rounded up."""
    return value if isinstance(value, int) else -(-total * int(value.rstrip("%")) // 100)


_ALLOWED = {"status": "True", "reason": "SufficientPods"}
_DENIED = {"status": "False", "reason": "InsufficientPods"}


class BudgetPods:
    """The pods that one budget selects, with counts that are updated on each change."""

    def __init__(self) -> None:
        self.pods: dict[Key, ObjectVersion] = {}
        self.healthy = 0
        self.owners: Counter[str] = Counter()
        """The number of pods by the uid of their controller."""

    def has_with_same_labels(self, pod: ObjectVersion) -> bool:
        """Whether the pod is selected already and its labels are the identical object as before."""
        known = self.pods.get(pod.key)
        return known is not None and known.meta.get("labels") is pod.meta.get("labels")

    def put(self, pod: ObjectVersion) -> None:
        """Add the pod, or replace its earlier version."""
        self.remove(pod.key)
        self.pods[pod.key] = pod
        self._count(pod, 1)

    def remove(self, key: Key) -> None:
        """Remove the pod, if it is there."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)

    def _count(self, pod: ObjectVersion, by: int) -> None:
        self.healthy += by * is_healthy(pod)
        if pod.controller is not None:
            uid = pod.controller["uid"]
            self.owners[uid] += by
            if not self.owners[uid]:
                del self.owners[uid]


def is_healthy(pod: ObjectVersion) -> bool:
    """Whether the budget counts the pod as healthy."""
    return pod.ready and not pod.deleting


class PdbController(SimulatedController[Key]):
    """Keeps the status of every PodDisruptionBudget."""

    watches = (PDB, POD, REPLICAS, DEPLOYMENTS)
    reaction_delay = (0.02, 0.1)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self._pods: defaultdict[Key, BudgetPods] = defaultdict(BudgetPods)

    def on_change(self, change: StoreChange) -> None:
        """Enqueue the budgets that a changed budget, pod, ReplicaSet or Deployment affects."""
        record = change.after
        if record.resource == PDB:
            self._on_budget_change(change)
        elif record.resource == POD:
            self._on_pod_change(change)
        elif not change.only_status:
            for budget in self.store.all(PDB):
                if budget.key.namespace == record.key.namespace:
                    self.enqueue(budget.key)

    def _on_budget_change(self, change: StoreChange) -> None:
        record = change.after
        if change.type == "DELETED":
            self._pods.pop(record.key, None)
        elif not change.only_status:
            selected = self._pods[record.key] = BudgetPods()
            for pod in self.store.all(POD):
                if _selects(record, pod):
                    selected.put(pod)
            self.enqueue(record.key)

    def _on_pod_change(self, change: StoreChange) -> None:
        pod = change.after
        if change.type == "MODIFIED" and change.before is not None and _counts_equally(change.before, pod):
            return
        for budget in self.store.all(PDB):
            selected = self._pods[budget.key]
            known = selected.pods.get(pod.key)
            healthy, owners = selected.healthy, len(selected.owners)
            if change.type != "DELETED" and (selected.has_with_same_labels(pod) or _selects(budget, pod)):
                selected.put(pod)
            elif known is not None:
                selected.remove(pod.key)
            else:
                continue
            if selected.healthy < healthy or len(selected.owners) > owners:
                self.enqueue(budget.key)
            elif (
                selected.healthy > healthy
                or change.type != "MODIFIED"
                or known is None
                or known.deleting != pod.deleting
            ):
                self.enqueue_rate_limited(budget.key)

    def reconcile(self, key: Key) -> None:
        """Count the pods and write the status."""
        record = self.store.find(PDB, key)
        budget = record.value(kinds.POD_DISRUPTION_BUDGET) if record is not None else None
        if record is None or not isinstance(budget, PodDisruptionBudget):
            return
        selected = self._pods[key]
        disrupted = _still_disrupted(record, selected, self.store.clock.now())
        healthy = selected.healthy - sum(is_healthy(selected.pods[Key(key.namespace, name)]) for name in disrupted)
        scale = self._scale(selected.owners)
        counted = count(budget.spec, pods=len(selected.pods), scale=scale, healthy=healthy)
        status = {
            "expectedPods": counted.expected,
            "desiredHealthy": counted.desired,
            "currentHealthy": counted.healthy,
            "disruptionsAllowed": counted.allowed,
            "observedGeneration": record.meta["generation"],
        }
        if disrupted:
            self.later(_EVICTION_TIMEOUT.total_seconds(), self.enqueue, key)
        gone = {name: None for name in _disrupted_pods(record) if name not in disrupted}
        condition = {"type": "DisruptionAllowed", "observedGeneration": record.meta["generation"], "message": ""}
        condition |= _ALLOWED if counted.allowed > 0 else _DENIED
        written = with_condition(record.plain.get("status") or {}, condition, self.api.timestamp())
        status["conditions"] = written["conditions"]
        body = {"status": {**status, "disruptedPods": {**disrupted, **gone}}}
        self.api.patch(PDB, key, Patch(body, subresource="status"))

    def _scale(self, owners: Iterable[str]) -> int | None:
        """The sum of `replicas` over the distinct controllers of the pods; None if one has no such field."""
        replicas: dict[str, int] = {}
        for uid in owners:
            owner = self.store.by_uid.get(uid)
            above = owner.controller if owner is not None else None
            owner = self.store.by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is None:
                continue
            if "replicas" not in owner.plain["spec"] and owner.resource not in (DEPLOYMENTS, REPLICAS):
                return None
            replicas[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return sum(replicas.values())


def _counts_equally(before: ObjectVersion, pod: ObjectVersion) -> bool:
    """Whether two versions of a pod are equal in everything that budgets read."""
    return (
        before.ready == pod.ready
        and before.deleting == pod.deleting
        and before.owners == pod.owners
        and before.meta.get("labels") is pod.meta.get("labels")
    )


def _selects(budget: ObjectVersion, pod: ObjectVersion) -> bool:
    value = budget.value(kinds.POD_DISRUPTION_BUDGET)
    if budget.key.namespace != pod.key.namespace:
        return False
    if not isinstance(value, PodDisruptionBudget) or value.spec.selector is None:
        return False
    return value.spec.selector.matches(pod.meta.get("labels") or {})


def _disrupted_pods(budget: ObjectVersion) -> dict[str, str]:
    return (budget.plain.get("status") or {}).get("disruptedPods") or {}


def _still_disrupted(budget: ObjectVersion, selected: BudgetPods, now: datetime) -> Plain:
    """The evicted pods that are not being deleted yet."""
    still: Plain = {}
    for name, at in _disrupted_pods(budget).items():
        pod = selected.pods.get(Key(budget.key.namespace, name))
        if pod is not None and not pod.deleting and datetime.fromisoformat(at) + _EVICTION_TIMEOUT > now:
            still[name] = at
    return still
