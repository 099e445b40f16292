"""Declares the metrics of Karpenter and of Dovetail: name, kind, labels and help text.

The reference page is generated from this table. Names, kinds, labels and buckets are Karpenter's where it has them, so
its dashboards and alerts keep working; `LEFT_OUT` says which names are missing, and why. Metrics that Karpenter does
not have start with `dovetail_`. Those of the libraries that Karpenter is built on are in `library_metrics`.
"""

from collections.abc import Mapping

from dovetail.observe.library_metrics import LIBRARY_METRICS
from dovetail.observe.metric_declaration import (
    BATCH_SIZES,
    LIFETIMES,
    POWERS_OF_TWO,
    PROMETHEUS_DEFAULT,
    SCORES,
    Metric,
    counter,
    gauge,
    histogram,
    summary,
)

_DISRUPTED = "reason nodepool capacity_type consolidation_policy termination_mode"
_DECISION = "decision reason consolidation_type"
NODE_LABELS = (
    "node_name phase managed nodepool zone region instance_type arch os capacity_type windows_build zone_id"
    " instance_category instance_family instance_generation instance_size instance_cpu instance_cpu_manufacturer"
    " instance_cpu_sustained_clock_speed_mhz instance_memory instance_ebs_bandwidth instance_network_bandwidth"
    " instance_local_nvme instance_hypervisor instance_encryption_in_transit_supported instance_capability_flex"
    " instance_gpu_name instance_gpu_manufacturer instance_gpu_count instance_gpu_memory instance_accelerator_name"
    " instance_accelerator_manufacturer instance_accelerator_count instance_tenancy capacity_reservation_id"
    " capacity_reservation_type capacity_reservation_interruptible placement_group_id placement_group_partition"
)
"""Labels of gauges about nodes: the well-known labels of all providers. A node without one has the label empty."""
_NODE_RESOURCE = f"{NODE_LABELS} resource_type"
_NODES = 100_000  # series of one gauge with one row per node or pod
_OFFERINGS = 30000  # series of one gauge about offerings with `--instance-type-metrics all`
_OFFERING = "instance_type capacity_type zone"

