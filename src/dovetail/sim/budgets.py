"""The disruption controller: how many pods of each PodDisruptionBudget are healthy, and how many may go.

Keeps the real controller's arithmetic: percentages round up and are taken of what the owners of the pods ask for, not
of the pods that happen to exist; pods already on their way out, or just evicted, do not count as healthy.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.model import kinds
from dovetail.model.wire import Key
from dovetail.model.workload import PodDisruptionBudget, PodDisruptionBudgetSpec
from dovetail.ports.cluster import Patch
from dovetail.sim.agent import Agent
from dovetail.sim.apiserver import ApiServer, with_condition
from dovetail.sim.kinds import DEPLOYMENTS, PDB, POD, REPLICAS
from dovetail.sim.patching import Plain
from dovetail.sim.store import Record, Step

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


class Budgets(Agent[Key]):
    """Keeps the status of every PodDisruptionBudget."""

    hears = (PDB, POD, REPLICAS, DEPLOYMENTS)
    pause = (0.02, 0.1)

    def __init__(self, api: ApiServer, seed: str) -> None:
        super().__init__(api, seed)
        self._members: dict[Key, dict[Key, None]] = {}  # the pods each budget selects

    def hear(self, step: Step) -> None:
        """A budget, a pod it selects, or what the owners ask for changed."""
        record = step.after
        if record.resource == PDB:
            self._hear_budget(step)
        elif record.resource == POD:
            self._hear_pod(step)
        elif not _only_status(step):
            for budget in self.store.all(PDB):
                if budget.key.namespace == record.key.namespace:
                    self.touch(budget.key)

    def _hear_budget(self, step: Step) -> None:
        record = step.after
        if step.type == "DELETED":
            self._members.pop(record.key, None)
        elif not _only_status(step):
            self._members[record.key] = {pod.key: None for pod in self.store.all(POD) if _selects(record, pod)}
            self.touch(record.key)

    def _hear_pod(self, step: Step) -> None:
        pod = step.after
        for budget in self.store.all(PDB):
            members = self._members.setdefault(budget.key, {})
            selected = _selects(budget, pod)
            if selected or pod.key in members:
                self.touch(budget.key)
            if selected and step.type != "DELETED":
                members[pod.key] = None
            else:
                members.pop(pod.key, None)

    def reconcile(self, key: Key) -> None:
        """Count, and write what changed."""
        record = self.store.find(PDB, key)
        budget = record.value(kinds.POD_DISRUPTION_BUDGET) if record is not None else None
        if record is None or not isinstance(budget, PodDisruptionBudget):
            return
        found = (self.store.find(POD, member) for member in self._members.get(key, ()))
        pods = [pod for pod in found if pod is not None]
        now = self.store.clock.now()
        disrupted = _still_disrupted(record, pods, now)
        healthy = sum(p.ready and not p.deleting and p.key.name not in disrupted for p in pods)
        counted = count(budget.spec, pods=len(pods), scale=self._scale(pods), healthy=healthy)
        status = {
            "expectedPods": counted.expected,
            "desiredHealthy": counted.desired,
            "currentHealthy": counted.healthy,
            "disruptionsAllowed": counted.allowed,
            "observedGeneration": record.meta["generation"],
        }
        if disrupted:
            self.later(_EVICTION_PATIENCE.total_seconds(), self.touch, key)
        gone = {name: None for name in _disrupted_pods(record) if name not in disrupted}
        said = {"type": "DisruptionAllowed", "observedGeneration": record.meta["generation"], "message": ""}
        said |= _ALLOWED if counted.allowed > 0 else _DENIED
        written = with_condition(record.plain.get("status") or {}, said, self.api.timestamp())
        status["conditions"] = written["conditions"]
        body = {"status": {**status, "disruptedPods": {**disrupted, **gone}}}
        self.api.patch(PDB, key, Patch(body, subresource="status"))

    def _scale(self, pods: Iterable[Record]) -> int | None:
        """What the distinct controllers of the pods ask for. Pods without one are not counted."""
        asked: dict[str, int] = {}
        for uid in {pod.controller["uid"]: None for pod in pods if pod.controller is not None}:
            owner = self.store.by_uid.get(uid)
            above = owner.controller if owner is not None else None
            owner = self.store.by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is None:
                continue
            if "replicas" not in owner.plain["spec"] and owner.resource not in (DEPLOYMENTS, REPLICAS):
                return None
            asked[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return sum(asked.values())


def _selects(budget: Record, pod: Record) -> bool:
    value = budget.value(kinds.POD_DISRUPTION_BUDGET)
    if budget.key.namespace != pod.key.namespace:
        return False
    if not isinstance(value, PodDisruptionBudget) or value.spec.selector is None:
        return False
    return value.spec.selector.matches(pod.meta.get("labels") or {})


def _only_status(step: Step) -> bool:
    return step.before is not None and step.before.meta.get("generation") == step.after.meta.get("generation")


def _disrupted_pods(budget: Record) -> dict[str, str]:
    return (budget.plain.get("status") or {}).get("disruptedPods") or {}


def _still_disrupted(budget: Record, pods: list[Record], now: datetime) -> Plain:
    """Evicted pods whose deletion has not shown up yet."""
    evicted = _disrupted_pods(budget)
    by_name = {pod.key.name: pod for pod in pods} if evicted else {}
    return {
        name: at
        for name, at in evicted.items()
        if name in by_name and not by_name[name].deleting and datetime.fromisoformat(at) + _EVICTION_PATIENCE > now
    }
