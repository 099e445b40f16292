"""Launch backoff: how long a NodePool waits to launch another node for pods that earlier launches did not help.

Pods of one kind have equal namespace, requests, ports and scheduling rules; replicas of a StatefulSet also have equal
volumes. A NodeClaim carries the kinds of the pods it is launched for. A launch fails for a kind if the claim is deleted
because no node registered, or if its node runs none of these pods (`find_failures`). Each consecutive failure makes the
next launch of that NodePool for that kind wait longer (`WAITS`). Other kinds and other NodePools do not wait.

Replacing a pod does not reset the wait. It is reset when a pod of the kind runs on a node launched later, and when the
NodePool or its node class changes.

The failures are kept in an annotation of the NodePool, so that they survive restarts and the deletion of the claims. A
claim also carries how many failures were known when it was launched. So claims that are launched together and fail
together count as one failure, and no failure counts twice.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.host_ports import host_ports
from dovetail.core.scheduling.resource_vector import any_negative
from dovetail.core.scheduling.solver import why_unschedulable
from dovetail.model.conditions import find
from dovetail.model.kube_object import ApiStruct
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode
from dovetail.model.resources import add, subtract
from dovetail.model.snapshot import ClusterNode, Snapshot

BACKOFF_ANNOTATION = "dovetail.sh/launch-backoff"
LAUNCHED_FOR = "dovetail.sh/launched-for"
LAUNCHED_UNDER = "dovetail.sh/launched-under"
RESET_AFTER = timedelta(hours=1)
"""A failure later than this after the end of the wait counts as the first one again."""
MAX_RECORDED_KINDS = 400
MAX_REASON_LENGTH = 200
"""Bounds of the annotation, since all annotations of an object together may have at most 256 KiB."""


class LaunchFailureCause(StrEnum):
    """How a launch failed."""

    LAUNCH_FAILED = "launch_failed"  # no instance, or none that registered
    NOT_FITTING = "not_fitting"  # the node cannot run the pod, even without pods of other workloads
    CROWDED_OUT = "crowded_out"  # other pods use the resources of the node


@dataclass(frozen=True, slots=True)
class BackoffSteps:
    """Exponential backoff: no wait after the first `free` failures, then `first`, doubled each time up to `longest`."""

    free: int
    first: timedelta
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        """The wait after this number of consecutive failures."""
        counted = failures - self.free
        return min(self.first * 2 ** min(counted - 1, 20), self.longest) if counted > 0 else timedelta()


WAITS = {
    # Offerings without capacity are excluded for a while, so the first retry launches another offering.
    LaunchFailureCause.LAUNCH_FAILED: BackoffSteps(1, timedelta(seconds=10), timedelta(minutes=10)),
    LaunchFailureCause.NOT_FITTING: BackoffSteps(0, timedelta(minutes=1), timedelta(hours=1)),
    # Usually one more node is enough: pods that arrived meanwhile were scheduled first.
    LaunchFailureCause.CROWDED_OUT: BackoffSteps(2, timedelta(minutes=1), timedelta(hours=1)),
}


class LaunchBackoff(ApiStruct, frozen=True, kw_only=True):
    """The consecutive failures of one NodePool for one kind of pods."""

    failures: int
    launched_at: datetime
    """When the claim of the last failure was created."""
    until: datetime
    state: str
    """The generations of the NodePool and its node class, see `current_state`."""
    why: str

    def is_reset(self, now: datetime) -> bool:
        """Whether the wait ended so long ago that the next failure counts as the first one."""
        return self.until + RESET_AFTER < now


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A NodeClaim whose launch failed for a kind of pods."""

    claim: NodeClaim
    kind: str
    cause: LaunchFailureCause
    why: str


Backoffs = Mapping[tuple[str, str], LaunchBackoff]
"""By the name of the NodePool and the kind of pods."""


