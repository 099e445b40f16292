"""What prevents the eviction of a pod: PodDisruptionBudgets and the do-not-disrupt annotation, as refusals.

The rules are those of the Kubernetes eviction API: several PDBs for one pod never allow an eviction, and a PDB with the
policy `AlwaysAllow` does not protect pods that are not ready. A PDB that cannot be read blocks every pod of its
namespace.
"""

from collections.abc import Iterable

from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.conditions import find
from dovetail.model.do_not_disrupt import Protection
from dovetail.model.pod import Pod
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, pod_ref
from dovetail.model.taints import DISRUPTED_TAINT, DISRUPTION_TAINT, tolerates
from dovetail.model.unreadable_objects import UNREADABLE


def tolerates_disruption(pod: Pod) -> bool:
    """Whether the pod tolerates the disruption taint, v1 or v1beta1, so that a drain does not evict it."""
    return any(tolerates(pod.spec.tolerations, taint) for taint in (DISRUPTED_TAINT, DISRUPTION_TAINT))


def matching(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """The PodDisruptionBudgets that select a pod."""
    return [
        budget
        for budget in budgets
        if budget.metadata.namespace == pod.metadata.namespace
        and budget.spec.selector is not None
        and budget.spec.selector.matches(pod.metadata.labels)
    ]


def find_block(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> Refusal | None:
    """Why the eviction API would refuse this pod now, or None."""
    if not pod.active or pod.mirror or tolerates_disruption(pod):
        return None
    found = matching(pod, budgets)
    for budget in found:
        fault = unreadable_fault(budget)
        if fault:
            return _block(pod, (budget,), permanent=True, fault=fault)
    if len(found) > 1:
        return _block(pod, found, permanent=True)
    for budget in found:
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and _unready(pod):
            continue
        if budget.status.disruptions_allowed <= 0:
            return _block(pod, (budget,), permanent=never_allows(budget))
    return None


def _block(pod: Pod, pdbs: Iterable[PodDisruptionBudget], *, permanent: bool, fault: str = "") -> Refusal:
    code, names = RefusalCode.POD_DISRUPTION_BUDGET, tuple(sorted((pdb.key for pdb in pdbs), key=str))
    return Refusal(code, pod_ref(pod.key), permanent=permanent, pod=pod.key, pdbs=names, detail=fault)


def protection_refusal(about: ObjectRef, pod: Pod, protected: Protection) -> Refusal:
    """The refusal of a pod that do-not-disrupt protects now."""
    until = protected.until
    return Refusal(RefusalCode.DO_NOT_DISRUPT_POD, about, until, until is None, pod=pod.key, detail=protected.fault)


def unreadable_fault(budget: PodDisruptionBudget) -> str:
    """Why a PodDisruptionBudget cannot be read; empty if it can."""
    marked = find(budget.status.conditions, UNREADABLE)
    return marked.message if marked is not None else ""


def _unready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions)


def fully_blocks(budget: PodDisruptionBudget) -> bool:
    """Whether the spec allows no disruption, whatever the number of pods."""
    return budget.spec.max_unavailable in (0, "0", "0%") or budget.spec.min_available == "100%"


def never_allows(budget: PodDisruptionBudget) -> bool:
    """Whether the PDB allows no disruption even with all pods healthy, such as `minAvailable: 1` with one replica."""
    status = budget.status
    return fully_blocks(budget) or (status.expected_pods > 0 and status.desired_healthy >= status.expected_pods)
