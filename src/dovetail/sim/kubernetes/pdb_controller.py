"""The eviction API: whether the PodDisruptionBudgets let a pod go now, and the accounting when they do.

Keeps the real server's rules: pods that do not run yet or any more skip the budgets; two budgets are one too many; an
allowed eviction is taken off `disruptionsAllowed` at once, before the controller that counts pods has seen it.

The disruption controller: how many pods of each PodDisruptionBudget are healthy, and how many may go.

Keeps the real controller's arithmetic: percentages round up and are taken of what the owners of the pods ask for, not
of the pods that happen to exist; pods already on their way out, or just evicted, do not count as healthy. A loss is
counted at once and a gain within a moment, so that the status never allows more than is true.
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
    """The numbers of one PodDisruptionBudget that the eviction API looks at."""

    generation: int
    observed_generation: int
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    always_allow_unhealthy: bool

    @staticmethod
    def of(plain: Plain) -> "BudgetState":
        """Read them."""
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
        """Whether an unready pod may go without being counted."""
        if ready:
            return False
        return self.always_allow_unhealthy or self.current_healthy >= self.desired_healthy > 0

    def refusal(self) -> str:
        """Why a counted eviction must wait, or empty."""
        if self.observed_generation < self.generation:
            return "the disruption budget is still being processed by the server"
        if self.disruptions_allowed <= 0:
            need = f"needs {self.desired_healthy} healthy pods and has {self.current_healthy} currently"
            return f"the disruption budget {need}"
        return ""


def evict(api: ApiServer, key: Key, uid: str) -> None:
    """Evict a pod, or raise why not."""
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
        _spend(api, budget, pod)
    marked = with_condition(
        pod.plain["status"],
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        api.timestamp(),
    )
    api.update(pod, {**pod.plain, "status": marked}, "status")
    api.delete(POD, key, Deletion(uid=pod.uid))


def _spend(api: ApiServer, budget: ObjectVersion, pod: ObjectVersion) -> None:
    state = BudgetState.of(budget.plain)
    if state.ignores(ready=pod.ready):
        return
    if refusal := state.refusal():
        raise EvictionBlocked(f"cannot evict pod {pod.key}: {refusal} ({budget.key.name})")
    status = budget.plain["status"]
    disrupted = {**(status.get("disruptedPods") or {}), pod.key.name: api.timestamp()}
    spent = {**status, "disruptionsAllowed": state.disruptions_allowed - 1, "disruptedPods": disrupted}
    api.update(budget, {**budget.plain, "status": spent}, "status")


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


_EVICTION_PATIENCE = timedelta(minutes=2)  # an evicted pod that is still not deleting by then counts again


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """What the controller writes into the status."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """How many more pods may be disrupted now."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def count(spec: PodDisruptionBudgetSpec, *, pods: int, scale: int | None, healthy: int) -> BudgetCount:
    """The budget's numbers. `scale` is what the pods' owners ask for; None if one of them cannot say."""
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
    """A number as it is, a percentage of the total rounded up."""
    return value if isinstance(value, int) else -(-total * int(value.rstrip("%")) // 100)


_ALLOWED = {"status": "True", "reason": "SufficientPods"}
_DENIED = {"status": "False", "reason": "InsufficientPods"}


class Members:
    """The pods one budget selects, counted as they change."""

    def __init__(self) -> None:
        self.pods: dict[Key, ObjectVersion] = {}
        self.healthy = 0
        self.owners: Counter[str] = Counter()
        """How many of them name each controller."""

    def has_alike(self, pod: ObjectVersion) -> bool:
        """Whether it was one of them with the very labels it has now."""
        known = self.pods.get(pod.key)
        return known is not None and known.meta.get("labels") is pod.meta.get("labels")

    def take(self, pod: ObjectVersion) -> None:
        """It is one of them, in this version."""
        self.drop(pod.key)
        self.pods[pod.key] = pod
        self._count(pod, 1)

    def drop(self, key: Key) -> bool:
        """It is none of them any more; whether it was."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)
        return pod is not None

    def _count(self, pod: ObjectVersion, by: int) -> None:
        self.healthy += by * is_healthy(pod)
        if pod.controller is not None:
            uid = pod.controller["uid"]
            self.owners[uid] += by
            if not self.owners[uid]:
                del self.owners[uid]


def is_healthy(pod: ObjectVersion) -> bool:
    """Whether a pod counts."""
    return pod.ready and not pod.deleting


class PdbController(SimulatedController[Key]):
    """Keeps the status of every PodDisruptionBudget."""

    watches = (PDB, POD, REPLICAS, DEPLOYMENTS)
    reaction_delay = (0.02, 0.1)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self._members: defaultdict[Key, Members] = defaultdict(Members)

    def on_change(self, change: StoreChange) -> None:
        """A budget, a pod it selects, or what the owners ask for changed."""
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
            self._members.pop(record.key, None)
        elif not change.only_status:
            members = self._members[record.key] = Members()
            for pod in self.store.all(POD):
                if _selects(record, pod):
                    members.take(pod)
            self.enqueue(record.key)

    def _on_pod_change(self, change: StoreChange) -> None:
        pod = change.after
        if change.type == "MODIFIED" and change.before is not None and _counts_alike(change.before, pod):
            return
        for budget in self.store.all(PDB):
            members = self._members[budget.key]
            known = members.pods.get(pod.key)
            healthy, owners = members.healthy, len(members.owners)
            if change.type != "DELETED" and (members.has_alike(pod) or _selects(budget, pod)):
                members.take(pod)
            elif known is not None:
                members.drop(pod.key)
            else:
                continue
            if members.healthy < healthy or len(members.owners) > owners:
                self.enqueue(budget.key)
            elif (
                members.healthy > healthy
                or change.type != "MODIFIED"
                or known is None
                or known.deleting != pod.deleting
            ):
                self.enqueue_rate_limited(budget.key)

    def reconcile(self, key: Key) -> None:
        """Count, and write what changed."""
        record = self.store.find(PDB, key)
        budget = record.value(kinds.POD_DISRUPTION_BUDGET) if record is not None else None
        if record is None or not isinstance(budget, PodDisruptionBudget):
            return
        members = self._members[key]
        disrupted = _still_disrupted(record, members, self.store.clock.now())
        healthy = members.healthy - sum(is_healthy(members.pods[Key(key.namespace, name)]) for name in disrupted)
        scale = self._scale(members.owners)
        counted = count(budget.spec, pods=len(members.pods), scale=scale, healthy=healthy)
        status = {
            "expectedPods": counted.expected,
            "desiredHealthy": counted.desired,
            "currentHealthy": counted.healthy,
            "disruptionsAllowed": counted.allowed,
            "observedGeneration": record.meta["generation"],
        }
        if disrupted:
            self.later(_EVICTION_PATIENCE.total_seconds(), self.enqueue, key)
        gone = {name: None for name in _disrupted_pods(record) if name not in disrupted}
        said = {"type": "DisruptionAllowed", "observedGeneration": record.meta["generation"], "message": ""}
        said |= _ALLOWED if counted.allowed > 0 else _DENIED
        written = with_condition(record.plain.get("status") or {}, said, self.api.timestamp())
        status["conditions"] = written["conditions"]
        body = {"status": {**status, "disruptedPods": {**disrupted, **gone}}}
        self.api.patch(PDB, key, Patch(body, subresource="status"))

    def _scale(self, owners: Iterable[str]) -> int | None:
        """What the distinct controllers of the pods ask for. Pods without one are not counted."""
        asked: dict[str, int] = {}
        for uid in owners:
            owner = self.store.by_uid.get(uid)
            above = owner.controller if owner is not None else None
            owner = self.store.by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is None:
                continue
            if "replicas" not in owner.plain["spec"] and owner.resource not in (DEPLOYMENTS, REPLICAS):
                return None
            asked[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return sum(asked.values())


def _counts_alike(before: ObjectVersion, pod: ObjectVersion) -> bool:
    """Whether no budget can tell the two versions of a pod apart."""
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


def _still_disrupted(budget: ObjectVersion, members: Members, now: datetime) -> Plain:
    """Evicted pods whose deletion has not shown up yet."""
    still: Plain = {}
    for name, at in _disrupted_pods(budget).items():
        pod = members.pods.get(Key(budget.key.namespace, name))
        if pod is not None and not pod.deleting and datetime.fromisoformat(at) + _EVICTION_PATIENCE > now:
            still[name] = at
    return still