def pod_kind(pod: Pod) -> str:
    """A digest of the requirements of a pod, equal for all pods of a workload and their replacements.

    Volumes count only for replicas of a StatefulSet, whose claims keep their names and may be in different zones.
    """
    spec = pod.spec
    own = spec.volumes if pod.stateful else ()
    volumes = sorted(each.persistent_volume_claim.claim_name for each in own if each.persistent_volume_claim)
    requests = {name: str(amount.nano) for name, amount in sorted(spec_requests(spec).items())}
    rules = (dict(sorted(spec.node_selector.items())), spec.affinity, spec.tolerations)
    ports = sorted(map(str, host_ports(spec)))
    content = (pod.metadata.namespace, requests, *rules, spec.topology_spread_constraints, ports, volumes)
    return hashlib.sha256(msgspec.json.encode(content, enc_hook=str)).hexdigest()[:12]


def pods_with_kinds(draft: Draft) -> list[tuple[Pod, str]]:
    """The pods of a draft, each with its kind; pods of one shape are of one kind, unless they have volumes."""
    kinds: dict[int, str] = {}
    found = []
    for pod, shape in zip(draft.pods, draft.shapes, strict=True):
        kind = kinds.get(id(shape))
        if kind is None or pod.spec.volumes:
            kind = kinds[id(shape)] = pod_kind(pod)
        found.append((pod, kind))
    return found


def launch_annotations(draft: Draft, backoffs: Backoffs) -> dict[str, str]:
    """The annotations of a new claim: kinds of its pods with the known failures of each, and its NodePool's state."""
    pool = draft.template.pool
    known = {kind: backoffs.get((pool.name, kind)) for _, kind in pods_with_kinds(draft)}
    entries = (f"{kind}:{before.failures if before is not None else 0}" for kind, before in sorted(known.items()))
    return {LAUNCHED_FOR: ",".join(entries), LAUNCHED_UNDER: current_state(pool)}


def launched_for(claim: NodeClaim) -> Mapping[str, int]:
    """The kinds of pods that a claim was launched for, and how many failures were known of each."""
    entries = (each.partition(":") for each in claim.metadata.annotations.get(LAUNCHED_FOR, "").split(","))
    return {kind: int(number) for kind, _, number in entries if kind and number.isdecimal()}


def launched_by_current_version(claim: NodeClaim, pool: NodePool) -> bool:
    """Whether NodePool and node class are unchanged since the launch. Otherwise the next launch may help."""
    return claim.metadata.annotations.get(LAUNCHED_UNDER) == current_state(pool)


def recorded_backoffs(snapshot: Snapshot) -> Backoffs:
    """The recorded failures of all NodePools that still count."""
    return {
        (pool.name, kind): backoff
        for pool in snapshot.nodepools.values()
        if BACKOFF_ANNOTATION in pool.metadata.annotations
        for kind, backoff in record_of(pool, snapshot).items()
    }


def record_of(pool: NodePool, snapshot: Snapshot) -> Mapping[str, LaunchBackoff]:
    """The recorded failures of one NodePool that are not reset and not followed by a success, by kind of pods."""
    recent = {kind: each for kind, each in read_backoffs(pool).items() if not each.is_reset(snapshot.at)}
    if not recent:
        return {}
    succeeded = last_success_by_kind(snapshot, pool.name, min(each.launched_at for each in recent.values()))
    return {kind: each for kind, each in recent.items() if kind not in succeeded or succeeded[kind] < each.launched_at}


def in_force(snapshot: Snapshot) -> Backoffs:
    """The kinds of pods for which a NodePool launches nothing now."""
    return {slot: backoff for slot, backoff in recorded_backoffs(snapshot).items() if backoff.until > snapshot.at}


def last_success_by_kind(snapshot: Snapshot, pool: str, since: datetime) -> Mapping[str, datetime]:
    """By kind, the launch time of the newest node that runs a pod of it, among nodes launched at `since` or later.

    A success resets all failures of earlier launches.
    """
    found: dict[str, datetime] = {}
    for node in snapshot.nodes_by_pool.get(pool, ()):
        created_at = node.claim.metadata.creation_timestamp if node.claim is not None else None
        if created_at is not None and created_at >= since:
            for kind in map(pod_kind, node.pods):
                found[kind] = max(created_at, found.get(kind, created_at))
    return found


