"""Declares every metric: name, kind, labels and help text. The reference page is generated from this table.

Names and labels are Karpenter's where it has them, so its dashboards and alerts keep working. Four differences keep the
number of series small: no label names a pod; per-node labels are empty and unused instance types are left out, unless a
setting enables them; histograms have 16 of Karpenter's 45 duration buckets. Metrics that Karpenter does not have start
with `dovetail_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
LIFETIMES = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0, 30 * 86400.0)
SCORES = (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0)


class MetricKind(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric. `most` is the maximum number of series before further ones are merged or dropped."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    most: int = 1000


def _labels(written: str) -> tuple[str, ...]:
    return tuple(written.split())


def _counter(name: str, labels: str, about: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, _labels(labels), about)


def _gauge(name: str, labels: str, about: str, most: int = 1000) -> Metric:
    return Metric(name, MetricKind.GAUGE, _labels(labels), about, most=most)


def _histogram(name: str, labels: str, about: str, buckets: tuple[float, ...] = DURATIONS) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, _labels(labels), about, buckets, most=200)


_DISRUPTED = "reason nodepool capacity_type consolidation_policy termination_mode"
_DECISION = "decision reason consolidation_type"
NODE_LABELS = "node_name nodepool instance_type capacity_type zone arch os phase managed resource_type"
_NODES = 20000  # series of one per-node gauge with `--node-metrics node`
_OFFERINGS = 30000  # series of one gauge about offerings with `--instance-type-metrics all`
_OFFERING = "instance_type capacity_type zone"

_CLAIMS = (
    _counter("karpenter_nodeclaims_created_total", "reason nodepool min_values_relaxed", "NodeClaims created."),
    _counter(
        "karpenter_nodeclaims_terminated_total",
        "nodepool capacity_type zone",
        "NodeClaims deleted after their instance was terminated.",
    ),
    _counter("karpenter_nodeclaims_disrupted_total", _DISRUPTED, "NodeClaims disrupted, by reason."),
    _counter(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        "condition nodepool capacity_type image_id",
        "NodeClaims deleted because their node was unhealthy.",
    ),
    _histogram(
        "karpenter_nodeclaims_termination_duration_seconds", "nodepool", "From deletion to gone, for a NodeClaim."
    ),
    _histogram(
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        "nodepool",
        "From the termination request until the provider no longer has the instance.",
    ),
)
_LAUNCHES = (
    _counter(
        "dovetail_launches_failed_total",
        "nodepool cause",
        "Launches that did not help the pods they were for: launch_failed, not_fitting, crowded_out.",
    ),
    _gauge(
        "dovetail_nodepools_launch_backoffs", "nodepool", "Kinds of pods for which a pool launches nothing for a while."
    ),
)
_NODE_METRICS = (
    _counter("karpenter_nodes_created_total", "nodepool zone", "Nodes that registered."),
    _counter("karpenter_nodes_terminated_total", "nodepool zone", "Nodes deleted."),
    _counter("karpenter_nodes_drained_total", "nodepool", "Nodes drained."),
    _histogram("karpenter_nodes_termination_duration_seconds", "nodepool", "From deletion to gone, for a node."),
    _histogram(
        "karpenter_nodes_lifetime_duration_seconds", "nodepool", "Age of nodes when they were deleted.", LIFETIMES
    ),
    _gauge("karpenter_nodes_allocatable", NODE_LABELS, "Allocatable resources of nodes.", _NODES),
    _gauge("karpenter_nodes_total_pod_requests", NODE_LABELS, "Requests of pods, without DaemonSets.", _NODES),
    _gauge("karpenter_nodes_total_pod_limits", NODE_LABELS, "Limits of pods, without DaemonSets.", _NODES),
    _gauge("karpenter_nodes_total_daemon_requests", NODE_LABELS, "Requests of pods of DaemonSets.", _NODES),
    _gauge("karpenter_nodes_total_daemon_limits", NODE_LABELS, "Limits of pods of DaemonSets.", _NODES),
    _gauge("karpenter_nodes_system_overhead", NODE_LABELS, "Capacity that is not allocatable.", _NODES),
    _gauge("karpenter_nodes_current_lifetime_seconds", "nodepool", "Age of the oldest node of a pool."),
)
_PODS = (
    _gauge("karpenter_pods_state", "phase scheduled nodepool capacity_type zone", "Number of pods by state."),
    _histogram("karpenter_pods_startup_duration_seconds", "", "From creation to running."),
    _histogram("karpenter_pods_bound_duration_seconds", "", "From creation to a node."),
    _gauge(
        "dovetail_pods_do_not_disrupt",
        "nodepool protection",
        "Pods with karpenter.sh/do-not-disrupt: permanent, grace_period, elapsed, or invalid (which protects).",
    ),
    _gauge(
        "dovetail_pods_do_not_disrupt_remaining_seconds",
        "nodepool",
        "How long the longest do-not-disrupt grace period of a running pod still lasts.",
    ),
    _gauge("karpenter_pods_unstarted_time_seconds", "", "How long the longest waiting pod has not been running."),
    _gauge("karpenter_pods_unbound_time_seconds", "", "How long the longest waiting pod has had no node."),
    _histogram(
        "karpenter_pods_provisioning_bound_duration_seconds", "", "From the first look at a waiting pod to a node."
    ),
    _histogram(
        "karpenter_pods_provisioning_startup_duration_seconds", "", "From the first look at a waiting pod to running."
    ),
    _gauge(
        "karpenter_pods_provisioning_unbound_time_seconds", "", "Longest wait for a node since the first look at a pod."
    ),
    _gauge(
        "karpenter_pods_provisioning_unstarted_time_seconds", "", "Longest wait to run since the first look at a pod."
    ),
    _counter("karpenter_pods_eviction_requests_total", "code", "Answers to evictions, by HTTP status."),
    _counter("karpenter_pods_drained_total", "reason", "Pods evicted, and why."),
    _counter("karpenter_pods_disruption_initiated_total", _DISRUPTED, "Pods that have to move, and why."),
)
_POOLS = (
    _gauge("karpenter_nodepools_usage", "nodepool resource_type", "Resources of all nodes of a pool."),
    _gauge("karpenter_nodepools_limit", "nodepool resource_type", "Limits of a pool."),
    _gauge("karpenter_nodepools_cost_total", "nodepool", "Cost of all nodes of a pool, in dollars per hour."),
    _gauge(
        "dovetail_nodepools_nodes_in_consolidation_grace_period",
        "nodepool",
        "Nodes that consolidation leaves alone because of consolidationGracePeriod.",
    ),
    _gauge("dovetail_nodepools_unpriced_nodes", "nodepool", "Nodes whose price is not known; their cost counts as 0."),
    _gauge(
        "karpenter_nodepools_allowed_disruptions",
        "nodepool reason",
        "Nodes the budgets allow to be disrupted at once; without a budget in force all of them.",
    ),
    _gauge(
        "karpenter_nodepools_nodes_consuming_budgets", "nodepool reason", "Nodes not ready, disrupting or on their way."
    ),
)
_DISRUPTION = (
    _histogram(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        "reason consolidation_type",
        "How long one method took in one pass.",
    ),
    _counter("karpenter_voluntary_disruption_decisions_total", _DECISION, "Commands started."),
    _counter(
        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        f"nodepool {_DECISION}",
        "Commands started, once for each pool they touch.",
    ),
    _gauge("karpenter_voluntary_disruption_eligible_nodes", "reason", "Nodes a method could take in the last pass."),
    _counter(
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "consolidation_type",
        "Searches that timed out. Dovetail evaluates every node, so this stays 0.",
    ),
    _counter(
        "karpenter_voluntary_disruption_failed_validations_total",
        "consolidation_type",
        "Candidates of commands that failed validation.",
    ),
    _counter(
        "karpenter_voluntary_disruption_queue_failures_total", _DECISION, "Replacements that were never ready in time."
    ),
    _histogram("karpenter_consolidation_score", "decision nodepool policy", "Scores of the Balanced policy.", SCORES),
    _counter("karpenter_consolidation_moves_total", "decision nodepool policy", "Moves approved or rejected."),
    _gauge(
        "dovetail_nodepools_drift_stopped",
        "nodepool reason",
        "1 while drift is stopped because replacements are drifted for the same reason.",
    ),
    _gauge("dovetail_disruption_refusals", "method code", "Nodes not disrupted in the last pass, by refusal code."),
    _gauge(
        "dovetail_disruption_unevaluated_nodes", "", "Managed nodes that the last pass did not evaluate. Should be 0."
    ),
    _gauge("dovetail_commands_running", "reason", "Running commands."),
    _gauge("dovetail_unreadable_objects", "kind", "Unreadable objects. Nodes that they may concern are not disrupted."),
    _counter("dovetail_commands_ended_total", "reason outcome", "Commands that ended, by outcome."),
    _counter(
        "dovetail_disruption_saving_dollars_per_hour_total",
        "nodepool reason",
        "Hourly dollars saved by commands that were carried out, as planned.",
    ),
)
_SCHEDULER = (
    _histogram("karpenter_scheduler_scheduling_duration_seconds", "controller", "How long one simulation took."),
    _gauge("karpenter_scheduler_queue_depth", "controller", "Pods the last simulation had to place."),
    _gauge("karpenter_scheduler_unschedulable_pods_count", "controller", "Pods for which no node can be launched."),
    _gauge("karpenter_scheduler_ignored_pods_count", "", "Pending pods that this controller does not provision for."),
)
_CLUSTER = (
    _gauge("karpenter_cluster_state_node_count", "", "Nodes and NodeClaims known."),
    _gauge(
        "dovetail_cache_age_seconds",
        "kind",
        "Since an event, a bookmark or a list of the API server confirmed the cache.",
    ),
    _gauge("dovetail_cache_stale", "kind", "1 while that is too long ago: nothing new is disrupted."),
    _gauge("dovetail_cache_unreadable_objects", "kind", "Objects that cannot be read and are left out."),
    _gauge("karpenter_cluster_state_synced", "", "1 once everything has been listed."),
    _gauge("karpenter_cluster_state_unsynced_time_seconds", "", "How long the state has not been complete."),
    _gauge("karpenter_cluster_utilization_percent", "resource_type", "Requests of pods as a share of allocatable."),
)
_CLOUD = (
    _histogram("karpenter_cloudprovider_duration_seconds", "controller method provider", "Calls to the provider."),
    _counter(
        "karpenter_cloudprovider_errors_total", "controller method provider error", "Calls to the provider that failed."
    ),
    _gauge("karpenter_cloudprovider_instance_type_cpu_cores", "instance_type", "Cores of an instance type.", 2000),
    _gauge(
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "instance_type",
        "Memory of an instance type, as nodes report it.",
        2000,
    ),
    _gauge(
        "karpenter_cloudprovider_instance_type_offering_available",
        _OFFERING,
        "1 while the offering is available to any pool.",
        _OFFERINGS,
    ),
    _gauge("karpenter_cloudprovider_instance_type_offering_price_estimate", _OFFERING, "Dollars an hour.", _OFFERINGS),
)
_INTERRUPTION = (
    _counter("karpenter_interruption_received_messages_total", "message_type", "Messages received."),
    _counter("karpenter_interruption_deleted_messages_total", "", "Messages handled and deleted."),
    _counter(
        "dovetail_interruption_messages_set_aside_total", "", "Messages that could not be parsed, deleted unhandled."
    ),
    _histogram("karpenter_interruption_message_queue_duration_seconds", "", "Age of messages when received."),
    _counter("karpenter_interruption_instance_status_unhealthy_total", "category", "Failed status checks found."),
)
_OPERATOR = tuple(
    metric
    for kind in ("nodeclaim", "nodepool", "node", "ec2nodeclass", "kwoknodeclass")
    for metric in (
        _gauge(f"operator_{kind}_status_condition_count", "type status reason", f"{kind}s with this condition."),
        _gauge(
            f"operator_{kind}_status_condition_current_status_seconds",
            "type status reason",
            f"How long the {kind} longest in this condition has been in it.",
        ),
        _histogram(
            f"operator_{kind}_status_condition_transition_seconds",
            "type status",
            f"How long conditions of {kind}s were what they were before they changed.",
            LIFETIMES,
        ),
        _counter(
            f"operator_{kind}_status_condition_transitions_total",
            "type status reason",
            f"Conditions of {kind}s that changed to this.",
        ),
        _gauge(
            f"operator_{kind}_termination_current_time_seconds",
            "",
            f"How long the {kind} longest in deletion has been in it.",
        ),
        _histogram(f"operator_{kind}_termination_duration_seconds", "", f"From deletion to gone, for {kind}s."),
    )
)
_RUNTIME = (
    _gauge("karpenter_build_info", "version python_version", "Always 1; the labels say what runs."),
    _gauge("workqueue_depth", "name", "Keys that are due and wait for a worker."),
    _counter("controller_runtime_reconcile_total", "controller result", "Reconciliations, by result."),
    _histogram("controller_runtime_reconcile_time_seconds", "controller", "How long one reconciliation took."),
    _gauge("leader_election_master_status", "name", "1 on the replica that leads."),
    _counter("dovetail_events_total", "outcome", "Kubernetes events written, repeated, limited, dropped or failed."),
    _counter("dovetail_ledger_entries_total", "", "Writes that reached the ledger."),
    _counter("dovetail_ledger_lost_total", "", "Writes the ledger lost because the disk or its queue was full."),
    _gauge("dovetail_ledger_failing", "", "1 while the ledger cannot be written."),
    _gauge("dovetail_ledger_bytes", "", "Size of the ledger."),
    _counter("dovetail_metrics_rejected_total", "", "Values with an undeclared name or label: a defect."),
    _counter("dovetail_metrics_overflowed_total", "", "Values beyond the maximum number of series."),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for group in (
        _CLAIMS,
        _LAUNCHES,
        _NODE_METRICS,
        _PODS,
        _POOLS,
        _DISRUPTION,
        _SCHEDULER,
        _CLUSTER,
        _CLOUD,
        _INTERRUPTION,
        _OPERATOR,
        _RUNTIME,
    )
    for metric in group
}
