"""Drains a node: which pods to evict or delete now, the taints that keep new pods away, and the volumes to wait for.

`plan_drain` is stateless and follows Karpenter. Pods are evicted in four tiers (`Tier`). Finished pods, static pods,
pods that tolerate the disruption taint and pods that did not terminate in time are skipped. do-not-disrupt pods are
waited for, not evicted, unless their Node was deleted by hand (`evicts_protected`). If the drain has a deadline, each
pod is deleted early enough for its own grace period to end before it; PDBs and do-not-disrupt do not count then.

`find_attached` lists the VolumeAttachments of a drained node to wait for. The attach-detach controller detaches them.
Volumes of skipped pods stay attached as long as the node exists, so they do not count.
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
from dovetail.model.taints import DISRUPTED_TAINT, DISRUPTION_TAINT, REMOVED_NEXT_TAINT, tolerates

STUCK_AFTER = timedelta(minutes=1)
"""How long after its deletion timestamp a pod is still waited for."""
MINIMUM_DRAIN = timedelta(seconds=5)
"""How long a node is drained at least: a pod bound just before the taint shows up within this time."""
DEFAULT_GRACE = timedelta(seconds=30)
DISRUPTION_TAINTS = (DISRUPTED_TAINT, DISRUPTION_TAINT)
CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
_MOMENT = timedelta(milliseconds=1)


class Tier(IntEnum):
    """The eviction order: a tier begins when the one before it is gone."""

    PODS = 1
    DAEMONS = 2
    CRITICAL_PODS = 3
    CRITICAL_DAEMONS = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """Pods to evict now, pods to delete now (`force`), and all pods that the drain waits for."""

    evict: tuple[Pod, ...]
    force: tuple[Pod, ...]
    waiting: tuple[Pod, ...]
    tier: Tier | None = None
    changes_at: datetime | None = None
    """When the plan changes by itself: a protection ends, a pod has to be deleted, or a pod counts as stuck."""
    evicts_protected: bool = False
    """Whether do-not-disrupt pods are evicted like the others."""

    @property
    def done(self) -> bool:
        """Whether no pod is left to wait for."""
        return not self.waiting


def plan_drain(node: ClusterNode, now: datetime, deadline: datetime | None = None) -> DrainPlan:
    """The pods to evict and delete now, so that the node can be terminated."""
    waiting = tuple(pod for pod in node.pods if not pod.terminal and not left_alone(pod, now))
    force = tuple(pod for pod in waiting if must_be_forced(pod, now, deadline))
    evictable = [pod for pod in waiting if pod not in force]
    tier = min((tier_of(pod) for pod in waiting), default=None)
    unprotected = evicts_protected(node.claim)
    evict = [
        pod
        for pod in evictable
        if tier_of(pod) == tier and not pod.deleting and (unprotected or not protection(pod, now).active)
    ]
    changes_at = _changes_at(waiting, now, deadline)
    return DrainPlan(tuple(sorted(evict, key=_largest_first)), force, waiting, tier, changes_at, unprotected)


def _largest_first(pod: Pod) -> tuple[int, int]:
    """Sort key, in the order of the simulation: a small pod must not take the room that only fits a large one.

    Priority does not matter here: kube-scheduler orders pending pods by priority whichever was evicted first.
    """
    requests = spec_requests(pod.spec)
    return -requests.get(CPU, ZERO).milli, -requests.get(MEMORY, ZERO).units


def tier_of(pod: Pod) -> Tier:
    """The tier in which the pod is evicted."""
    if pod.spec.priority_class_name in CRITICAL:
        return Tier.CRITICAL_DAEMONS if pod.daemon else Tier.CRITICAL_PODS
    return Tier.DAEMONS if pod.daemon else Tier.PODS


def left_alone(pod: Pod, now: datetime) -> str:
    """Why the drain skips the pod, or empty."""
    if pod.mirror:
        return "static pod: it ends with the node"
    if any(tolerates(pod.spec.tolerations, taint) for taint in DISRUPTION_TAINTS):
        return "tolerates the disruption taint"
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is not None and now - deleted_at > STUCK_AFTER:
        return "should have terminated more than a minute ago: the drain no longer waits for it"
    return ""


def grace_of(pod: Pod) -> timedelta:
    """The pod's termination grace period."""
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if seconds is None else instants.seconds(seconds)


def grace_left(deadline: datetime, now: datetime) -> int:
    """The grace seconds of a pod that is deleted now; at least 1, because 0 would kill it without SIGTERM."""
    return max(math.ceil((deadline - now).total_seconds()), 1)


