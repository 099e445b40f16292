"""Explains what the drain of a node waits for, pod by pod: since when, until when, and whether it is stuck.

Uses the functions of the drain itself, for a node that is being drained and for a preview of one that is not, so an
explanation cannot disagree with the drain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dovetail.core.lifecycle.drain import DrainPlan, Tier, grace_of, left_alone, plan_drain, tier_of
from dovetail.core.lifecycle.termination import read_deadline
from dovetail.core.pdbs import find_block, matching, protection_refusal
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.core.scheduling.solver import Placement, solve
from dovetail.core.wording import drain_words
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.conditions import find
from dovetail.model.do_not_disrupt import protection
from dovetail.model.instants import add, seconds, subtract
from dovetail.model.nodeclaim import DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, pod_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions

ALONE = "it has no owner: it will not be recreated"
NOT_PROTECTED = "do-not-disrupt does not apply: the deletion of a Node by hand cannot be delayed"


class PodState(StrEnum):
    """The state of a pod in the drain of its node."""

    LEFT_ALONE = "left alone"
    STOPPING = "stopping"
    PROTECTED = "protected"
    BLOCKED = "blocked"
    NEXT = "evicted next"
    LATER = "its tier comes later"


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod. `until` is when its obstacle ends; `permanent` ones end only if an object is changed."""

    pod: Pod
    state: PodState
    why: str = ""
    since: datetime | None = None
    until: datetime | None = None
    permanent: bool = False
    refusal: Refusal | None = None  # of the eviction, where something holds the pod

    @property
    def tier(self) -> Tier:
        """The tier in which it is evicted."""
        return tier_of(self.pod)


@dataclass(frozen=True)
class DrainView:
    """The state of a drain, or of its preview. Pods that the drain waits for come first, by tier."""

    node: ClusterNode
    at: datetime
    pods: tuple[PodView, ...]
    since: datetime | None = None
    deadline: datetime | None = None
    step: str = ""
    """What the termination waits for after the pods are gone."""

    @property
    def waiting(self) -> tuple[PodView, ...]:
        """The pods that the drain waits for."""
        return tuple(each for each in self.pods if each.state != PodState.LEFT_ALONE)

    @property
    def stuck(self) -> tuple[PodView, ...]:
        """The pods that cannot be evicted unless an object is changed."""
        return tuple(each for each in self.waiting if each.permanent)

    @property
    def verdict(self) -> str:
        """`stuck`, `slow` or `moving`."""
        if self.stuck:
            return "stuck"
        return "slow" if any(each.state in _HELD for each in self.waiting) else "moving"


_HELD = (PodState.PROTECTED, PodState.BLOCKED)


def explain_drain(node: ClusterNode, pdbs: Sequence[PodDisruptionBudget], now: datetime) -> DrainView:
    """Explain the drain of a node, or its preview if the node is not being deleted."""
    claim = node.claim
    deadline = read_deadline(claim) if claim is not None else None
    since = _since(node)
    if deadline is None and since is None and claim is not None and claim.spec.termination_grace_period is not None:
        deadline = add(now, claim.spec.termination_grace_period.span)
    drain = plan_drain(node, now, deadline)
    views = [_pod_view(pod, drain, pdbs, _Instants(now, since, deadline)) for pod in node.pods if not pod.terminal]
    views.sort(key=lambda each: (each.state == PodState.LEFT_ALONE, each.tier, each.pod.key))
    return DrainView(node, now, tuple(views), since, deadline, _step(node) if drain.done else "")


@dataclass(frozen=True, slots=True)
class _Instants:
    now: datetime
    since: datetime | None
    deadline: datetime | None

    def forced_at(self, pod: Pod) -> datetime | None:
        return None if self.deadline is None else max(subtract(self.deadline, grace_of(pod)), self.now)


def _since(node: ClusterNode) -> datetime | None:
    """When the NodeClaim or Node was deleted."""
    for owner in (node.claim, node.node):
        if owner is not None and owner.deleting:
            return owner.metadata.deletion_timestamp
    return None


def _pod_view(pod: Pod, drain: DrainPlan, pdbs: Sequence[PodDisruptionBudget], instants: _Instants) -> PodView:
    alone = left_alone(pod, instants.now)
    if alone:
        return PodView(pod, PodState.LEFT_ALONE, alone)
    ends_at = pod.metadata.deletion_timestamp
    if ends_at is not None:
        deleted_at = subtract(ends_at, seconds(pod.metadata.deletion_grace_period_seconds or 0))
        return PodView(pod, PodState.STOPPING, "is terminating", since=deleted_at, until=ends_at)
    protected = protection(pod, instants.now)
    if protected.active and not drain.evicts_protected:
        return _held(pod, PodState.PROTECTED, protection_refusal(pod_ref(pod.key), pod, protected), instants)
    reasons = (NOT_PROTECTED if protected.active else "", "" if pod.metadata.owner_references else ALONE)
    why = "; ".join(filter(None, reasons))
    block = find_block(pod, pdbs)
    if block is not None:
        held = _held(pod, PodState.BLOCKED, block, instants)
        return replace(held, since=blocked_since(pod, pdbs, instants.since))
    return PodView(pod, PodState.NEXT if pod in drain.evict else PodState.LATER, why)


def _held(pod: Pod, state: PodState, refusal: Refusal, instants: _Instants) -> PodView:
    """A pod that cannot be evicted now. The deadline of the drain ends every obstacle."""
    ends = [instant for instant in (refusal.until, instants.forced_at(pod)) if instant is not None]
    permanent = refusal.permanent and not ends
    return PodView(
        pod, state, drain_words(refusal), instants.since, min(ends, default=None), permanent, refusal=refusal
    )


def blocked_since(pod: Pod, pdbs: Iterable[PodDisruptionBudget], began_at: datetime | None) -> datetime | None:
    """Since when PDBs block the eviction of a pod, by their own conditions; at the earliest since the drain began."""
    conditions = [find(budget.status.conditions, "DisruptionAllowed") for budget in matching(pod, pdbs)]
    closed = [each.last_transition_time for each in conditions if each is not None and each.status == "False"]
    return max((each for each in (began_at, *closed) if each is not None), default=None)


def _step(node: ClusterNode) -> str:
    """What the termination waits for after the drain, from the claim's conditions."""
    conditions = node.claim.status.conditions if node.claim is not None else ()
    volumes = find(conditions, VOLUMES_DETACHED)
    if volumes is not None and volumes.status == "Unknown":
        return volumes.message or "volumes are still attached"
    terminating = find(conditions, INSTANCE_TERMINATING)
    if terminating is not None and terminating.status == "True":
        return "the instance is being terminated"
    drained = find(conditions, DRAINED)
    return "waiting for pods that were bound just before the taint" if drained is not None else ""


def place_drained_pods(node: ClusterNode, snapshot: Snapshot, options: DecisionOptions) -> Placement:
    """Where the pods of a node would be scheduled once it is gone: other nodes, new nodes, or nowhere."""
    others = tuple(each for each in snapshot.nodes if each.name != node.name)
    evicted = (pod for pod in node.pods if pod.reschedulable and not left_alone(pod, snapshot.at))
    pods_to_reschedule = [pod for pod in evicted if pod.metadata.owner_references]  # others are not recreated
    pools, respect = usable_pools(snapshot), options.respect_preferences
    return solve(replace(snapshot, nodes=others), pods_to_reschedule, pools, respect_preferences=respect)
