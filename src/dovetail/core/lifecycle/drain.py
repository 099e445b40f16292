"""Which pods stand between a node and its end, in which order they are asked to go, and what keeps new ones away.

Finished pods, static pods, pods that tolerate the disruption taint and pods stuck in their own end are left alone.
Protected pods are waited for, not evicted, unless their Node was deleted by hand (`manual_deletion`). Where the claim
bounds its drain, each pod is deleted early enough to keep its own grace before the deadline; budgets and protection do
not count any more then. Meaning of Karpenter's drain.

Which volumes still hang on a node whose pods are gone.

Nothing is detached here: the attachments are the volume controllers' own. Volumes of pods that the drain leaves alone
stay attached as long as the node lives, so nobody waits for those.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from dovetail.core.lifecycle.termination import evicts_protected
from dovetail.core.merge_patches import missing, wire
from dovetail.model import instants
from dovetail.model.do_not_disrupt import longest_first, protection
from dovetail.model.kube_object import Key
from dovetail.model.labels import DO_NOT_DISRUPT, EXCLUDE_FROM_LOAD_BALANCERS
from dovetail.model.node import Node
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.resources import CPU, MEMORY, ZERO
from dovetail.model.snapshot import ClusterNode
from dovetail.model.storage import PersistentVolumeClaim, VolumeAttachment
from dovetail.model.taints import DISRUPTED_TAINT, DISRUPTION_TAINT, tolerates

STUCK_AFTER = timedelta(minutes=1)
"""A pod that should have been gone this long ago is no longer waited for."""
MINIMUM_DRAIN = timedelta(seconds=5)
"""Pods bound just before the taint was seen still show up within this."""
DEFAULT_GRACE = timedelta(seconds=30)
DISRUPTION_TAINTS = (DISRUPTED_TAINT, DISRUPTION_TAINT)
CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
_MOMENT = timedelta(milliseconds=1)


class Tier(IntEnum):
    """The order in which pods go: each tier only when the one before is gone."""

    PODS = 1
    DAEMONS = 2
    CRITICAL_PODS = 3
    CRITICAL_DAEMONS = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """Pods to ask through the eviction API now, pods to delete now, and all that are still waited for."""

    evict: tuple[Pod, ...]
    force: tuple[Pod, ...]
    waiting: tuple[Pod, ...]
    tier: Tier | None = None
    changes_at: datetime | None = None
    """When the plan changes by itself: a protection ends, a grace has to begin, a pod counts as stuck."""
    evicts_protected: bool = False
    """Whether do-not-disrupt holds nothing here."""

    @property
    def done(self) -> bool:
        """Nothing is left that has to go."""
        return not self.waiting


def plan_drain(node: ClusterNode, now: datetime, deadline: datetime | None = None) -> DrainPlan:
    """What is left to do before the node may go."""
    waiting = tuple(pod for pod in node.pods if not pod.terminal and not left_alone(pod, now))
    force = tuple(pod for pod in waiting if must_be_forced(pod, now, deadline))
    patient = [pod for pod in waiting if pod not in force]
    tier = min((tier_of(pod) for pod in waiting), default=None)
    unprotected = evicts_protected(node.claim)
    evict = [
        pod
        for pod in patient
        if tier_of(pod) == tier and not pod.deleting and (unprotected or not protection(pod, now).active)
    ]
    changes_at = _changes_at(waiting, now, deadline)
    return DrainPlan(tuple(sorted(evict, key=_largest_first)), force, waiting, tier, changes_at, unprotected)


def _largest_first(pod: Pod) -> tuple[int, int]:
    """As a simulation places them: whoever is easy to place leaves what room there is to those who are not.

    Priority is the scheduler's own business: those that wait are looked at in that order, whoever was evicted first.
    """
    requests = spec_requests(pod.spec)
    return -requests.get(CPU, ZERO).milli, -requests.get(MEMORY, ZERO).units


def tier_of(pod: Pod) -> Tier:
    """When the pod's turn comes."""
    if pod.spec.priority_class_name in CRITICAL:
        return Tier.CRITICAL_DAEMONS if pod.daemon else Tier.CRITICAL_PODS
    return Tier.DAEMONS if pod.daemon else Tier.PODS


def left_alone(pod: Pod, now: datetime) -> str:
    """Why the drain does not touch the pod, or empty."""
    if pod.mirror:
        return "static pod: it ends with the node"
    if any(tolerates(pod.spec.tolerations, taint) for taint in DISRUPTION_TAINTS):
        return "tolerates the disruption taint"
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is not None and now - deleted_at > STUCK_AFTER:
        return "should have been gone more than a minute ago, so nobody waits for it"
    return ""


