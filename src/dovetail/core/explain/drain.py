"""What a drain waits for: pod by pod, whether it is slow or stuck, since when, and when it ends by itself.

Asks the same functions the drain asks, on a node that is going or on one that might: a preview and an account cannot
disagree. Decides nothing.
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

ALONE = "it has no owner: nobody makes it again"
NOT_PROTECTED = "do-not-disrupt does not hold it: deleting a Node by hand cannot be delayed"


class PodState(StrEnum):
    """How a pod stands to the drain of its node."""

    LEFT_ALONE = "left alone"
    STOPPING = "stopping"
    PROTECTED = "protected"
    BLOCKED = "blocked"
    NEXT = "evicted next"
    LATER = "its tier comes later"


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod. `until`: it ends by itself then; `permanent`: somebody has to change something; neither: any time."""

    pod: Pod
    state: PodState
    why: str = ""
    since: datetime | None = None
    until: datetime | None = None
    permanent: bool = False
    refusal: Refusal | None = None  # of the eviction, where something holds the pod

    @property
    def tier(self) -> Tier:
        """When its turn comes."""
        return tier_of(self.pod)


@dataclass(frozen=True)
class DrainView:
    """How far a node is on its way out, or would be. Pods that the drain waits for come first, by tier."""

    node: ClusterNode
    at: datetime
    pods: tuple[PodView, ...]
    since: datetime | None = None
    deadline: datetime | None = None
    step: str = ""
    """What is waited for once the pods are gone."""

    @property
    def waiting(self) -> tuple[PodView, ...]:
        """The pods that have to go."""
        return tuple(each for each in self.pods if each.state != PodState.LEFT_ALONE)

    @property
    def stuck(self) -> tuple[PodView, ...]:
        """The pods that will not go unless somebody changes something."""
        return tuple(each for each in self.waiting if each.permanent)

    @property
    def verdict(self) -> str:
        """Slow or stuck, in one word."""
        if self.stuck:
            return "stuck"
        return "slow" if any(each.state in _HELD for each in self.waiting) else "moving"


_HELD = (PodState.PROTECTED, PodState.BLOCKED)


def explain_drain(node: ClusterNode, pdbs: Sequence[PodDisruptionBudget], now: datetime) -> DrainView:
    """What the drain of a node waits for, or would wait for if it began now."""
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
    """When the node began to go."""
    for held in (node.claim, node.node):
        if held is not None and held.deleting:
            return held.metadata.deletion_timestamp
    return None


def _pod_view(pod: Pod, drain: DrainPlan, pdbs: Sequence[PodDisruptionBudget], instants: _Instants) -> PodView:
    alone = left_alone(pod, instants.now)
    if alone:
        return PodView(pod, PodState.LEFT_ALONE, alone)
    ends_at = pod.metadata.deletion_timestamp
    if ends_at is not None:
        told_at = subtract(ends_at, seconds(pod.metadata.deletion_grace_period_seconds or 0))
        return PodView(pod, PodState.STOPPING, "was told to stop", since=told_at, until=ends_at)
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
    """A pod that is not evicted now. The deadline of the drain ends what nothing else ends."""
    ends = [instant for instant in (refusal.until, instants.forced_at(pod)) if instant is not None]
    permanent = refusal.permanent and not ends
    return PodView(
        pod, state, drain_words(refusal), instants.since, min(ends, default=None), permanent, refusal=refusal
    )


def blocked_since(pod: Pod, pdbs: Iterable[PodDisruptionBudget], began_at: datetime | None) -> datetime | None:
    """Since when its budgets, as they say themselves, stand against the drain of a pod; not before that began."""
    said = [find(budget.status.conditions, "DisruptionAllowed") for budget in matching(pod, pdbs)]
    closed = [each.last_transition_time for each in said if each is not None and each.status == "False"]
    return max((each for each in (began_at, *closed) if each is not None), default=None)


def _step(node: ClusterNode) -> str:
    """What comes after the pods, as the claim's conditions tell."""
    conditions = node.claim.status.conditions if node.claim is not None else ()
    volumes = find(conditions, VOLUMES_DETACHED)
    if volumes is not None and volumes.status == "Unknown":
        return volumes.message or "volumes are still attached"
    terminating = find(conditions, INSTANCE_TERMINATING)
    if terminating is not None and terminating.status == "True":
        return "the instance is being terminated"
    drained = find(conditions, DRAINED)
    return "pods bound in the last moment are looked for" if drained is not None else ""


def find_homes(node: ClusterNode, snapshot: Snapshot, options: DecisionOptions) -> Placement:
    """Where the pods of a node would run once it is gone, as the solver sees it: other nodes, new ones, or nowhere."""
    others = tuple(each for each in snapshot.nodes if each.name != node.name)
    going = (pod for pod in node.pods if pod.reschedulable and not left_alone(pod, snapshot.at))
    pods_to_reschedule = [pod for pod in going if pod.metadata.owner_references]  # the others end for good
    pools, respect = usable_pools(snapshot), options.respect_preferences
    return solve(replace(snapshot, nodes=others), pods_to_reschedule, pools, respect_preferences=respect)
