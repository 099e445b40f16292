"""Gauges about nodes: allocatable resources, requests and limits of pods, overhead, age, and cluster utilization.

Labels are the last part of each well-known label, as in Karpenter. Labels and amounts of a node are cached by the
identity of its immutable `ClusterNode`, which the state replaces when the node, its claim or its pods change. With
`--node-metrics pool` the nodes of a NodePool and capacity type are added up, and the age is that of the oldest.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from dovetail.controllers.context import ControllerContext
from dovetail.model.labels import CAPACITY_TYPE, WELL_KNOWN
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.resources import Resources, add, subtract
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.observe.metric_table import NODE_LABELS
from dovetail.ports.metrics import LabelText, Row, label_text
from dovetail.runtime.concurrency import in_turns

MAX_RESOURCE_TYPES = 16  # per object; further resource names are left out, to bound the number of series
ALLOCATABLE = "karpenter_nodes_allocatable"
POD_REQUESTS = "karpenter_nodes_total_pod_requests"
DAEMON_REQUESTS = "karpenter_nodes_total_daemon_requests"
POD_LIMITS = "karpenter_nodes_total_pod_limits"
DAEMON_LIMITS = "karpenter_nodes_total_daemon_limits"
OVERHEAD = "karpenter_nodes_system_overhead"
AGE = "karpenter_nodes_current_lifetime_seconds"
_GAUGES = (ALLOCATABLE, POD_REQUESTS, DAEMON_REQUESTS, POD_LIMITS, DAEMON_LIMITS, OVERHEAD)
Usage = tuple[tuple[str, Row, float], ...]  # metric, row, amount
NodeUsage = tuple[ClusterNode, LabelText, Usage]


class NodeMetrics:
    """Computes the gauges of all nodes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._keys_by_name: defaultdict[str, list[str]] = defaultdict(list)  # label keys by metric label
        for key in sorted(WELL_KNOWN | context.cloud.well_known_labels):
            name = key.rpartition("/")[2].lower().replace("-", "_")
            if name in NODE_LABELS.split():  # a catalog file may have labels that no metric has
                self._keys_by_name[name].append(key)
        self._usage_by_node: dict[str, NodeUsage] = {}

    async def refresh(self, snapshot: Snapshot) -> None:
        """Compute the gauges."""
        sums: dict[str, defaultdict[Row, float]] = {name: defaultdict(float) for name in _GAUGES}
        ages: defaultdict[Row, float] = defaultdict(float)
        found: dict[str, NodeUsage] = {}
        async for node in in_turns(node for node in snapshot.nodes if node.node is not None):
            found[node.name] = self._usage(node)
            _, labels, usage = found[node.name]
            for metric, row, amount in usage:
                sums[metric][row] += amount
            created_at = node.node.metadata.creation_timestamp if node.node is not None else None
            if created_at is not None:
                ages[labels,] = max(ages[labels,], (snapshot.at - created_at).total_seconds())
        for metric, rows in sums.items():
            self._context.metrics.show(metric, rows)
        self._context.metrics.show(AGE, ages)
        self._show_utilization(sums)
        self._usage_by_node = found

    def _show_utilization(self, sums: Mapping[str, Mapping[Row, float]]) -> None:
        totals: dict[str, defaultdict[str, float]] = {}
        for metric in (ALLOCATABLE, POD_REQUESTS):
            totals[metric] = defaultdict(float)
            for row, amount in sums[metric].items():
                totals[metric][row[-1]] += amount
        used = totals[POD_REQUESTS]
        rows: dict[Row, float] = {
            (kind,): 100.0 * used[kind] / amount for kind, amount in totals[ALLOCATABLE].items() if amount > 0
        }
        self._context.metrics.show("karpenter_cluster_utilization_percent", rows)

    def _usage(self, node: ClusterNode) -> NodeUsage:
        known = self._usage_by_node.get(node.name)
        if known is None or known[0] is not node:
            labels = self._labels(node)
            usage = ((metric, (labels, kind), amount) for metric, kind, amount in _amounts(node))
            known = node, labels, tuple(usage)
        return known

    def _labels(self, node: ClusterNode) -> LabelText:
        own, labels = {"phase": _phase(node), "managed": str(node.managed).lower()}, node.labels
        if self._context.settings.node_metrics != "node":
            return label_text({**own, "nodepool": node.nodepool_name, "capacity_type": labels.get(CAPACITY_TYPE, "")})
        values = {
            name: next((labels[key] for key in keys if key in labels), "") for name, keys in self._keys_by_name.items()
        }
        return label_text({"node_name": node.name, **own, **values})


def _phase(node: ClusterNode) -> str:
    if node.deleting:
        return "deleting"
    return "initialized" if node.initialized else "starting"


def _amounts(node: ClusterNode) -> Iterable[tuple[str, str, float]]:
    """Yield the amount of every resource for each metric.

    Sums over pods have a row for cpu, memory and pods even if it is 0, so that queries may add and divide them.
    """
    pods = [pod for pod in node.pods if not pod.terminal]
    daemons = [pod for pod in pods if pod.daemon]
    for metric, amounts in (
        (ALLOCATABLE, node.allocatable),
        (OVERHEAD, {kind: each for kind, each in subtract(node.capacity, node.allocatable).items() if kind != "nodes"}),
    ):
        yield from ((metric, kind, amount) for kind, amount in numbers(amounts).items() if amount)
    for metric, chosen, resources in (
        (POD_REQUESTS, pods, add(*(spec_requests(pod.spec) for pod in pods))),
        (DAEMON_REQUESTS, daemons, add(*(spec_requests(pod.spec) for pod in daemons))),
        (POD_LIMITS, pods, _limits(pods)),
        (DAEMON_LIMITS, daemons, _limits(daemons)),
    ):
        found = {"cpu": 0.0, "memory": 0.0, **numbers(resources), "pods": float(len(chosen))}
        yield from ((metric, kind, amount) for kind, amount in found.items())


def _limits(pods: Iterable[Pod]) -> Resources:
    return add(*(container.resources.limits for pod in pods for container in pod.spec.containers))


def numbers(resources: Resources) -> dict[str, float]:
    """Return amounts as numbers (cores, bytes, pieces) of at most `MAX_RESOURCE_TYPES` resources, native ones first.

    Names are those of the label `resource_type`: lower case, with `_` for `-`.
    """
    kinds = sorted(resources, key=lambda kind: ("/" in kind, kind))[:MAX_RESOURCE_TYPES]
    return {kind.lower().replace("-", "_"): resources[kind].number for kind in kinds}