def read_backoffs(pool: NodePool) -> Mapping[str, LaunchBackoff]:
    """The failures in the annotation that are of the current state of the NodePool, by kind of pods."""
    written, state = pool.metadata.annotations.get(BACKOFF_ANNOTATION, ""), current_state(pool)
    try:
        found = msgspec.json.decode(written, type=dict[str, LaunchBackoff]) if written else {}
    except msgspec.DecodeError:
        return {}  # not written by Dovetail
    return {kind: backoff for kind, backoff in found.items() if backoff.state == state}


def after_failure(
    pool: NodePool, failure: FailedLaunch, record: Mapping[str, LaunchBackoff], now: datetime
) -> LaunchBackoff:
    """The entry after a failure; the existing entry if the failure was already counted. `record` is the NodePool's.

    A full record does not grow. A kind that is not in it waits until the last wait in the record ends: a wait from now
    would never end, because the failure would be found and counted again in each plan.
    """
    kind, before = failure.kind, record.get(failure.kind)
    if before is not None and launched_for(failure.claim).get(kind, 0) < before.failures:
        return before
    number = before.failures + 1 if before is not None else 1
    full = before is None and len(record) >= MAX_RECORDED_KINDS
    return LaunchBackoff(
        failures=number,
        launched_at=failure.claim.metadata.creation_timestamp or now,
        until=max(each.until for each in record.values()) if full else now + WAITS[failure.cause].after(number),
        state=current_state(pool),
        why=failure.why[:MAX_REASON_LENGTH],
    )


def annotation(backoffs: Mapping[str, LaunchBackoff], now: datetime) -> str:
    """The record as the value of the annotation: without reset entries, newest first."""
    recent = {kind: each for kind, each in backoffs.items() if not each.is_reset(now)}
    newest = sorted(recent.items(), key=lambda entry: (entry[1].launched_at, entry[0]), reverse=True)
    return msgspec.json.encode(dict(newest[:MAX_RECORDED_KINDS])).decode()


def current_state(pool: NodePool) -> str:
    """The generations of the NodePool and its node class; a change of either resets failures."""
    return f"{pool.metadata.generation}.{pool.status.node_class_observed_generation}"


def backoff_refusal(about: ObjectRef, pool: str, backoff: LaunchBackoff) -> Refusal:
    """Why a NodePool launches no node for a pod, or to replace a node, now."""
    code, failures = RefusalCode.LAUNCH_BACKOFF, backoff.failures
    return Refusal(code, about, backoff.until, nodepool=pool, count=failures, detail=backoff.why)


@dataclass(frozen=True, slots=True)
class _LaunchedNode:
    """A registered node that was launched for pods."""

    node: ClusterNode
    claim: NodeClaim
    launched_at: datetime
    initialized_at: datetime | None

    def was_available_to(self, pod: Pod) -> bool:
        """Whether the pod was pending when the node initialized, or the node never had a pod.

        Otherwise the node may have run its pods, and have been drained or cordoned since.
        """
        created_at, since = pod.metadata.creation_timestamp, self.initialized_at
        if since is None or self.claim.status.last_pod_event_time is None:
            return True
        return created_at is not None and created_at <= since


def find_failures(snapshot: Snapshot, drafts: Iterable[Draft]) -> Iterator[FailedLaunch]:
    """For each NodePool and kind of pods in the drafts: the newest node that was launched for them and runs none.

    It is no failure if a node that was launched at the same time or later runs one. Called with the drafts of a plan,
    so the existing nodes do not accept these pods now.
    """
    tried_by_pool: dict[str, Mapping[str, list[_LaunchedNode]]] = {}
    checked: set[tuple[str, str]] = set()
    for draft in drafts:
        pool = draft.pool_name
        if pool not in tried_by_pool:
            tried_by_pool[pool] = _launched_by_kind(snapshot.nodepools[pool], snapshot)
        for pod, kind in pods_with_kinds(draft) if tried_by_pool[pool] else ():
            if (pool, kind) in checked or not pod.unschedulable:
                continue
            checked.add((pool, kind))
            tried = _last_failed_node(tried_by_pool[pool].get(kind, ()), pod, kind)
            if tried is None or not _same_type_is_next(tried, pod, draft):
                continue
            if kind not in last_success_by_kind(snapshot, pool, tried.launched_at):
                yield _failure(tried, kind, pod, snapshot)


