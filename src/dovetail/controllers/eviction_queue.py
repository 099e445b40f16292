"""Evicts the pods of draining nodes: through the eviction API, or by deletion once the deadline of their node is near.

Each pod is one `EvictionRequest`, keyed by uid. A request that a PodDisruptionBudget blocks, or that fails, is retried
with exponential backoff from 100 ms to 10 s. When a budget allows disruptions again, as many blocked requests as it
allows are retried at once, oldest first.

`core.lifecycle.drain` decides which pods are evicted and when. The queue holds no state that a restart needs.
"""

import logging
from dataclasses import dataclass, replace
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.core.explain.drain import blocked_since
from dovetail.core.lifecycle.drain import grace_left, grace_of, must_be_forced
from dovetail.core.pdbs import find_block, matching
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import protection
from dovetail.model.instants import stamp
from dovetail.model.kinds import NODE, POD
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Deletion, Notice
from dovetail.ports.errors import (
    ApiError,
    Conflict,
    Denied,
    EvictionBlocked,
    EvictionImpossible,
    Invalid,
    NotFound,
    Throttled,
)
from dovetail.runtime.reconciler import Reconciler, RetryBackoff

log = logging.getLogger(__name__)
FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 10.0
_CODES: tuple[tuple[type[ApiError], str], ...] = (
    (NotFound, "404"),
    (Conflict, "409"),
    (EvictionBlocked, "429"),
    (Throttled, "429"),
    (EvictionImpossible, "500"),
    (Denied, "403"),
    (Invalid, "422"),
)
_BLOCKED_MESSAGES = {
    EvictionBlocked: "evicting pod violates a PDB",
    EvictionImpossible: "eviction does not support multiple PDBs",
}


@dataclass(frozen=True, slots=True)
class EvictionRequest:
    """One pod to evict: for which node, for what reason, and by when the node must be empty."""

    pod: Key
    uid: str
    node: Key
    reason: str
    deadline: datetime | None = None
    evicts_protected: bool = False  # ignores do-not-disrupt


