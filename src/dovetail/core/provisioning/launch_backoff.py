"""When nodes may be launched again for pods that earlier launches did not help.

Pods of one kind ask for the same: namespace, requests, ports and scheduling rules, and for replicas of a StatefulSet
their volumes. A NodeClaim carries the kinds of the pods it is launched for. A launch fails for a kind if the claim is
given up, or if its node takes none of these pods. Each failure in a row makes the next launch of that NodePool for that
kind wait longer (`WAITS`).

Other kinds, and other NodePools, are not held up. Replacing a pod does not reset the wait. A pod of the kind that runs
on a later node does, and so does a change of the NodePool or its node class.

The failures are kept in an annotation of the NodePool, so that they survive restarts and the end of the failed claims.
A claim also carries how many failures were known when it was launched. So many claims that are launched together and
fail together count as one failure, and no failure counts twice.

Launches that did not help: nodes that are there and took none of the pods they were launched for.

Asked only of pods for which the next plan would launch a node, so none of them fits on these nodes as they are now.
Pods that fit on a node wait for the scheduler, or for the node to initialize, and cost nothing.
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
FORGOTTEN_AFTER = timedelta(hours=1)
"""A failure that follows the end of the wait by more than this is counted as the first one."""
MOST_KEPT = 400
LONGEST_WHY = 200
"""Kinds of pods in one annotation, and letters of each reason. All annotations of an object may have 256 KiB."""


class LaunchFailureCause(StrEnum):
    """How a launch failed."""

    LAUNCH_FAILED = "launch_failed"  # no instance, or none that registered
    NOT_FITTING = "not_fitting"  # the node cannot take the pod, even without the pods of others
    CROWDED_OUT = "crowded_out"  # other pods took the room


@dataclass(frozen=True, slots=True)
class BackoffSteps:
    """How long to wait after a number of failures: `free` of them cost nothing, then `first`, doubled each time."""

    free: int
    first: timedelta
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        """The wait after so many failures in a row."""
        counted = failures - self.free
        return min(self.first * 2 ** min(counted - 1, 20), self.longest) if counted > 0 else timedelta()


WAITS = {
    # What ran out is not asked for again at once, so the first retry asks for something else.
    LaunchFailureCause.LAUNCH_FAILED: BackoffSteps(1, timedelta(seconds=10), timedelta(minutes=10)),
    LaunchFailureCause.NOT_FITTING: BackoffSteps(0, timedelta(minutes=1), timedelta(hours=1)),
    # As a rule another node is all that is needed, since pods that arrived meanwhile were faster.
    LaunchFailureCause.CROWDED_OUT: BackoffSteps(2, timedelta(minutes=1), timedelta(hours=1)),
}


class LaunchBackoff(ApiStruct, frozen=True, kw_only=True):
    """The failures in a row of one NodePool for one kind of pods."""

    failures: int
    launched_at: datetime
    """When the claim of the last failure was created."""
    until: datetime
    state: str
    """The NodePool and its class as they were, see `state_of`."""
    why: str

    def forgotten(self, now: datetime) -> bool:
        """Whether the wait ended so long ago that the next failure is the first one again."""
        return self.until + FORGOTTEN_AFTER < now


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A claim that did not help a kind of pods."""

    claim: NodeClaim
    kind: str
    cause: LaunchFailureCause
    why: str


Backoffs = Mapping[tuple[str, str], LaunchBackoff]
"""By the name of the NodePool and the kind of pods."""


def pod_kind(pod: Pod) -> str:
    """A digest of what a pod asks for; the same for all pods of a workload and for those that replace them.

    Only replicas of a StatefulSet differ by their volumes, which keep their names and may be in different zones.
    """
    spec = pod.spec
    own = spec.volumes if pod.stateful else ()
    volumes = sorted(each.persistent_volume_claim.claim_name for each in own if each.persistent_volume_claim)
    requests = {name: str(amount.nano) for name, amount in sorted(spec_requests(spec).items())}
    rules = (dict(sorted(spec.node_selector.items())), spec.affinity, spec.tolerations)
    ports = sorted(map(str, host_ports(spec)))
    content = (pod.metadata.namespace, requests, *rules, spec.topology_spread_constraints, ports, volumes)
    return hashlib.sha256(msgspec.json.encode(content, enc_hook=str)).hexdigest()[:12]


def with_kinds(draft: Draft) -> list[tuple[Pod, str]]:
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
    """What a claim says of its launch: the pods it is for, the failures known of each, the state of its NodePool."""
    pool = draft.template.pool
    known = {kind: backoffs.get((pool.name, kind)) for _, kind in with_kinds(draft)}
    told = (f"{kind}:{before.failures if before is not None else 0}" for kind, before in sorted(known.items()))
    return {LAUNCHED_FOR: ",".join(told), LAUNCHED_UNDER: state_of(pool)}