def _launched_by_kind(pool: NodePool, snapshot: Snapshot) -> Mapping[str, list[_LaunchedNode]]:
    """The registered nodes of a NodePool by the kinds of pods they were launched for, newest first."""
    found: list[_LaunchedNode] = []
    for node in snapshot.nodes_by_pool.get(pool.name, ()):
        claim = node.claim
        if (
            claim is not None
            and node.node is not None
            and not node.leaving
            and launched_by_current_version(claim, pool)
        ):
            condition = find(claim.status.conditions, INITIALIZED)
            initialized = condition is not None and condition.status == "True"
            since = condition.last_transition_time if condition is not None and initialized else None
            found.append(_LaunchedNode(node, claim, claim.metadata.creation_timestamp or snapshot.at, since))
    found.sort(key=lambda each: (each.launched_at, each.node.name), reverse=True)
    by_kind: dict[str, list[_LaunchedNode]] = {}
    for each in found:
        for kind in launched_for(each.claim):
            by_kind.setdefault(kind, []).append(each)
    return by_kind


def _last_failed_node(newest_first: Iterable[_LaunchedNode], pod: Pod, kind: str) -> _LaunchedNode | None:
    """The newest node that was launched for a kind and runs none of it; None if a newer node runs one."""
    for tried in newest_first:
        if any(pod_kind(each) == kind for each in tried.node.pods):
            return None
        if tried.was_available_to(pod):
            return tried
    return None


def _same_type_is_next(tried: _LaunchedNode, pod: Pod, draft: Draft) -> bool:
    """Whether the next launch for the pod may have the same instance type.

    It may not once the type is known to be too small, for example when the node shows that DaemonSet pods request more
    than their template. Then the next launch has another type and does not have to wait.
    """
    name = tried.claim.metadata.labels.get(INSTANCE_TYPE)
    same = [choice for choice in draft.template.choices if choice.type.name == name]
    needs = spec_requests(pod.spec)
    return not same or any(
        not any_negative(subtract(choice.type.allocatable, add(choice.overhead, needs))) for choice in same
    )


def _failure(tried: _LaunchedNode, kind: str, pod: Pod, snapshot: Snapshot) -> FailedLaunch:
    node, claim = tried.node, tried.claim
    why = _why_not_fitting(node, pod, snapshot)
    if why:
        reason = f"node {node.name} was launched for it and cannot run it, {why}"
        return FailedLaunch(claim, kind, LaunchFailureCause.NOT_FITTING, reason)
    return FailedLaunch(
        claim, kind, LaunchFailureCause.CROWDED_OUT, f"node {node.name} was launched for it and runs other pods"
    )


def _why_not_fitting(node: ClusterNode, pod: Pod, snapshot: Snapshot) -> str:
    """Why a node cannot run a pod even without pods of other workloads; empty if it can.

    Topology rules are ignored, since they depend on the pods of all nodes.
    """
    bare = replace(node, pods=tuple(each for each in node.pods if each.stays_with_node))
    alone = replace(snapshot, nodes=(bare,), unbound_pods=())
    affinity = pod.spec.affinity
    own = msgspec.structs.replace(affinity, pod_affinity=None, pod_anti_affinity=None) if affinity is not None else None
    spec = msgspec.structs.replace(pod.spec, affinity=own, topology_spread_constraints=())
    return why_unschedulable(alone, msgspec.structs.replace(pod, spec=spec))
