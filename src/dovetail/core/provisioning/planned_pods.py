"""Counts pending pods as pods of the node that was launched for them, as long as it starts (`core.lifecycle.opening`).

The pods of a plan stay pending until their nodes are ready. Planned again meanwhile, beside other nodes or other pods,
they might be distributed in another way, which needs more nodes than were launched. So they keep their places until
kube-scheduler has had time to bind them, and only the other pods are planned. Pods that it has not bound by then are
planned like all others, even if they are still nominated to the node: it does not accept them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from dovetail.core.lifecycle.opening import planned_pods
from dovetail.model.conditions import find
from dovetail.model.instants import add
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.snapshot import Snapshot

BINDING_TIME = timedelta(seconds=10)
"""In which kube-scheduler binds the pods of a node that is opened, from the initialization of the node."""
PlannedNodes = Mapping[str, str]
"""The node or NodeClaim that a pod was planned for, by the uid of the pod."""


def find_planned_nodes(snapshot: Snapshot) -> PlannedNodes:
    """The nodes that are starting, by the pods that they were launched for."""
    return {
        uid: node.name
        for node in snapshot.nodes
        if node.claim is not None and not node.leaving and _may_be_bound_to(node.claim, snapshot.at)
        for uid in planned_pods(node.claim)
    }


def _may_be_bound_to(claim: NodeClaim, now: datetime) -> bool:
    """Whether the claim is not initialized, or was initialized a moment ago."""
    found = find(claim.status.conditions, INITIALIZED)
    if found is None or found.status != "True" or found.last_transition_time is None:
        return True
    return now < add(found.last_transition_time, BINDING_TIME)


def with_pods_on_planned_nodes(snapshot: Snapshot, pods: Iterable[Pod], planned: PlannedNodes) -> Snapshot:
    """The snapshot in which these pods run on the nodes that they were planned for."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        name = planned[pod.metadata.uid]
        spec = msgspec.structs.replace(pod.spec, node_name=name)
        by_node.setdefault(name, []).append(msgspec.structs.replace(pod, spec=spec))
    if not by_node:
        return snapshot
    bound = {uid for each in by_node.values() for uid in (pod.metadata.uid for pod in each)}
    return replace(
        snapshot,
        nodes=tuple(
            replace(node, pods=(*node.pods, *by_node[node.name])) if node.name in by_node else node
            for node in snapshot.nodes
        ),
        unbound_pods=tuple(pod for pod in snapshot.unbound_pods if pod.metadata.uid not in bound),
    )
