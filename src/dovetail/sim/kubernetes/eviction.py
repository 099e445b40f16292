"""The eviction API: whether the PodDisruptionBudgets let a pod go now, and the accounting when they do.

Keeps the real server's rules: pods that do not run yet or any more skip the budgets; two budgets are one too many; an
allowed eviction is taken off `disruptionsAllowed` at once, before the controller that counts pods has seen it.
"""

from dataclasses import dataclass

from dovetail.model import kinds
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Deletion
from dovetail.ports.errors import Conflict, EvictionBlocked, EvictionImpossible
from dovetail.sim.kubernetes.api_server import ApiServer, with_condition
from dovetail.sim.kubernetes.kinds import PDB, POD
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.store import ObjectVersion, Store


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
