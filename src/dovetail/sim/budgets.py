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
from dovetail.sim.eviction import is_ready
from dovetail.sim.kinds import DEPLOYMENTS, PDB, POD, REPLICAS
from dovetail.sim.patching import Plain
from dovetail.sim.store import Record, Step
from dovetail.sim.workloads import controller_of

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


class Budgets(Agent[Key]):
    """Keeps the status of every PodDisruptionBudget."""

    hears = (PDB, POD, REPLICAS, DEPLOYMENTS)
    pause = (0.02, 0.1)

    def hear(self, step: Step) -> None:
        """A budget, a pod it selects, or what the owners ask for changed."""
        record = step.after
        if record.resource == PDB:
            if step.type != "DELETED" and not _only_status(step):
                self.touch(record.key)
            return
        if record.resource != POD and _only_status(step):
            return
        for budget in self.store.all(PDB):
            if budget.key.namespace == record.key.namespace and (record.resource != POD or _selects(budget, record)):
                self.touch(budget.key)

    def reconcile(self, key: Key) -> None:
        """Count, and write what changed."""
        record = self.store.find(PDB, key)
        budget = record.value(kinds.POD_DISRUPTION_BUDGET) if record is not None else None
        if record is None or not isinstance(budget, PodDisruptionBudget):
            return
        pods = [pod for pod in self.store.all(POD) if pod.key.namespace == key.namespace and _selects(record, pod)]
        now = self.store.clock.now()
        disrupted = _still_disrupted(record, pods, now)
        healthy = sum(is_ready(p.plain) and not p.deleting and p.key.name not in disrupted for p in pods)
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
        body = {"status": {**status, "disruptedPods": {**disrupted, **gone}}}
        self.api.patch(PDB, key, Patch(body, subresource="status"))

    def _scale(self, pods: Iterable[Record]) -> int | None:
        """What the distinct controllers of the pods ask for. Pods without one are not counted."""
        asked: dict[str, int] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                continue
            owner = self.store.by_uid.get(reference["uid"])
            above = controller_of(owner) if owner is not None else None
            owner = self.store.by_uid.get(above["uid"], owner) if above is not None else owner
            if owner is None:
                continue
            if "replicas" not in owner.plain["spec"] and owner.resource not in (DEPLOYMENTS, REPLICAS):
                return None
            asked[owner.uid] = int(owner.plain["spec"].get("replicas", 1))
        return sum(asked.values())


def _selects(budget: Record, pod: Record) -> bool:
    value = budget.value(kinds.POD_DISRUPTION_BUDGET)
    if not isinstance(value, PodDisruptionBudget) or value.spec.selector is None:
        return False
    return value.spec.selector.matches(pod.meta.get("labels") or {})


def _only_status(step: Step) -> bool:
    return step.before is not None and step.before.meta.get("generation") == step.after.meta.get("generation")


def _disrupted_pods(budget: Record) -> dict[str, str]:
    return (budget.plain.get("status") or {}).get("disruptedPods") or {}


def _still_disrupted(budget: Record, pods: list[Record], now: datetime) -> Plain:
    """Evicted pods whose deletion has not shown up yet."""
    by_name = {pod.key.name: pod for pod in pods}
    return {
        name: at
        for name, at in _disrupted_pods(budget).items()
        if name in by_name and not by_name[name].deleting and datetime.fromisoformat(at) + _EVICTION_PATIENCE > now
    }