def grace_of(pod: Pod) -> timedelta:
    """How long the pod may take to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if seconds is None else instants.seconds(seconds)


def grace_left(deadline: datetime, now: datetime) -> int:
    """The grace seconds a pod gets when it is deleted now; never none, so that it is still told."""
    return max(math.ceil((deadline - now).total_seconds()), 1)


def must_be_forced(pod: Pod, now: datetime, deadline: datetime | None) -> bool:
    """Whether the pod has to be deleted now for its own grace to end by the deadline, or to end sooner than it will."""
    if deadline is None:
        return False
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is not None:
        granted = pod.metadata.deletion_grace_period_seconds or 0
        return deleted_at > deadline and granted > grace_left(deadline, now)
    return now >= instants.subtract(deadline, grace_of(pod))


def _changes_at(waiting: Iterable[Pod], now: datetime, deadline: datetime | None) -> datetime | None:
    turns = []
    for pod in waiting:
        deleted_at = pod.metadata.deletion_timestamp
        if deleted_at is not None:
            turns.append(instants.add(deleted_at, STUCK_AFTER + _MOMENT))
            continue
        if deadline is not None:
            turns.append(instants.subtract(deadline, grace_of(pod)))
        until = protection(pod, now).until
        if until is not None:
            turns.append(until)
    return min((turn for turn in turns if turn > now), default=None)


def waiting_words(drain: DrainPlan, now: datetime) -> str:
    """How many pods are waited for, and the one whose own protection lasts longest: for a time, or for ever."""
    number = len(drain.waiting)
    words = f"Failed to drain node, {number} {'pods are' if number > 1 else 'pod is'} waiting to be evicted"
    held = longest_first(drain.waiting, now)
    if not held or drain.evicts_protected:
        return words
    pod, lasting = held[0]
    until = f"until {lasting.until:%Y-%m-%dT%H:%M:%SZ}" if lasting.until else "permanent: somebody has to change it"
    return f"{words}, {len(held)} protected by {DO_NOT_DISRUPT} (Pod={pod.key}, {until})"


def taints_patch(node: Node) -> dict[str, Any]:
    """The disruption taint in both spellings; empty when they are there."""
    present = {(taint.key, taint.value, taint.effect) for taint in node.spec.taints}
    if all((taint.key, taint.value, taint.effect) in present for taint in DISRUPTION_TAINTS):
        return {}
    keys = {taint.key for taint in DISRUPTION_TAINTS}
    others = [taint for taint in node.spec.taints if taint.key not in keys]
    return {"spec": {"taints": [wire(taint) for taint in (*others, *DISRUPTION_TAINTS)]}}


def drain_patch(node: Node) -> dict[str, Any]:
    """Taints in both spellings and the load balancer label; empty when all of it is there."""
    patch = taints_patch(node)
    labels = missing({EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}, node.metadata.labels)
    if labels:
        patch["metadata"] = {"labels": labels}
    return patch


def is_shut(node: Node) -> bool:
    """Whether it has a taint that keeps new pods from a node on its way out."""
    return any(taint.matches(ours) for taint in node.spec.taints for ours in DISRUPTION_TAINTS)


def reopening_patch(node: Node) -> dict[str, Any]:
    """Takes back what `drain_patch` does."""
    kept = [taint for taint in node.spec.taints if not any(taint.matches(ours) for ours in DISRUPTION_TAINTS)]
    patch: dict[str, Any] = {"spec": {"taints": [wire(taint) for taint in kept]}}
    if node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS) == "karpenter":
        patch["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: None}}
    return patch


MOST_NAMED = 5


def find_attached(
    node: ClusterNode,
    attachments: Iterable[VolumeAttachment],
    claims: Mapping[Key, PersistentVolumeClaim],
    now: datetime,
) -> tuple[str, ...]:
    """The names of the attachments to wait for."""
    kept = {volume for pod in node.pods if left_alone(pod, now) for volume in _volumes(pod, claims)}
    return tuple(
        sorted(
            each.name
            for each in attachments
            if each.spec.node_name == node.name
            and each.spec.source.persistent_volume_name
            and each.spec.source.persistent_volume_name not in kept
        )
    )


def awaiting_words(attached: tuple[str, ...]) -> str:
    """What is waited for, as events and conditions tell it."""
    return f"Awaiting deletion of bound volumeattachments ({named(attached)})"


def named(things: Iterable[str]) -> str:
    """A few of these by name, the others by number."""
    names = tuple(things)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _volumes(pod: Pod, claims: Mapping[Key, PersistentVolumeClaim]) -> Iterable[str]:
    """The persistent volumes a pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.name}-{volume.name}"
        else:
            continue
        claim = claims.get(Key(pod.metadata.namespace, name))
        if claim is not None and claim.spec.volume_name:
            yield claim.spec.volume_name
