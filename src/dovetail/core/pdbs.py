"""What PodDisruptionBudgets say about a pod: may it be evicted now, and if not, will that ever change?"""

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.conditions import find
from dovetail.model.pod import Pod
from dovetail.model.taints import DISRUPTED_TAINT, DISRUPTION_TAINT, tolerates
from dovetail.model.unreadable_objects import UNREADABLE


@dataclass(frozen=True, slots=True)
class Block:
    """Budgets that stand against an eviction. `permanent`: waiting will not help, somebody has to change something."""

    message: str
    permanent: bool


def tolerates_disruption(pod: Pod) -> bool:
    """Whether the drain leaves the pod alone; either spelling of the taint counts."""
    return any(tolerates(pod.spec.tolerations, taint) for taint in (DISRUPTED_TAINT, DISRUPTION_TAINT))


def matching(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """The budgets that select a pod."""
    return [
        budget
        for budget in budgets
        if budget.metadata.namespace == pod.metadata.namespace
        and budget.spec.selector is not None
        and budget.spec.selector.matches(pod.metadata.labels)
    ]


def find_block(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> Block | None:
    """Why the eviction API would refuse this pod now, or None."""
    if not pod.active or pod.mirror or tolerates_disruption(pod):
        return None
    found = matching(pod, budgets)
    for budget in found:
        fault = unreadable_fault(budget)
        if fault:
            message = (
                f"pdb cannot be read, so it is taken to allow nothing (PodDisruptionBudget=[{budget.key}]: {fault})"
            )
            return Block(message, permanent=True)
    if len(found) > 1:
        names = " ".join(sorted(str(budget.key) for budget in found))
        return Block(f"eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])", permanent=True)
    for budget in found:
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and _unready(pod):
            continue
        if budget.status.disruptions_allowed <= 0:
            message = f"pdb prevents pod evictions (PodDisruptionBudget=[{budget.key}])"
            return Block(message, permanent=never_allows(budget))
    return None


def unreadable_fault(budget: PodDisruptionBudget) -> str:
    """What is wrong with a budget that stands for one that cannot be read; empty for a real one."""
    marked = find(budget.status.conditions, UNREADABLE)
    return marked.message if marked is not None else ""


def _unready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions)


def fully_blocks(budget: PodDisruptionBudget) -> bool:
    """Whether the budget is written so that it never allows anything."""
    return budget.spec.max_unavailable in (0, "0", "0%") or budget.spec.min_available == "100%"


def never_allows(budget: PodDisruptionBudget) -> bool:
    """Whether even with every pod healthy nothing would be allowed: one replica with minAvailable 1, for one."""
    status = budget.status
    return fully_blocks(budget) or (status.expected_pods > 0 and status.desired_healthy >= status.expected_pods)
