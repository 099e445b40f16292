"""Gauges about the cluster, computed from the controllers' state at each scrape: no cost without a scrape.

The number of series grows with NodePools, capacity types, resource types and instance types in use, never with pods,
and with nodes only under `--node-metrics node`. The usage of a node is cached by the identity of its immutable
`ClusterNode`, which the state replaces when the node, its claim or its pods change.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.metrics.conditions import ConditionMetrics
from dovetail.controllers.metrics.do_not_disrupt import grace_period_metrics
from dovetail.controllers.metrics.offerings import offering_metrics
from dovetail.core.disruption.budgets import allowance, count_nodes
from dovetail.core.disruption.candidates import node_price
from dovetail.core.disruption.command_progress import running_commands
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.reason import VOLUNTARY
from dovetail.model.resources import Resources, add, subtract
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.runtime.informer import Informer
from dovetail.runtime.reconciler import Reconciler

MAX_RESOURCE_TYPES = 16  # per object; further resource names are left out, to bound the number of series
Row = tuple[str, ...]
Rows = dict[Row, float]
Usage = tuple[tuple[str, str, float], ...]  # metric, resource, amount
NODES_PER_TURN = 500  # nodes processed before other tasks get to run


class ClusterMetrics:
    """Computes all gauges."""

    def __init__(
        self, context: ControllerContext, reconcilers: Sequence[Reconciler[Any]], condition_metrics: ConditionMetrics
    ) -> None:
        self._context = context
        self._condition_metrics = condition_metrics
        self._reconcilers = reconcilers
        self._usage_by_node: dict[str, tuple[ClusterNode, Usage]] = {}
        self._unsynced_since: datetime | None = None
        state = context.state
        self._followed: list[Informer[Any]] = [state.claims, state.nodepools, state.nodes]

    def follow(self, informer: Informer[Any]) -> None:
        """Also report the conditions of this informer's kind."""
        self._followed.append(informer)

    async def refresh(self) -> None:
        """Compute all gauges now."""
        context = self._context
        self._caches()  # first: these gauges matter most if the rest fails
        pools = list(context.state.nodepools.items.values())
        snapshot = context.state.snapshot(context.clock.now(), await find_catalogs(context.cloud, pools))
        self._cluster(snapshot)
        self._pools(snapshot)
        await asyncio.sleep(0)  # on large clusters, let other tasks run
        await self._nodes(snapshot)
        offered = offering_metrics(snapshot, context.settings.instance_type_metrics)
        for metric, rows in {**offered, **grace_period_metrics(snapshot)}.items():
            context.metrics.show(metric, rows)
        self._pods(snapshot)
        await asyncio.sleep(0)
        self._conditions(snapshot.at)
        depths: Rows = {(each.name,): float(each.depth) for each in self._reconcilers}
        context.metrics.show("workqueue_depth", depths)
        unread: Rows = {(each.kind.name,): float(len(each.unreadable)) for each in context.state.informers}
        context.metrics.show("dovetail_unreadable_objects", {row: number for row, number in unread.items() if number})
        running = Counter(each.record.reason for each in running_commands(context.state.claims.items.values()).values())
        commands: Rows = {(reason,): float(number) for reason, number in running.items()}
        context.metrics.show("dovetail_commands_running", commands)

    def _caches(self) -> None:
        show, caches = self._context.metrics.show, [each for each in self._context.state.caches if each.synced.is_set()]
        show("dovetail_cache_age_seconds", {(each.kind.name,): each.age for each in caches})
        show("dovetail_cache_stale", {(each.kind.name,): float(each.stale) for each in caches})
        show("dovetail_cache_unreadable_objects", {(each.kind.name,): float(len(each.unreadable)) for each in caches})

    def _cluster(self, snapshot: Snapshot) -> None:
        show, missing = self._context.metrics.show, bool(self._context.state.unsynced())
        if not missing:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = snapshot.at
        since = snapshot.at - (self._unsynced_since or snapshot.at)
        show("karpenter_cluster_state_synced", {(): float(not missing)})
        show("karpenter_cluster_state_unsynced_time_seconds", {(): since.total_seconds()})
        show("karpenter_cluster_state_node_count", {(): float(len(snapshot.nodes))})

    def _pools(self, snapshot: Snapshot) -> None:
        shown: dict[str, Rows] = {name: {} for name in _POOL_GAUGES}
        usage, limit, cost, unpriced, allowed, consuming, oldest = shown.values()
        for name, pool in snapshot.nodepools.items():
            nodes = snapshot.nodes_by_pool.get(name, ())
            usage.update({(name, kind): amount for kind, amount in _numbers(snapshot.usage(name)).items()})
            limit.update({(name, kind): amount for kind, amount in _numbers(pool.spec.limits).items()})
            types = snapshot.types_by_pool.get(name, {})
            prices = [node_price(node, types.get(node.labels.get(INSTANCE_TYPE, ""))) for node in nodes]
            cost[name,] = sum(prices)
            unpriced[name,] = float(sum(not price for price in prices))
            oldest[name,] = _longest(
                (node.node.metadata.creation_timestamp for node in nodes if node.node), snapshot.at
            )
            counts = count_nodes(nodes)
            for reason in sorted(VOLUNTARY):
                most = allowance(pool, reason, counts, snapshot.at).limit
                allowed[name, reason] = float(counts.total if most is None else most)
                consuming[name, reason] = float(counts.disrupting)
        for metric, rows in shown.items():
            self._context.metrics.show(metric, rows)

    async def _nodes(self, snapshot: Snapshot) -> None:
        mode = self._context.settings.node_metrics
        if mode == "off":
            return
        sums: dict[str, defaultdict[Row, float]] = {name: defaultdict(float) for name in _NODE_GAUGES}
        for number, node in enumerate(snapshot.nodes):
            if number % NODES_PER_TURN == NODES_PER_TURN - 1:
                await asyncio.sleep(0)
            labels = _node_labels(node) if mode == "node" else _pool_labels(node)
            for metric, kind, amount in self._usage(node):
                sums[metric][*labels, kind] += amount
        for metric, rows in sums.items():
            self._context.metrics.show(metric, rows)
        self._utilization(sums)
        self._usage_by_node = {node.name: self._usage_by_node[node.name] for node in snapshot.nodes}

    def _utilization(self, sums: Mapping[str, Mapping[Row, float]]) -> None:
        allocatable: defaultdict[str, float] = defaultdict(float)
        used: defaultdict[str, float] = defaultdict(float)
        for row, amount in sums["karpenter_nodes_allocatable"].items():
            allocatable[row[-1]] += amount
        for metric in ("karpenter_nodes_total_pod_requests", "karpenter_nodes_total_daemon_requests"):
            for row, amount in sums[metric].items():
                used[row[-1]] += amount
        rows: Rows = {(kind,): 100.0 * used[kind] / amount for kind, amount in allocatable.items() if amount > 0}
        self._context.metrics.show("karpenter_cluster_utilization_percent", rows)

    def _usage(self, node: ClusterNode) -> Usage:
        """Return the allocatable, requests, limits and overhead of a node, cached while the node does not change."""
        known = self._usage_by_node.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        pods = [pod for pod in node.pods if not pod.terminal]
        daemons, others = [pod for pod in pods if pod.daemon], [pod for pod in pods if not pod.daemon]
        found: dict[str, Resources] = {
            "karpenter_nodes_allocatable": node.allocatable,
            "karpenter_nodes_total_pod_requests": add(*(spec_requests(pod.spec) for pod in others)),
            "karpenter_nodes_total_daemon_requests": add(*(spec_requests(pod.spec) for pod in daemons)),
            "karpenter_nodes_total_pod_limits": _limits(others),
            "karpenter_nodes_total_daemon_limits": _limits(daemons),
            "karpenter_nodes_system_overhead": {
                kind: amount for kind, amount in subtract(node.capacity, node.allocatable).items() if kind != "nodes"
            },
        }
        usage = tuple(
            (metric, kind, amount)
            for metric, each in found.items()
            for kind, amount in _numbers(each).items()
            if amount
        )
        self._usage_by_node[node.name] = (node, usage)
        return usage

    def _pods(self, snapshot: Snapshot) -> None:
        states: Counter[Row] = Counter()
        waiting: list[datetime | None] = []
        unstarted: list[datetime | None] = []
        for node in snapshot.nodes:
            where = (node.nodepool_name, node.labels.get(CAPACITY_TYPE, ""), node.labels.get(ZONE, ""))
            states.update((pod.status.phase, "true", *where) for pod in node.pods)
            unstarted.extend(pod.metadata.creation_timestamp for pod in node.pods if pod.status.phase == "Pending")
        for pod in snapshot.unbound_pods:
            states[pod.status.phase, "false", "", "", ""] += 1
            if pod.active:
                waiting.append(pod.metadata.creation_timestamp)
        show = self._context.metrics.show
        show("karpenter_pods_state", {row: float(number) for row, number in states.items()})
        show("karpenter_pods_unbound_time_seconds", {(): _longest(waiting, snapshot.at)})
        unbound, idle = self._condition_metrics.longest_waits()
        show("karpenter_pods_provisioning_unbound_time_seconds", {(): unbound})
        show("karpenter_pods_provisioning_unstarted_time_seconds", {(): idle})
        show("karpenter_pods_unstarted_time_seconds", {(): _longest([*waiting, *unstarted], snapshot.at)})

    def _conditions(self, now: datetime) -> None:
        for informer in self._followed:
            self._conditions_of(informer.kind.name.lower(), informer.items.values(), now)

    def _conditions_of(self, kind: str, items: Iterable[Any], now: datetime) -> None:
        number: Counter[Row] = Counter()
        since: dict[Row, datetime] = {}
        deleting: list[datetime | None] = []
        for item in items:
            if item.deleting:
                deleting.append(item.metadata.deletion_timestamp)
            for condition in item.status.conditions:
                row = (condition.type, condition.status, condition.reason)
                number[row] += 1
                if condition.last_transition_time is not None:
                    since[row] = min(since.get(row, now), condition.last_transition_time)
        show, prefix = self._context.metrics.show, f"operator_{kind}"
        show(f"{prefix}_status_condition_count", {row: float(count) for row, count in number.items()})
        lasting = {row: max(0.0, (now - at).total_seconds()) for row, at in since.items()}
        show(f"{prefix}_status_condition_current_status_seconds", lasting)
        show(f"{prefix}_termination_current_time_seconds", {(): _longest(deleting, now)})


