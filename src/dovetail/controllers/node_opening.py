"""Opens new nodes that are closed by a taint, one after the other, with the pods they were launched for nominated.

`core.lifecycle.opening` decides when. The pods are nominated in parallel right before the taint is removed, because
kube-scheduler drops a nomination with the next failed attempt. There is one attempt for each opening: a pod that cannot
be nominated, or a nomination that takes too long, does not keep the node closed. All state that matters is on the Node
and its NodeClaim, so the next leader opens what this one has left closed.
"""

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.core.lifecycle.opening import is_closed, is_openable, judge_opening, opened_patch, planned_pods
from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from dovetail.model.kube_object import Key
from dovetail.model.labels import NODEPOOL
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Notice, Patch
from dovetail.ports.errors import Conflict, Forbidden, Invalid, NotFound, WorldError
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
NOMINATION_SECONDS = 5.0
"""How long a nomination may take before the node is opened without it."""
_NOMINATED, _NOT_PENDING, _FAILED = "nominated", "not pending", "failed"


class NodeOpening:
    """Opens one closed node at a time: a node that opens beside it could take pods that are about to be nominated."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._openable_at: dict[Key, datetime] = {}  # closed nodes that wait only for their turn
        self._forbidden_reported = False
        self.reconciler: Reconciler[Key] = Reconciler("node.opening", self.reconcile, workers=1, backoff_limit=10.0)
        context.state.nodes.listen(self._node_changed)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None and is_closed(after):
            if is_openable(after, self._context.state.claim_of(after)):
                self._openable_at.setdefault(after.key, self._context.clock.now())
            else:
                self._openable_at.pop(after.key, None)
            self.reconciler.add(after.key)
        elif before is not None and is_closed(before):
            self._openable_at.pop(before.key, None)
            self.reconciler.forget(before.key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, key: Key) -> float | None:
        """Open one node if it is time; else return the seconds until it is opened in any case."""
        node = self._context.state.nodes.items.get(key)
        if node is None or node.deleting or not is_closed(node):
            return None
        claim, now = self._context.state.claim_of(node), self._context.clock.now()
        if claim is not None and claim.deleting:
            return None
        openable_at = self._openable_at.get(key, now) if is_openable(node, claim) else None
        opening = judge_opening(node, claim, openable_at, now)
        if opening.wait is not None:
            return opening.wait.total_seconds()
        pods = self._pending_pods(claim, node.name) if claim is not None and not opening.problem else []
        outcomes = Counter(await asyncio.gather(*(self._nominate(pod, node) for pod in pods)))
        with suppress(NotFound):
            await self._open(node)
            self._report(_Opened(node, claim, outcomes[_NOMINATED], outcomes[_FAILED], opening.problem))
        return None

    def _pending_pods(self, claim: NodeClaim, node_name: str) -> list[Pod]:
        planned = planned_pods(claim)
        return [
            pod
            for pod in self._context.state.unbound_pods
            if pod.metadata.uid in planned and pod.unschedulable and pod.status.nominated_node_name != node_name
        ]

    async def _nominate(self, pod: Pod, node: Node) -> str:
        """Nominate a pod to the node; a failure is logged. The uid excludes a new pod of the same name."""
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node.name}}
        try:
            async with asyncio.timeout(NOMINATION_SECONDS):
                patched = await self._context.cluster.patch(POD, pod.key, Patch(body, subresource="status"))
                self._context.state.observe(POD, patched)
        except (Invalid, NotFound):
            return _NOT_PENDING
        except Forbidden as error:
            self._report_forbidden(error)
            return _FAILED
        except (WorldError, TimeoutError) as error:
            log.warning("pod not nominated", extra={"pod": str(pod.key), "node": node.name, "error": str(error)})
            return _FAILED
        return _NOMINATED

    def _report_forbidden(self, error: Forbidden) -> None:
        """Log once that the role does not allow nominations, as with the one of Karpenter's chart."""
        if not self._forbidden_reported:
            self._forbidden_reported = True
            remedy = "grant patch on pods/status, or set --nominate-pods=false"
            log.warning("pods cannot be nominated", extra={"error": str(error), "remedy": remedy})

    async def _open(self, node: Node) -> None:
        """Remove the taint; after a conflict from the node as it is now, because kubelets write it often."""
        try:
            await self._context.patch_node(node, opened_patch(node))
        except Conflict:
            current = self._context.state.observe(NODE, await self._context.cluster.get(NODE, node.key))
            if current.metadata.uid == node.metadata.uid and is_closed(current):
                await self._context.patch_node(current, opened_patch(current))

    def _report(self, opened: "_Opened") -> None:
        """Log, count and publish an opening."""
        node, pool = opened.node, opened.node.metadata.labels.get(NODEPOOL, "")
        self._context.metrics.count("dovetail_nodes_opened_total", nodepool=pool, outcome=opened.outcome)
        if opened.nominated:
            self._context.metrics.count("dovetail_pods_nominated_total", float(opened.nominated), nodepool=pool)
        facts = {"node": node.name, "nodepool": pool, "nominated": opened.nominated, "failed": opened.failed}
        log.info("opened node", extra={**facts, "problem": opened.problem} if opened.problem else facts)
        if opened.claim is not None:
            text = f"Node {node.name} is open to pods; {opened.text}"
            self._context.recorder.publish(Notice(NODE_CLAIM, opened.claim, "Opened", text))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A node that was opened, and how many pods were nominated to it, or could not be."""

    node: Node
    claim: NodeClaim | None
    nominated: int
    failed: int
    problem: str

    @property
    def outcome(self) -> str:
        """The label of the metric."""
        if self.problem:
            return "unplanned"
        if self.failed:
            return "failed"
        return "nominated" if self.nominated else "none_pending"

    @property
    def text(self) -> str:
        """What was nominated, or why nothing was."""
        if self.problem:
            return f"no pod was nominated, because {self.problem}"
        if not self.nominated and not self.failed:
            return "none of the pods it was launched for is pending"
        failed = f", not nominated because of errors: {self.failed}" if self.failed else ""
        return f"pods nominated to it: {self.nominated}{failed}"
