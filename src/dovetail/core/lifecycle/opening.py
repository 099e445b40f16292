"""Keeps a new node closed until it is ready, so that the pods it was launched for get it.

kube-scheduler does not know the plan: pods bind to whichever node is ready first, and the last ones need nodes that
were not planned. A NodeClaim that is launched for pending pods therefore carries their uids (`planned_pods`), and its
node a taint (`CLOSED_TAINT`) from its registration on. Once the node is ready and has no other taint of a starting
node, those pods are nominated to it, and the taint is removed: kube-scheduler tries the nominated node first.

The taint is on the Node only, never in the NodeClaim, where it would stay for good if Karpenter took over before the
node registered. `judge_opening` opens a node that takes too long as well, and then nominates no pods. A node without
planned pods, such as a replacement, is never closed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dovetail.core.merge_patches import wire
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.instants import add
from dovetail.model.labels import PLANNED_PODS
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.taints import CLOSED_TAINT, EPHEMERAL_TAINTS, NO_SCHEDULE, Taint, is_ephemeral, tolerates

MOST_PLANNED_PODS = 4000
"""Bounds the annotation, since all annotations of an object together may have at most 256 KiB."""
LONGEST_START = timedelta(minutes=3)
"""A node that is not ready this long after it joined is opened: perhaps a pod it needs does not tolerate the taint."""
LONGEST_QUEUED = timedelta(seconds=60)
"""A ready node that has waited this long for its turn is opened without nominations."""
_ON_STARTING_NODES = tuple(taint for taint in EPHEMERAL_TAINTS if taint != CLOSED_TAINT and taint.effect == NO_SCHEDULE)


def with_planned_pods(claim: NodeClaim, pods: Iterable[Pod], daemon_sets: Iterable[DaemonSet]) -> NodeClaim:
    """The claim to create with the uids of the pending pods it is for, so that its node starts closed.

    Without them if there are no pending pods, or if a DaemonSet has to start its pods before the node is ready but
    does not tolerate the taint: closed, the node might never become ready.
    """
    uids = sorted(pod.metadata.uid for pod in pods if not pod.node_name)
    starting = (*_ON_STARTING_NODES, *claim.spec.startup_taints)
    if not 0 < len(uids) <= MOST_PLANNED_PODS or any(_starts_nodes(each, starting) for each in daemon_sets):
        return claim
    annotations = {**claim.metadata.annotations, PLANNED_PODS: ",".join(uids)}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def _starts_nodes(daemon_set: DaemonSet, starting: Iterable[Taint]) -> bool:
    """Whether its pods run on nodes with a taint of a starting node, but not on closed nodes."""
    tolerations = daemon_set.spec.template.spec.tolerations
    return not tolerates(tolerations, CLOSED_TAINT) and any(tolerates(tolerations, taint) for taint in starting)


def planned_pods(claim: NodeClaim) -> frozenset[str]:
    """The uids of the pods that the claim was launched for; empty if its node does not start closed."""
    return frozenset(filter(None, claim.metadata.annotations.get(PLANNED_PODS, "").split(",")))


def is_closed(node: Node) -> bool:
    """Whether the node has the taint that keeps it closed."""
    return any(taint.matches(CLOSED_TAINT) for taint in node.spec.taints)


def is_openable(node: Node, claim: NodeClaim | None) -> bool:
    """Whether the node is ready, and has no taint of a starting node but ours."""
    startup = claim.spec.startup_taints if claim is not None else ()
    others = [taint for taint in node.spec.taints if not taint.matches(CLOSED_TAINT)]
    return node.ready and not any(is_ephemeral(each) or any(map(each.matches, startup)) for each in others)


@dataclass(frozen=True, slots=True)
class Opening:
    """Whether to open a closed node: after `wait`, or now; with nominations, or without because of `problem`."""

    wait: timedelta | None = None
    problem: str = ""


def judge_opening(node: Node, claim: NodeClaim | None, openable_at: datetime | None, now: datetime) -> Opening:
    """Whether to open a closed node now. `openable_at` is when the node was first seen ready without other taints."""
    if claim is None or not planned_pods(claim):
        return Opening(problem="the pods it was launched for are not known")
    if openable_at is None:
        left = add(node.metadata.creation_timestamp or now, LONGEST_START) - now
        return Opening(wait=left) if left > timedelta() else Opening(problem="it takes too long to become ready")
    return Opening(problem="it waited too long for its turn" if now - openable_at > LONGEST_QUEUED else "")


def opened_patch(node: Node) -> dict[str, Any]:
    """Removes the taint that keeps the node closed."""
    return {"spec": {"taints": [wire(taint) for taint in node.spec.taints if not taint.matches(CLOSED_TAINT)]}}
