"""Metrics about pods: one series for the state of each pod, how long pods wait, and how long they waited.

The rows of a node's pods are cached by the identity of its immutable `ClusterNode`, which the state replaces when one
of its pods changes, so a scrape costs O(nodes + changed pods). With `--node-metrics pool` pods are counted by NodePool
and waiting times are those of the pod that waits longest.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.metrics.pod_clocks import PodClock
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.ports.metrics import Row, label_text
from dovetail.runtime.concurrency import in_turns

Rows = dict[Row, float]
NodeState = tuple[tuple[Row, ...], tuple[Pod, ...]]  # rows of all pods of a node, and its pods that do not run yet


class PodMetrics:
    """Follows pods and computes their gauges."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._by_pod = context.settings.node_metrics == "node"
        self._state_by_node: dict[str, tuple[ClusterNode, NodeState]] = {}
        if context.seen:
            context.state.pods.listen(self._pod_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        clocks, now = self._context.pod_clocks, self._context.clock.now()
        if after is None:
            if before is not None:
                clocks.forget(before.metadata.uid)
            return
        uid, created_at = after.metadata.uid, after.metadata.creation_timestamp
        if after.provisionable:
            clocks.start(uid, PodClock(after.metadata.name, after.metadata.namespace, now))
        if before is None or created_at is None:
            return
        clock = clocks.get(uid)
        if after.node_name and not before.node_name:
            self._observe("bound", created_at, clock)
            if clock is not None:
                clock.bound = True
        if after.status.phase == "Running" and before.status.phase == "Pending":
            self._observe("startup", created_at, clock)
        if after.status.phase != "Pending":
            clocks.forget(uid)

    def _observe(self, what: str, created_at: datetime, clock: PodClock | None) -> None:
        observe, now = self._context.metrics.observe, self._context.clock.now()
        observe(f"karpenter_pods_{what}_duration_seconds", _seconds(created_at, now))
        if clock is not None and clock.schedulable_at is not None:
            observe(f"karpenter_pods_provisioning_{what}_duration_seconds", _seconds(clock.schedulable_at, now))

    async def refresh(self, snapshot: Snapshot) -> None:
        """Compute the gauges."""
        states: Counter[Row] = Counter()
        unstarted: list[Pod] = []
        found: dict[str, tuple[ClusterNode, NodeState]] = {}
        async for node in in_turns(snapshot.nodes):
            found[node.name] = self._node_state(node)
            rows, starting = found[node.name][1]
            states.update(rows)
            unstarted += starting
        self._state_by_node = found
        states.update((self._row(pod, None),) for pod in snapshot.unbound_pods)
        unbound = [pod for pod in snapshot.unbound_pods if pod.active]
        show = self._context.metrics.show
        show("karpenter_pods_state", {row: float(number) for row, number in states.items()})
        self._show_waits("unbound", unbound, snapshot.at)
        self._show_waits("unstarted", (*unbound, *unstarted), snapshot.at)
        self._show_clocks(snapshot.at)

    def _node_state(self, node: ClusterNode) -> tuple[ClusterNode, NodeState]:
        known = self._state_by_node.get(node.name)
        if known is None or known[0] is not node:
            rows = tuple((self._row(pod, node),) for pod in node.pods)
            known = node, (rows, tuple(pod for pod in node.pods if pod.status.phase == "Pending"))
        return known

    def _row(self, pod: Pod, node: ClusterNode | None) -> str:
        labels = node.labels if node is not None else {}
        state = {
            "scheduled": "true" if pod.node_name else "false",
            "nodepool": node.nodepool_name if node is not None else "",
            "zone": labels.get(ZONE, ""),
            "capacity_type": labels.get(CAPACITY_TYPE, ""),
            "phase": pod.status.phase,
        }
        if not self._by_pod:
            return label_text(state)
        return label_text(
            {
                "name": pod.metadata.name,
                "namespace": pod.metadata.namespace,
                "owner": _owner(pod),
                "node": pod.node_name,
                **state,
                "arch": labels.get(ARCH, ""),
                "instance_type": labels.get(INSTANCE_TYPE, ""),
                "ready": str(pod.ready).lower(),
                "managed": "true" if state["nodepool"] else "false",
            }
        )

    def _show_waits(self, what: str, pods: Iterable[Pod], now: datetime) -> None:
        waits = ((pod.metadata.name, pod.metadata.namespace, pod.metadata.creation_timestamp) for pod in pods)
        self._context.metrics.show(f"karpenter_pods_{what}_time_seconds", self._longest(waits, now))

    def _show_clocks(self, now: datetime) -> None:
        clocks, show = tuple(self._context.pod_clocks), self._context.metrics.show
        unbound = ((each.name, each.namespace, each.schedulable_at) for each in clocks if not each.bound)
        unstarted = ((each.name, each.namespace, each.schedulable_at) for each in clocks)
        undecided = ((each.name, each.namespace, each.seen_at) for each in clocks if not (each.decided or each.bound))
        show("karpenter_pods_provisioning_unbound_time_seconds", self._longest(unbound, now))
        show("karpenter_pods_provisioning_unstarted_time_seconds", self._longest(unstarted, now))
        show("karpenter_pods_provisioning_scheduling_undecided_time_seconds", self._longest(undecided, now))

    def _longest(self, waits: Iterable[tuple[str, str, datetime | None]], now: datetime) -> Rows:
        """Return the wait of each pod, or the longest of all pods."""
        rows: Rows = {}
        for name, namespace, since in waits:
            if since is not None:
                row = (name, namespace) if self._by_pod else ("", "")
                rows[row] = max(rows.get(row, 0.0), _seconds(since, now))
        return rows


def _owner(pod: Pod) -> str:
    """Return the path of the pod's first owner, as Karpenter writes it."""
    if not pod.metadata.owner_references:
        return ""
    owner = pod.metadata.owner_references[0]
    return f"/apis/{owner.api_version}/namespaces/{pod.metadata.namespace}/{owner.kind.lower()}s/{owner.name}"


def _seconds(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