def launched_for(claim: NodeClaim) -> Mapping[str, int]:
    """The kinds of pods a claim was launched for, and how many failures were known of each."""
    entries = (each.partition(":") for each in claim.metadata.annotations.get(LAUNCHED_FOR, "").split(","))
    return {kind: int(number) for kind, _, number in entries if kind and number.isdecimal()}


def launched_under(claim: NodeClaim, pool: NodePool) -> bool:
    """Whether a claim was launched by its NodePool as that is now. A launch by an earlier version proves nothing."""
    return claim.metadata.annotations.get(LAUNCHED_UNDER) == state_of(pool)


def on_record(snapshot: Snapshot) -> Backoffs:
    """Failures that count: not forgotten, and followed by no success."""
    return {
        (pool.name, kind): backoff
        for pool in snapshot.nodepools.values()
        if BACKOFF_ANNOTATION in pool.metadata.annotations
        for kind, backoff in record_of(pool, snapshot).items()
    }


def record_of(pool: NodePool, snapshot: Snapshot) -> Mapping[str, LaunchBackoff]:
    """The failures of one pool that count, by kind of pods."""
    recent = {kind: each for kind, each in read_backoffs(pool).items() if not each.forgotten(snapshot.at)}
    if not recent:
        return {}
    helped = last_helped(snapshot, pool.name, min(each.launched_at for each in recent.values()))
    return {kind: each for kind, each in recent.items() if kind not in helped or helped[kind] < each.launched_at}


def in_force(snapshot: Snapshot) -> Backoffs:
    """The kinds of pods for which a NodePool launches nothing now."""
    return {slot: backoff for slot, backoff in on_record(snapshot).items() if backoff.until > snapshot.at}


def last_helped(snapshot: Snapshot, pool: str, since: datetime) -> Mapping[str, datetime]:
    """When the newest node that has a pod of a kind was launched, by kind; only of nodes launched at `since` or later.

    All launches before that are followed by a success, whatever became of them.
    """
    found: dict[str, datetime] = {}
    for node in snapshot.nodes_by_pool.get(pool, ()):
        created_at = node.claim.metadata.creation_timestamp if node.claim is not None else None
        if created_at is not None and created_at >= since:
            for kind in map(pod_kind, node.pods):
                found[kind] = max(created_at, found.get(kind, created_at))
    return found


def read_backoffs(pool: NodePool) -> Mapping[str, LaunchBackoff]:
    """The failures of the pool as it is now that are written down, by kind of pods."""
    written, state = pool.metadata.annotations.get(BACKOFF_ANNOTATION, ""), state_of(pool)
    try:
        found = msgspec.json.decode(written, type=dict[str, LaunchBackoff]) if written else {}
    except msgspec.DecodeError:
        return {}  # written by somebody else
    return {kind: backoff for kind, backoff in found.items() if backoff.state == state}


def after_failure(
    pool: NodePool, failure: FailedLaunch, record: Mapping[str, LaunchBackoff], now: datetime
) -> LaunchBackoff:
    """The entry once a failure is counted; the one that is there if it was counted before. `record` is the pool's.

    A record that is full does not get longer. Who is not on it waits until all on it may be tried again: counted anew
    each time, a wait that begins now would never end.
    """
    kind, before = failure.kind, record.get(failure.kind)
    if before is not None and launched_for(failure.claim).get(kind, 0) < before.failures:
        return before
    number = before.failures + 1 if before is not None else 1
    full = before is None and len(record) >= MOST_KEPT
    return LaunchBackoff(
        failures=number,
        launched_at=failure.claim.metadata.creation_timestamp or now,
        until=max(each.until for each in record.values()) if full else now + WAITS[failure.cause].after(number),
        state=state_of(pool),
        why=failure.why[:LONGEST_WHY],
    )


def annotation(backoffs: Mapping[str, LaunchBackoff], now: datetime) -> str:
    """The record as it is written: without what is forgotten, newest first."""
    recent = {kind: each for kind, each in backoffs.items() if not each.forgotten(now)}
    newest = sorted(recent.items(), key=lambda entry: (entry[1].launched_at, entry[0]), reverse=True)
    return msgspec.json.encode(dict(newest[:MOST_KEPT])).decode()


def state_of(pool: NodePool) -> str:
    """What a failure is held against: a pool or class that was changed gets another try."""
    return f"{pool.metadata.generation}.{pool.status.node_class_observed_generation}"


def backoff_refusal(about: ObjectRef, pool: str, backoff: LaunchBackoff) -> Refusal:
    """Why a NodePool launches nothing for a pod, or in place of a node, now."""
    code, failures = RefusalCode.LAUNCH_BACKOFF, backoff.failures
    return Refusal(code, about, backoff.until, nodepool=pool, count=failures, detail=backoff.why)


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
        not any_negative(subtract(choice.type.allocatable, add(choice.overhead, needs))) for choice in same
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
    return why_unschedulable(alone, msgspec.structs.replace(pod, spec=spec))