class EvictionQueue:
    """The pods that are being evicted."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.reconciler: Reconciler[str] = Reconciler("eviction-queue", self.attempt, workers=100)
        self._requests: dict[str, EvictionRequest] = {}
        self._backoffs: dict[str, RetryBackoff] = {}
        self._blocked: dict[str, None] = {}  # uids blocked by a PodDisruptionBudget, oldest first
        self._accepted: dict[str, int | None] = {}  # grace by uid, None if evicted; until the watch shows it
        context.state.pods.listen(self._pod_changed)
        context.state.pdbs.listen(self._budget_changed)

    async def run(self) -> None:
        """Evict pods until cancelled."""
        await self.reconciler.run()

    def add(self, request: EvictionRequest, *, urgent: bool = False) -> None:
        """Add a request. A known request keeps its backoff, unless `urgent`, and gets the earlier deadline."""
        known = self._requests.get(request.uid)
        if known is None:
            self._requests[request.uid] = request
            self.reconciler.add(request.uid)
            return
        instants = [each for each in (known.deadline, request.deadline) if each is not None]
        deadline = min(instants, default=None)
        if deadline != known.deadline:
            self._requests[request.uid] = replace(known, deadline=deadline)
        if urgent:
            self.reconciler.add(request.uid)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or after.deleting):
            self._accepted.pop(before.metadata.uid, None)
        if before is not None and after is None:
            self._forget(before.metadata.uid)

    def _budget_changed(self, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None) -> None:
        """Retry as many blocked requests as the budget allows; all of them if it was deleted."""
        budget = after or before
        if budget is None or not self._blocked:
            return
        left = len(self._blocked) if after is None else after.status.disruptions_allowed
        for uid in list(self._blocked):
            pod = self._pod(self._requests[uid]) if uid in self._requests else None
            if left > 0 and pod is not None and matching(pod, [budget]):
                left -= 1
                del self._blocked[uid]
                self.reconciler.add(uid)

    def _pod(self, request: EvictionRequest) -> Pod | None:
        pod = self._context.state.pods.items.get(request.pod)
        return pod if pod is not None and pod.metadata.uid == request.uid else None

    def _forget(self, uid: str) -> None:
        self._requests.pop(uid, None)
        self._backoffs.pop(uid, None)
        self._blocked.pop(uid, None)
        self.reconciler.forget(uid)

    def _next_retry(self, uid: str) -> float:
        return self._backoffs.setdefault(uid, RetryBackoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)).next()

    async def attempt(self, uid: str) -> float | None:
        """Evict or delete one pod; return the seconds until the next attempt, or None when the request is done."""
        request = self._requests.get(uid)
        pod = self._pod(request) if request is not None else None
        if request is None or pod is None:
            self._forget(uid)
            return None
        now = self._context.clock.now()
        if request.deadline is not None and must_be_forced(pod, now, request.deadline):
            return await self._force(pod, request, request.deadline)
        protected = protection(pod, now).active and not request.evicts_protected
        if not pod.active or protected or uid in self._accepted:  # the drain waits for these
            self._forget(uid)
            return None
        return await self._evict(pod, request)

    async def _force(self, pod: Pod, request: EvictionRequest, deadline: datetime) -> float | None:
        grace = grace_left(deadline, self._context.clock.now())
        granted = self._accepted.get(request.uid)
        if granted is not None and granted <= grace:  # already deleted with less grace
            self._forget(request.uid)
            return None
        try:
            await self._context.cluster.delete(POD, pod.key, Deletion(uid=request.uid, grace_seconds=grace))
        except (NotFound, Conflict):
            self._forget(request.uid)
            return None
        except ApiError as error:
            return self._failed(pod, request, error)
        self._accepted[request.uid] = grace
        own = int(grace_of(pod).total_seconds())
        message = (
            f"Deleted the pod to accommodate the terminationTime {stamp(deadline)} of the node. The pod was granted"
            f" {grace} seconds of grace-period of its {own} terminationGracePeriodSeconds. This bypasses the PDB of"
            " the pod and the do-not-disrupt annotation."
        )
        self._context.recorder.publish(Notice(POD, pod, "Disrupted", message))
        log.info("deleted pod", extra={"pod": str(pod.key), "node": request.node.name, "grace_seconds": grace})
        self._forget(request.uid)
        return None

    async def _evict(self, pod: Pod, request: EvictionRequest) -> float | None:
        try:
            await self._context.cluster.evict(pod)
        except ApiError as error:
            return self._refused(pod, request, error)
        self._accepted[request.uid] = None
        self._context.metrics.count("karpenter_pods_eviction_requests_total", code="200")
        self._context.metrics.count("karpenter_pods_drained_total", reason=request.reason)
        self._context.recorder.publish(Notice(POD, pod, "Evicted", f"Evicted pod: {request.reason}"))
        log.info("evicted pod", extra={"pod": str(pod.key), "node": request.node.name})
        self._forget(request.uid)
        return None

    def _refused(self, pod: Pod, request: EvictionRequest, error: ApiError) -> float | None:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), "")
        if code:
            self._context.metrics.count("karpenter_pods_eviction_requests_total", code=code)
        if isinstance(error, (NotFound, Conflict)):  # deleted, or replaced by a pod of the same name
            self._forget(request.uid)
            return None
        if isinstance(error, (EvictionBlocked, EvictionImpossible)):
            self._blocked[request.uid] = None
            self._publish_blocked(pod, request, _BLOCKED_MESSAGES[type(error)])
            log.debug("eviction refused", extra={"pod": str(pod.key), "node": request.node.name, "why": str(error)})
            return self._next_retry(request.uid)
        return self._failed(pod, request, error)

    def _failed(self, pod: Pod, request: EvictionRequest, error: ApiError) -> float:
        after = self._next_retry(request.uid)
        facts = {"pod": str(pod.key), "node": request.node.name, "error": str(error), "retry_seconds": after}
        log.warning("eviction failed", extra=facts)
        return after

    def _publish_blocked(self, pod: Pod, request: EvictionRequest, why: str) -> None:
        """Publish on the node which pod and budget block the drain, since when, and whether waiting helps."""
        node: Node | None = self._context.state.nodes.items.get(request.node)
        if node is None:
            return
        budgets = matching(pod, self._context.state.pdbs.items.values())
        names = " ".join(sorted(str(budget.key) for budget in budgets))
        block = find_block(pod, budgets)
        lasting = "permanent: needs a manual change" if block is not None and block.permanent else "transient"
        since = blocked_since(pod, budgets, node.metadata.deletion_timestamp)
        lasting += f", since {stamp(since)}" if since is not None else ""
        message = f"Failed to drain node, {why} (Pod={pod.key}, PodDisruptionBudget=[{names}], {lasting})"
        dedupe = (node.metadata.uid, why, names)
        self._context.recorder.publish(Notice(NODE, node, "FailedDraining", message, warning=True, dedupe=dedupe))
