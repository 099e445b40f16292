"""Launches that did not help: nodes that are there and took none of the pods they were launched for.

Asked only of pods for which the next plan would launch a node, so none of them fits on these nodes as they are now.
Pods that fit on a node wait for the scheduler, or for the node to initialize, and cost nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from dovetail.core.provisioning.launch_backoff import (
    FailedLaunch,
    LaunchFailureCause,
    last_helped,
    launched_for,
    launched_under,
    pod_kind,
    with_kinds,
)
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.resource_vector import exceeds
from dovetail.core.scheduling.solver import why_none
from dovetail.model.conditions import find
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.pod_requests import spec_requests
from dovetail.model.resources import add, subtract
from dovetail.model.snapshot import ClusterNode, Snapshot


@dataclass(frozen=True, slots=True)
class _Tried:
    """A node that was launched for pods and has joined the cluster."""

    node: ClusterNode
    claim: NodeClaim
    launched_at: datetime
    initialized_at: datetime | None

    def was_offered(self, pod: Pod) -> bool:
        """Whether the pod waited when the node initialized, or the node has never had a pod.

        Otherwise the node may have served its pods, and have been drained or cordoned since.
        """
        created_at, since = pod.metadata.creation_timestamp, self.initialized_at
        if since is None or self.claim.status.last_pod_event_time is None:
            return True
        return created_at is not None and created_at <= since


def find_failures(snapshot: Snapshot, drafts: Iterable[Draft]) -> Iterator[FailedLaunch]:
    """For each NodePool and kind of pods that a node is to be launched for: the newest node that did not take them.

    It is no failure if a node that was launched together with it, or later, took one: then launches do help.
    """
    tried_by_pool: dict[str, Mapping[str, list[_Tried]]] = {}
    asked: set[tuple[str, str]] = set()
    for draft in drafts:
        pool = draft.pool_name
        if pool not in tried_by_pool:
            tried_by_pool[pool] = _newest_first(snapshot.nodepools[pool], snapshot)
        for pod, kind in with_kinds(draft) if tried_by_pool[pool] else ():
            if (pool, kind) in asked or not pod.provisionable:
                continue
            asked.add((pool, kind))
            tried = _last_in_vain(tried_by_pool[pool].get(kind, ()), pod, kind)
            if tried is None or not _may_repeat(tried, pod, draft):
                continue
            if kind not in last_helped(snapshot, pool, tried.launched_at):
                yield _failure(tried, kind, pod, snapshot)


def _newest_first(pool: NodePool, snapshot: Snapshot) -> Mapping[str, list[_Tried]]:
    """The nodes of a pool by the kinds of pods they were launched for."""
    found: list[_Tried] = []
    for node in snapshot.nodes_by_pool.get(pool.name, ()):
        claim = node.claim
        if claim is not None and node.node is not None and not node.leaving and launched_under(claim, pool):
            said = find(claim.status.conditions, INITIALIZED)
            since = said.last_transition_time if said is not None and said.status == "True" else None
            found.append(_Tried(node, claim, claim.metadata.creation_timestamp or snapshot.at, since))
    found.sort(key=lambda each: (each.launched_at, each.node.name), reverse=True)
    by_kind: dict[str, list[_Tried]] = {}
    for each in found:
        for kind in launched_for(each.claim):
            by_kind.setdefault(kind, []).append(each)
    return by_kind


def _last_in_vain(newest_first: Iterable[_Tried], pod: Pod, kind: str) -> _Tried | None:
    """The last node that was launched for such pods and took none, if no node that was launched later took one."""
    for tried in newest_first:
        if any(pod_kind(each) == kind for each in tried.node.pods):
            return None
        if tried.was_offered(pod):
            return tried
    return None


def _may_repeat(tried: _Tried, pod: Pod, draft: Draft) -> bool:
    """Whether the next launch for the pod may be of the same instance type.

    It is not once the type is known to be too small, such as when the node shows that DaemonSets request more than
    their templates say. Then the next launch is another one, and does not have to wait.
    """
    name = tried.claim.metadata.labels.get(INSTANCE_TYPE)
    same = [choice for choice in draft.template.choices if choice.type.name == name]
    needs = spec_requests(pod.spec)
    return not same or any(
        not exceeds(subtract(choice.type.allocatable, add(choice.overhead, needs))) for choice in same
    )


def _failure(tried: _Tried, kind: str, pod: Pod, snapshot: Snapshot) -> FailedLaunch:
    node, claim = tried.node, tried.claim
    why = _misfit(node, pod, snapshot)
    if why:
        told = f"node {node.name} was launched for it and cannot take it, {why}"
        return FailedLaunch(claim, kind, LaunchFailureCause.NOT_FITTING, told)
    return FailedLaunch(
        claim, kind, LaunchFailureCause.CROWDED_OUT, f"node {node.name} was launched for it and took other pods"
    )


def _misfit(node: ClusterNode, pod: Pod, snapshot: Snapshot) -> str:
    """Why a node would not take a pod even without the pods of other workloads; empty if it would.

    Rules about other pods are left out: where a pod runs beside others is settled among all nodes.
    """
    bare = replace(node, pods=tuple(each for each in node.pods if each.stays_with_node))
    alone = replace(snapshot, nodes=(bare,), unbound_pods=())
    affinity = pod.spec.affinity
    own = msgspec.structs.replace(affinity, pod_affinity=None, pod_anti_affinity=None) if affinity is not None else None
    spec = msgspec.structs.replace(pod.spec, affinity=own, topology_spread_constraints=())
    return why_none(alone, msgspec.structs.replace(pod, spec=spec))