_CLAIMS = (
    counter("karpenter_nodeclaims_created_total", "reason nodepool min_values_relaxed", "NodeClaims created."),
    counter(
        "karpenter_nodeclaims_terminated_total",
        "nodepool capacity_type zone",
        "NodeClaims deleted after their instance was terminated.",
    ),
    counter("karpenter_nodeclaims_disrupted_total", _DISRUPTED, "NodeClaims disrupted, by reason."),
    counter(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        "condition nodepool capacity_type image_id",
        "NodeClaims deleted because their node was unhealthy.",
    ),
    histogram(
        "karpenter_nodeclaims_termination_duration_seconds",
        "nodepool",
        "From the deletion of a NodeClaim until it is gone.",
        POWERS_OF_TWO,
    ),
    histogram(
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        "nodepool",
        "From the termination request until the provider no longer has the instance.",
        POWERS_OF_TWO[:-1],
    ),
)
_LAUNCHES = (
    counter(
        "dovetail_launches_failed_total",
        "nodepool cause",
        "Launches that did not help the pods they were for: launch_failed, not_fitting, crowded_out.",
    ),
    gauge(
        "dovetail_nodepools_launch_backoffs", "nodepool", "Kinds of pods for which a pool launches nothing for a while."
    ),
)
_OPENINGS = (
    counter(
        "dovetail_nodes_opened_total",
        "nodepool outcome",
        "New nodes opened for the pods they were launched for: nominated, none_pending, failed (some pods were not"
        " nominated), or unplanned (no pod was nominated).",
    ),
    counter("dovetail_pods_nominated_total", "nodepool", "Pods nominated to the node that was launched for them."),
)
_NODE_METRICS = (
    counter("karpenter_nodes_created_total", "nodepool zone", "Nodes that registered."),
    counter("karpenter_nodes_terminated_total", "nodepool zone", "Nodes deleted."),
    counter("karpenter_nodes_drained_total", "nodepool", "Nodes drained."),
    summary(
        "karpenter_nodes_termination_duration_seconds", "nodepool", "From the deletion of a node until it is gone."
    ),
    histogram(
        "karpenter_nodes_lifetime_duration_seconds", "nodepool", "Age of nodes when they were deleted.", LIFETIMES
    ),
    gauge("karpenter_nodes_allocatable", _NODE_RESOURCE, "Allocatable resources of nodes.", _NODES),
    gauge("karpenter_nodes_total_pod_requests", _NODE_RESOURCE, "Requests of all pods on nodes.", _NODES),
    gauge("karpenter_nodes_total_pod_limits", _NODE_RESOURCE, "Limits of all pods on nodes.", _NODES),
    gauge("karpenter_nodes_total_daemon_requests", _NODE_RESOURCE, "Requests of pods of DaemonSets.", _NODES),
    gauge("karpenter_nodes_total_daemon_limits", _NODE_RESOURCE, "Limits of pods of DaemonSets.", _NODES),
    gauge("karpenter_nodes_system_overhead", _NODE_RESOURCE, "Capacity that is not allocatable.", _NODES),
    gauge("karpenter_nodes_current_lifetime_seconds", NODE_LABELS, "Age of nodes.", _NODES),
)
_POD_STATE = "name namespace owner node scheduled nodepool zone arch capacity_type instance_type phase ready managed"
_POD = "name namespace"
_PODS = (
    gauge("karpenter_pods_state", _POD_STATE, "1 for each pod, with its state as labels.", _NODES),
    summary("karpenter_pods_startup_duration_seconds", "", "From the creation of a pod until it runs."),
    histogram("karpenter_pods_bound_duration_seconds", "", "From the creation of a pod until it has a node."),
    histogram(
        "karpenter_pods_provisioning_startup_duration_seconds",
        "",
        "From the first simulation that found a place for a pod until it runs.",
    ),
    histogram(
        "karpenter_pods_provisioning_bound_duration_seconds",
        "",
        "From the first simulation that found a place for a pod until it has a node.",
    ),
    histogram(
        "karpenter_pods_scheduling_decision_duration_seconds",
        "",
        "From the first sight of a pod that needs a node to the first simulation with it.",
    ),
    gauge("karpenter_pods_unstarted_time_seconds", _POD, "Time since the creation of a pod that does not run.", _NODES),
    gauge("karpenter_pods_unbound_time_seconds", _POD, "Time since the creation of a pod without a node.", _NODES),
    gauge(
        "karpenter_pods_provisioning_unstarted_time_seconds",
        _POD,
        "Time since the first simulation that found a place for a pod that does not run.",
        _NODES,
    ),
    gauge(
        "karpenter_pods_provisioning_unbound_time_seconds",
        _POD,
        "Time since the first simulation that found a place for a pod without a node.",
        _NODES,
    ),
    gauge(
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        _POD,
        "Time since the first sight of a pod that no simulation has considered.",
        _NODES,
    ),
    gauge(
        "dovetail_pods_do_not_disrupt",
        "nodepool protection",
        "Pods with karpenter.sh/do-not-disrupt: permanent, grace_period, elapsed, or invalid (which protects).",
    ),
    gauge(
        "dovetail_pods_do_not_disrupt_remaining_seconds",
        "nodepool",
        "How long the longest do-not-disrupt grace period of a running pod still lasts.",
    ),
    counter("karpenter_pods_eviction_requests_total", "code", "Answers to evictions, by HTTP status."),
    counter("karpenter_pods_drained_total", "reason", "Pods evicted, and why."),
    counter("karpenter_pods_disruption_initiated_total", _DISRUPTED, "Pods that have to move, and why."),
)
_POOLS = (
    gauge("karpenter_nodepools_usage", "nodepool resource_type", "Resources of all nodes of a pool."),
    gauge("karpenter_nodepools_limit", "nodepool resource_type", "Limits of a pool."),
    gauge("karpenter_nodepools_cost_total", "nodepool", "Cost of all nodes of a pool, in dollars per hour."),
    counter(
        "karpenter_nodepools_cost_tracker_errors_total",
        "nodepool",
        "Failed updates of the cost. It is computed at each scrape, so this stays 0; see unpriced nodes.",
    ),
    gauge(
        "dovetail_nodepools_nodes_in_consolidation_grace_period",
        "nodepool",
        "Nodes that consolidation leaves alone because of consolidationGracePeriod.",
    ),
    gauge("dovetail_nodepools_unpriced_nodes", "nodepool", "Nodes whose price is not known; their cost counts as 0."),
    gauge(
        "karpenter_nodepools_allowed_disruptions",
        "nodepool reason",
        "Nodes the budgets allow to be disrupted at once; without a budget in force all of them.",
    ),
    gauge(
        "karpenter_nodepools_nodes_consuming_budgets", "nodepool reason", "Nodes not ready, disrupting or on their way."
    ),
)
_DISRUPTION = (
    histogram(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        "reason consolidation_type",
        "How long one method took in one pass.",
    ),
    counter("karpenter_voluntary_disruption_decisions_total", _DECISION, "Commands started."),
    counter(
        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        f"nodepool {_DECISION}",
        "Commands started, once for each pool they touch.",
    ),
    gauge("karpenter_voluntary_disruption_eligible_nodes", "reason", "Nodes a method could take in the last pass."),
    counter(
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "consolidation_type",
        "Searches that timed out. Dovetail evaluates every node, so this stays 0.",
    ),
    counter(
        "karpenter_voluntary_disruption_failed_validations_total",
        "consolidation_type",
        "Candidates of commands that failed validation.",
    ),
    counter(
        "karpenter_voluntary_disruption_queue_failures_total", _DECISION, "Replacements that were never ready in time."
    ),
    histogram("karpenter_consolidation_score", "decision nodepool policy", "Scores of the Balanced policy.", SCORES),
    counter("karpenter_consolidation_moves_total", "decision nodepool policy", "Moves approved or rejected."),
    gauge(
        "dovetail_nodepools_drift_stopped",
        "nodepool reason",
        "1 while drift is stopped because replacements are drifted for the same reason.",
    ),
    gauge("dovetail_disruption_refusals", "method code", "Nodes not disrupted in the last pass, by refusal code."),
    gauge(
        "dovetail_disruption_unevaluated_nodes", "", "Managed nodes that the last pass did not evaluate. Should be 0."
    ),
    gauge("dovetail_commands_running", "reason", "Running commands."),
    gauge("dovetail_unreadable_objects", "kind", "Unreadable objects. Nodes that they may concern are not disrupted."),
    counter("dovetail_commands_ended_total", "reason outcome", "Commands that ended, by outcome."),
    gauge(
        "dovetail_disruption_saving_dollars_per_hour",
        "nodepool reason",
        "What the cluster costs less an hour now because of past commands; negative if more.",
    ),
)
_SCHEDULER = (
    histogram("karpenter_scheduler_scheduling_duration_seconds", "controller", "How long one simulation took."),
    gauge(
        "karpenter_scheduler_queue_depth",
        "controller scheduling_id",
        "Pods the last simulation had to place. The id stays empty.",
    ),
    gauge("karpenter_scheduler_unschedulable_pods_count", "controller", "Pods for which no node can be launched."),
    gauge("karpenter_scheduler_ignored_pods_count", "", "Pending pods that this controller does not provision for."),
    gauge(
        "karpenter_scheduler_pending_pods_by_effective_zone_count",
        "controller zone",
        "Pods of the last simulation by the zone they need: its name, flexible for several, none if no zone is left.",
    ),
)
_CLUSTER = (
    gauge("karpenter_cluster_state_node_count", "", "Nodes and NodeClaims known."),
    gauge(
        "dovetail_cache_age_seconds",
        "kind",
        "Since an event, a bookmark or a list of the API server confirmed the cache.",
    ),
    gauge("dovetail_cache_stale", "kind", "1 while that is too long ago: nothing new is disrupted."),
    gauge("dovetail_cache_unreadable_objects", "kind", "Objects that cannot be read and are left out."),
    gauge("karpenter_cluster_state_synced", "", "1 once everything has been listed."),
    gauge("karpenter_cluster_state_unsynced_time_seconds", "", "How long the state has not been complete."),
    gauge("karpenter_cluster_utilization_percent", "resource_type", "Requests of pods as a share of allocatable."),
)
_CLOUD = (
    histogram(
        "karpenter_cloudprovider_duration_seconds",
        "controller method provider",
        "Duration of calls to the provider.",
        PROMETHEUS_DEFAULT,
    ),
    counter(
        "karpenter_cloudprovider_errors_total", "controller method provider error", "Calls to the provider that failed."
    ),
    gauge("karpenter_cloudprovider_instance_type_cpu_cores", "instance_type", "Cores of an instance type.", 2000),
    gauge(
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "instance_type",
        "Memory of an instance type, as nodes report it.",
        2000,
    ),
    gauge(
        "karpenter_cloudprovider_instance_type_offering_available",
        _OFFERING,
        "1 while the offering is available to any pool.",
        _OFFERINGS,
    ),
    gauge("karpenter_cloudprovider_instance_type_offering_price_estimate", _OFFERING, "Dollars an hour.", _OFFERINGS),
    counter(
        "karpenter_cloudprovider_instance_launch_failures_total",
        "zone zone_id capacity_type reason",
        "Offerings that EC2 could not launch, by error code.",
    ),
    counter(
        "karpenter_cloudprovider_instance_termination_failures_total",
        "zone zone_id",
        "Terminations that EC2 refused.",
    ),
    histogram("karpenter_cloudprovider_batcher_batch_time_seconds", "batcher", "How long a batch of requests waited."),
    histogram("karpenter_cloudprovider_batcher_batch_size", "batcher", "Requests in a batch.", BATCH_SIZES),
    gauge("karpenter_ec2nodeclasses_userdata_bytes", "nodeclass", "Size of the user data before base64."),
)
_INTERRUPTION = (
    counter("karpenter_interruption_received_messages_total", "message_type", "Messages received."),
    counter("karpenter_interruption_deleted_messages_total", "", "Messages handled and deleted."),
    counter(
        "dovetail_interruption_messages_set_aside_total", "", "Messages that could not be parsed, deleted unhandled."
    ),
    histogram("karpenter_interruption_message_queue_duration_seconds", "", "Age of messages when received."),
    counter("karpenter_interruption_instance_status_unhealthy_total", "category", "Failed status checks found."),
)
_RUNTIME = (
    gauge(
        "karpenter_build_info",
        "version goversion goarch commit python_version",
        "Always 1; the labels say what runs. goversion and commit stay empty.",
    ),
    counter("dovetail_events_total", "outcome", "Kubernetes events written, repeated, limited, dropped or failed."),
    counter("dovetail_ledger_entries_total", "", "Writes that reached the ledger."),
    counter("dovetail_ledger_lost_total", "", "Writes the ledger lost because the disk or its queue was full."),
    gauge("dovetail_ledger_failing", "", "1 while the ledger cannot be written."),
    gauge("dovetail_ledger_bytes", "", "Size of the ledger."),
    counter("dovetail_metrics_rejected_total", "", "Values with an undeclared name or label: a defect."),
    counter("dovetail_metrics_overflowed_total", "", "Values beyond the maximum number of series."),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for group in (
        _CLAIMS,
        _LAUNCHES,
        _OPENINGS,
        _NODE_METRICS,
        _PODS,
        _POOLS,
        _DISRUPTION,
        _SCHEDULER,
        _CLUSTER,
        _CLOUD,
        _INTERRUPTION,
        _RUNTIME,
        LIBRARY_METRICS,
    )
    for metric in group
}
LEFT_OUT: Mapping[str, str] = {
    "karpenter_scheduler_unfinished_work_seconds": "A simulation ends before a scrape is answered.",
    "operator_capacitybuffer_*": "There is no CapacityBuffer controller.",
    "rest_client_requests_total": "Karpenter registers it and never sets it; see `client_go_request_total`.",
    "certwatcher_*": "No certificate is watched: there is no webhook.",
    "go_*": "There is no Go runtime.",
}
"""Metrics of Karpenter that do not exist here, with the reason."""
