"""The termination steps of one node, in order: evict its pods, wait for its volumes, terminate its instance.

Each call derives the current step from the API objects, writes the claim's conditions (`Drained`, `VolumesDetached`,
`InstanceTerminating`) in one patch if they changed, and returns the seconds until the next call at the latest.

Invariant: the instance of a node is terminated only after a quorum read of the node's pods found none left to drain,
because a termination cannot be undone.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.eviction_queue import EvictionQueue, EvictionRequest
from dovetail.controllers.nodeclaim_lifecycle import MESSAGE_LIMIT
from dovetail.core.lifecycle.drain import (
    MINIMUM_DRAIN,
    DrainPlan,
    attached_volumes_message,
    drain_message,
    find_attached,
    named,
    plan_drain,
)
from dovetail.core.lifecycle.termination import read_deadline
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.conditions import ConditionList, ConditionVerdict, find
from dovetail.model.instants import add
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.nodeclaim import (
    DEPENDENTS,
    DISRUPTION_REASON,
    DRAINED,
    INSTANCE_TERMINATING,
    VOLUMES_DETACHED,
    NodeClaim,
)
from dovetail.model.snapshot import ClusterNode
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import CloudError, InstanceNotFound, NotFound

RECHECK = timedelta(seconds=30)
INSTANCE_RECHECK_SECONDS = 5.0
FORCEFUL = "Forceful Termination"
DRAINING = ConditionVerdict(DRAINED, "Unknown", "Draining")
_MOMENT = timedelta(milliseconds=1)


class NodeTermination:
    """Executes the termination steps of nodes and their instances."""

    def __init__(self, context: ControllerContext, evictions: EvictionQueue) -> None:
        self._context = context
        self._evictions = evictions
        self._terminated: set[str] = set()  # uids of claims whose instance the provider no longer has

    async def step(self, node: Node, claim: NodeClaim | None) -> float | None:
        """Execute the current step; return the seconds until the next call, or None when the node can be removed."""
        now, deadline = self._context.clock.now(), read_deadline(claim) if claim is not None else None
        drain = plan_drain(self._joined(node), now, deadline)
        wait = self._drain(node, claim, drain, deadline)
        wait = (
            self._wait_for_unreadable(node, deadline, self._context.state.unreadable.pods_on(node.name))
            if wait is None
            else wait
        )
        if wait is not None:
            await self.write_conditions(claim, [DRAINING])
            return wait
        verdicts = [ConditionVerdict(DRAINED)]
        attached = self._attached(node, now)
        if attached and (deadline is None or now <= deadline):
            message = attached_volumes_message(attached)
            self._publish(node, "AwaitingVolumeDetachment", message)
            verdicts.append(ConditionVerdict(VOLUMES_DETACHED, "Unknown", "AwaitingVolumeDetachment", message))
            await self.write_conditions(claim, verdicts)
            return self._seconds_until(add(deadline, _MOMENT) if deadline is not None else None)
        elapsed = ConditionVerdict(
            VOLUMES_DETACHED, "False", "TerminationGracePeriodElapsed", attached_volumes_message(attached)
        )
        verdicts.append(elapsed if attached else ConditionVerdict(VOLUMES_DETACHED))
        wait = await self._recheck_pods(node, claim, deadline)
        if wait is not None or claim is None:
            return wait
        return await self.terminate_instance(claim, verdicts)

    async def _recheck_pods(self, node: Node, claim: NodeClaim | None, deadline: datetime | None) -> float | None:
        """Drain pods that the API server lists and the cache lacks; return the seconds to wait, None if done."""
        if claim is not None and (claim.metadata.uid in self._terminated or claim.has(INSTANCE_TERMINATING)):
            return None
        listing = await self._context.read_pods(node.name)
        now = self._context.clock.now()
        drain = plan_drain(ClusterNode(node, claim, listing.items), now, deadline)
        wait = self._drain(node, claim, drain, deadline)
        return (
            self._wait_for_unreadable(node, deadline, [each.key for each in listing.unreadable])
            if wait is None
            else wait
        )

    async def terminate_instance(self, claim: NodeClaim, verdicts: Sequence[ConditionVerdict] = ()) -> float | None:
        """Terminate the claim's instance; return the seconds until the next check, or None once it is gone.

        Writes `InstanceTerminating` with the other verdicts; if there are none and the instance is gone, nothing.
        """
        gone = claim.metadata.uid in self._terminated or await self._is_terminated(claim)
        if verdicts or not gone:
            await self.write_conditions(claim, [*verdicts, ConditionVerdict(INSTANCE_TERMINATING)])
        return None if gone else INSTANCE_RECHECK_SECONDS

    async def _is_terminated(self, claim: NodeClaim) -> bool:
        try:
            await self._context.cloud.terminate(claim)
        except InstanceNotFound:
            self._terminated.add(claim.metadata.uid)
            return True
        except CloudError as error:
            message = f"Failed terminating the instance, which still runs and costs money: {error}"[:MESSAGE_LIMIT]
            self._context.recorder.publish(Notice(NODE_CLAIM, claim, "FailedTermination", message, warning=True))
            raise
        return False

    def forget(self, claim: NodeClaim) -> None:
        """Drop the state of a deleted claim."""
        self._terminated.discard(claim.metadata.uid)

    def _drain(self, node: Node, claim: NodeClaim | None, drain: DrainPlan, deadline: datetime | None) -> float | None:
        """Request the evictions that are due; return the seconds to wait for the rest, None if none is left."""
        reason = _reason(claim)
        for pod in (*drain.force, *drain.evict):
            request = EvictionRequest(pod.key, pod.metadata.uid, node.key, reason, deadline, drain.evicts_protected)
            self._evictions.add(request, urgent=pod in drain.force)
        if not drain.done:
            return self._report_waiting(node, claim, drain)
        if claim is None or claim.has(DRAINED):
            return None
        left = self._minimum_drain_left(claim)
        return left.total_seconds() if left > timedelta() else None

    def _report_waiting(self, node: Node, claim: NodeClaim | None, drain: DrainPlan) -> float:
        """Publish which pods the drain waits for, unless they still have the time of the minimum drain."""
        now = self._context.clock.now()
        left = self._minimum_drain_left(claim) if claim is not None else timedelta()
        if left > timedelta():
            return self._seconds_until(min(now + left, drain.changes_at or now + left))
        message = drain_message(drain, now)
        self._publish(node, "FailedDraining", message, warning=True, dedupe=(node.metadata.uid,))
        return self._seconds_until(drain.changes_at)

    def _minimum_drain_left(self, claim: NodeClaim) -> timedelta:
        now = self._context.clock.now()
        return add(_drain_began_at(claim) or now, MINIMUM_DRAIN) - now

    def _wait_for_unreadable(self, node: Node, deadline: datetime | None, unreadable: Collection[Key]) -> float | None:
        """Wait until the deadline while an unreadable pod may run on the node; None if there is none."""
        if not unreadable or (deadline is not None and self._context.clock.now() >= deadline):
            return None
        message = f"Failed to drain node, it may run pods that cannot be read ({named(map(str, unreadable))})"
        self._publish(node, "FailedDraining", message, warning=True, dedupe=(node.metadata.uid, "unreadable"))
        return self._seconds_until(deadline)

    def _joined(self, node: Node) -> ClusterNode:
        return self._context.state.cluster_node(node)

    def _attached(self, node: Node, now: datetime) -> tuple[str, ...]:
        state = self._context.state
        found = state.attachments_of(node.name)
        attached = find_attached(self._joined(node), found, state.volume_claims.items, now) if found else ()
        return (*attached, *(key.name for key in state.unreadable.attachments_of(node.name)))

    def _seconds_until(self, instant: datetime | None) -> float:
        left = RECHECK if instant is None else min(RECHECK, instant - self._context.clock.now())
        return max(left.total_seconds(), 0.001)

    def _publish(
        self, node: Node, reason: str, message: str, *, warning: bool = False, dedupe: tuple[str, ...] = ()
    ) -> None:
        self._context.recorder.publish(Notice(NODE, node, reason, message, warning=warning, dedupe=dedupe))

    async def write_conditions(self, claim: NodeClaim | None, verdicts: Sequence[ConditionVerdict]) -> None:
        """Write the claim's conditions if they changed and the claim exists."""
        claim = self._context.state.claims.items.get(claim.key) if claim is not None else None
        if claim is None or not verdicts or all(_has_condition(claim, verdict) for verdict in verdicts):
            return
        created_at = claim.metadata.creation_timestamp
        now, was_drained = self._context.clock.now(), claim.has(DRAINED)
        listed = ConditionList(claim.status.conditions, DEPENDENTS, created_at, claim.metadata.generation, now)
        try:
            await self._context.patch_claim(claim, conditions_patch(listed.set(*verdicts)), status=True)
        except NotFound:
            return
        if not was_drained and any(each.type == DRAINED and each.status == "True" for each in verdicts):
            self._context.metrics.count("karpenter_nodes_drained_total", nodepool=claim.nodepool_name)


def _has_condition(claim: NodeClaim, verdict: ConditionVerdict) -> bool:
    found = find(claim.status.conditions, verdict.type)
    wanted = (verdict.status, verdict.reason or verdict.type, verdict.message)
    return found is not None and (found.status, found.reason, found.message) == wanted


def _drain_began_at(claim: NodeClaim) -> datetime | None:
    """Return when the `Drained` condition was first set."""
    drained = find(claim.status.conditions, DRAINED)
    return drained.last_transition_time if drained is not None else None


def _reason(claim: NodeClaim | None) -> str:
    """Return the reason of the termination for the events on the pods."""
    found = find(claim.status.conditions, DISRUPTION_REASON) if claim is not None else None
    return found.reason if found is not None and found.status == "True" else FORCEFUL
