"""Gauges about the cluster, computed from the controllers' state at each scrape: no cost without a scrape.

By default there is one series for each node, pod and condition, as in Karpenter. With `--node-metrics pool` the number
of series grows with NodePools, capacity types, resource types and instance types in use, never with nodes or pods.
"""

import asyncio
from collections import Counter
from datetime import datetime

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.metrics.conditions import ConditionMetrics
from dovetail.controllers.metrics.do_not_disrupt import grace_period_metrics
from dovetail.controllers.metrics.nodes import NodeMetrics, numbers
from dovetail.controllers.metrics.offerings import offering_metrics
from dovetail.controllers.metrics.pods import PodMetrics
from dovetail.controllers.metrics.reconcilers import ReconcilerMetrics
from dovetail.core.disruption.budgets import allowance, count_nodes
from dovetail.core.disruption.candidates import node_price
from dovetail.core.disruption.command_progress import running_commands
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.reason import VOLUNTARY
from dovetail.model.snapshot import Snapshot

Rows = dict[tuple[str, ...], float]


class ClusterMetrics:
    """Computes all gauges."""

    def __init__(
        self,
        context: ControllerContext,
        reconcilers: ReconcilerMetrics,
        condition_metrics: ConditionMetrics,
        pod_metrics: PodMetrics,
    ) -> None:
        self._context = context
        self._reconcilers = reconcilers
        self._conditions = condition_metrics
        self._pods = pod_metrics
        self._nodes = NodeMetrics(context)
        self._unsynced_since: datetime | None = None

    async def refresh(self) -> None:
        """Compute all gauges now."""
        context = self._context
        self._show_caches()  # first: these gauges matter most if the rest fails
        self._show_synced(context.clock.now())
        if not context.settings.disable_cluster_state_observability:
            await self._show_cluster_state()
        self._reconcilers.refresh()
        unread: Rows = {(each.kind.name,): float(len(each.unreadable)) for each in context.state.informers}
        context.metrics.show("dovetail_unreadable_objects", {row: number for row, number in unread.items() if number})
        running = Counter(each.record.reason for each in running_commands(context.state.claims.items.values()).values())
        commands: Rows = {(reason,): float(number) for reason, number in running.items()}
        context.metrics.show("dovetail_commands_running", commands)

    async def _show_cluster_state(self) -> None:
        """Gauges about pods, nodes, NodePools, instance types and conditions."""
        context = self._context
        pools = list(context.state.nodepools.items.values())
        snapshot = context.state.snapshot(context.clock.now(), await find_catalogs(context.cloud, pools))
        context.metrics.show("karpenter_cluster_state_node_count", {(): float(len(snapshot.nodes))})
        self._show_pools(snapshot)
        await asyncio.sleep(0)  # on large clusters, let other tasks run
        if context.settings.node_metrics != "off":
            await self._nodes.refresh(snapshot)
            await self._pods.refresh(snapshot)
            await self._conditions.refresh(snapshot.at)
        offered = offering_metrics(snapshot, context.settings.instance_type_metrics)
        for metric, rows in {**offered, **grace_period_metrics(snapshot)}.items():
            context.metrics.show(metric, rows)

    def _show_caches(self) -> None:
        show, caches = self._context.metrics.show, [each for each in self._context.state.caches if each.synced.is_set()]
        show("dovetail_cache_age_seconds", {(each.kind.name,): each.age for each in caches})
        show("dovetail_cache_stale", {(each.kind.name,): float(each.stale) for each in caches})
        show("dovetail_cache_unreadable_objects", {(each.kind.name,): float(len(each.unreadable)) for each in caches})

    def _show_synced(self, now: datetime) -> None:
        show, missing = self._context.metrics.show, bool(self._context.state.unsynced())
        if not missing:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = now
        since = now - (self._unsynced_since or now)
        show("karpenter_cluster_state_synced", {(): float(not missing)})
        show("karpenter_cluster_state_unsynced_time_seconds", {(): since.total_seconds()})

    def _show_pools(self, snapshot: Snapshot) -> None:
        shown: dict[str, Rows] = {name: {} for name in _POOL_GAUGES}
        usage, limit, cost, unpriced, allowed, consuming = shown.values()
        for name, pool in snapshot.nodepools.items():
            nodes = snapshot.nodes_by_pool.get(name, ())
            usage.update({(name, kind): amount for kind, amount in numbers(snapshot.usage(name)).items()})
            limit.update({(name, kind): amount for kind, amount in numbers(pool.spec.limits).items()})
            types = snapshot.types_by_pool.get(name, {})
            prices = [node_price(node, types.get(node.labels.get(INSTANCE_TYPE, ""))) for node in nodes]
            cost[name,] = sum(prices)
            unpriced[name,] = float(sum(not price for price in prices))
            self._context.metrics.count("karpenter_nodepools_cost_tracker_errors_total", 0, nodepool=name)
            counts = count_nodes(nodes)
            for reason in sorted(VOLUNTARY):
                most = allowance(pool, reason, counts, snapshot.at).limit
                allowed[name, reason] = float(counts.total if most is None else most)
                consuming[name, reason] = float(counts.disrupting)
        for metric, rows in shown.items():
            self._context.metrics.show(metric, rows)


_POOL_GAUGES = (
    "karpenter_nodepools_usage",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_cost_total",
    "dovetail_nodepools_unpriced_nodes",
    "karpenter_nodepools_allowed_disruptions",
    "karpenter_nodepools_nodes_consuming_budgets",
)