def must_be_forced(pod: Pod, now: datetime, deadline: datetime | None) -> bool:
    """Whether the pod has to be deleted now, or again with a shorter grace period, to terminate by the deadline."""
    if deadline is None:
        return False
    deleted_at = pod.metadata.deletion_timestamp
    if deleted_at is not None:
        granted = pod.metadata.deletion_grace_period_seconds or 0
        return deleted_at > deadline and granted > grace_left(deadline, now)
    return now >= instants.subtract(deadline, grace_of(pod))


def _changes_at(waiting: Iterable[Pod], now: datetime, deadline: datetime | None) -> datetime | None:
    changes = []
    for pod in waiting:
        deleted_at = pod.metadata.deletion_timestamp
        if deleted_at is not None:
            changes.append(instants.add(deleted_at, STUCK_AFTER + _MOMENT))
            continue
        if deadline is not None:
            changes.append(instants.subtract(deadline, grace_of(pod)))
        until = protection(pod, now).until
        if until is not None:
            changes.append(until)
    return min((each for each in changes if each > now), default=None)


def drain_message(drain: DrainPlan, now: datetime) -> str:
    """The event of a drain that is not done: the number of pods left, and the pod that is protected longest."""
    number = len(drain.waiting)
    words = f"Failed to drain node, {number} {'pods are' if number > 1 else 'pod is'} waiting to be evicted"
    held = longest_first(drain.waiting, now)
    if not held or drain.evicts_protected:
        return words
    pod, lasting = held[0]
    until = f"until {lasting.until:%Y-%m-%dT%H:%M:%SZ}" if lasting.until else "permanent: needs a manual change"
    return f"{words}, {len(held)} protected by {DO_NOT_DISRUPT} (Pod={pod.key}, {until})"


def taints_patch(node: Node) -> dict[str, Any]:
    """Adds the disruption taint, in its present and its former spelling; empty if the node has both."""
    present = {(taint.key, taint.value, taint.effect) for taint in node.spec.taints}
    if all((taint.key, taint.value, taint.effect) in present for taint in DISRUPTION_TAINTS):
        return {}
    keys = {taint.key for taint in DISRUPTION_TAINTS}
    others = [taint for taint in node.spec.taints if taint.key not in keys]
    return {"spec": {"taints": [wire(taint) for taint in (*others, *DISRUPTION_TAINTS)]}}


def drain_patch(node: Node) -> dict[str, Any]:
    """Adds the taints, and the label that removes the node from load balancers; empty if it has all of them."""
    patch = taints_patch(node)
    labels = missing({EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}, node.metadata.labels)
    if labels:
        patch["metadata"] = {"labels": labels}
    return patch


def is_shut(node: Node) -> bool:
    """Whether the node has a disruption taint."""
    return any(taint.matches(ours) for taint in node.spec.taints for ours in DISRUPTION_TAINTS)


def undo_drain_patch(node: Node) -> dict[str, Any]:
    """Reverts `drain_patch`."""
    kept = [taint for taint in node.spec.taints if not any(taint.matches(ours) for ours in DISRUPTION_TAINTS)]
    patch: dict[str, Any] = {"spec": {"taints": [wire(taint) for taint in kept]}}
    if node.metadata.labels.get(EXCLUDE_FROM_LOAD_BALANCERS) == "karpenter":
        patch["metadata"] = {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: None}}
    return patch


def removed_next_patch(node: Node, *, wanted: bool) -> dict[str, Any]:
    """Adds or removes the taint of nodes that consolidation deletes next; empty if nothing has to change."""
    others = [taint for taint in node.spec.taints if not taint.matches(REMOVED_NEXT_TAINT)]
    if wanted == (len(others) < len(node.spec.taints)):
        return {}
    taints = (*others, REMOVED_NEXT_TAINT) if wanted else others
    return {"spec": {"taints": [wire(taint) for taint in taints]}}


MOST_NAMED = 5


def find_attached(
    node: ClusterNode,
    attachments: Iterable[VolumeAttachment],
    claims: Mapping[Key, PersistentVolumeClaim],
    now: datetime,
) -> tuple[str, ...]:
    """The names of the VolumeAttachments to wait for."""
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


def attached_volumes_message(attached: tuple[str, ...]) -> str:
    """The text of the event and the condition while volumes are attached."""
    return f"Awaiting deletion of bound volumeattachments ({named(attached)})"


def named(things: Iterable[str]) -> str:
    """The first few names, and the number of the others."""
    names = tuple(things)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _volumes(pod: Pod, claims: Mapping[Key, PersistentVolumeClaim]) -> Iterable[str]:
    """The names of the PersistentVolumes that a pod uses."""
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