_POOL_GAUGES = (
    "karpenter_nodepools_usage",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_cost_total",
    "dovetail_nodepools_unpriced_nodes",
    "karpenter_nodepools_allowed_disruptions",
    "karpenter_nodepools_nodes_consuming_budgets",
    "karpenter_nodes_current_lifetime_seconds",
)
_NODE_GAUGES = (
    "karpenter_nodes_allocatable",
    "karpenter_nodes_total_pod_requests",
    "karpenter_nodes_total_daemon_requests",
    "karpenter_nodes_total_pod_limits",
    "karpenter_nodes_total_daemon_limits",
    "karpenter_nodes_system_overhead",
)


def _node_labels(node: ClusterNode) -> Row:
    labels = node.labels
    where = (labels.get(name, "") for name in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE, ARCH, OS))
    return (node.name, node.nodepool_name, *where, _phase(node), str(node.managed).lower())


def _pool_labels(node: ClusterNode) -> Row:
    capacity_type = node.labels.get(CAPACITY_TYPE, "")
    return ("", node.nodepool_name, "", capacity_type, "", "", "", _phase(node), str(node.managed).lower())


def _phase(node: ClusterNode) -> str:
    if node.deleting:
        return "deleting"
    return "initialized" if node.initialized else "starting"


def _limits(pods: Iterable[Pod]) -> Resources:
    return add(*(container.resources.limits for pod in pods for container in pod.spec.containers))


def _numbers(resources: Resources) -> dict[str, float]:
    """Return amounts as numbers (cores, bytes, pieces) of at most `MAX_RESOURCE_TYPES` resources, native ones first."""
    kinds = sorted(resources, key=lambda kind: ("/" in kind, kind))[:MAX_RESOURCE_TYPES]
    return {kind: resources[kind].number for kind in kinds}


def _longest(since: Iterable[datetime | None], now: datetime) -> float:
    earliest = min((at for at in since if at is not None), default=now)
    return max(0.0, (now - earliest).total_seconds())
