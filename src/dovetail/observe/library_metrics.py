"""Declares the metrics of the libraries that Karpenter is built on, with their names, labels and buckets.

These are the condition metrics of operatorpkg, the reconcile and work queue metrics of controller-runtime, the request
metrics of client-go and of the AWS SDK, and those of leader election.
"""

from collections.abc import Iterator

from dovetail.observe.metric_declaration import (
    CONDITION_DURATIONS,
    DURATIONS,
    PROMETHEUS_DEFAULT,
    QUEUE_DURATIONS,
    REQUEST_DURATIONS,
    RETRIES,
    UP_TO_A_MINUTE,
    Metric,
    counter,
    gauge,
    histogram,
)

_OBJECTS = 100_000  # series of one gauge with one row per object and condition
_CLASSES = "karpenter_k8s_aws_ec2nodeclass karpenter_kwok_sh_kwoknodeclass"
OBJECT_LABELS = {
    "nodeclaim": f"{_CLASSES} karpenter_sh_nodepool",
    "nodepool": "",
    "node": f"{_CLASSES} karpenter_sh_nodepool karpenter_sh_initialized",
    "ec2nodeclass": "",
    "kwoknodeclass": "",
}
"""The labels of an object that its condition metrics have, by kind: `/`, `.` and `-` of the label key become `_`."""


def _conditions(prefix: str, extra: str, buckets: tuple[float, ...], about: str) -> Iterator[Metric]:
    condition = f"type status reason {extra}"
    yield gauge(
        f"{prefix}_status_condition_count", f"namespace name {condition}", f"1 for each condition of {about}.", _OBJECTS
    )
    yield gauge(
        f"{prefix}_status_condition_current_status_seconds",
        f"namespace name {condition}",
        f"How long a condition of {about} has had its status.",
        _OBJECTS,
    )
    yield histogram(
        f"{prefix}_status_condition_transition_seconds",
        f"type status {extra}",
        f"How long a condition of {about} had the status that it left.",
        buckets,
    )
    yield counter(
        f"{prefix}_status_condition_transitions_total", condition, f"Conditions of {about} that got this status."
    )
    yield gauge(
        f"{prefix}_termination_current_time_seconds",
        f"namespace name {extra}",
        f"Time since the deletion of {about} that still exists.",
        _OBJECTS,
    )
    yield histogram(
        f"{prefix}_termination_duration_seconds", extra, f"From the deletion of {about} until it is gone.", buckets
    )


_OPERATOR = tuple(
    metric
    for kind, extra in OBJECT_LABELS.items()
    for metric in _conditions(
        f"operator_{kind}",
        extra,
        PROMETHEUS_DEFAULT if kind.endswith("class") else CONDITION_DURATIONS,
        f"a {kind}" if kind[0] != "e" else f"an {kind}",
    )
)
_DEPRECATED = tuple(
    _conditions("operator", "group kind", CONDITION_DURATIONS, "an object other than a node (deprecated in Karpenter)")
)
_RECONCILE = (
    counter(
        "controller_runtime_reconcile_total",
        "controller result",
        "Reconciliations, by result: success, requeue_after, requeue (after a conflict), error.",
    ),
    counter("controller_runtime_reconcile_errors_total", "controller", "Reconciliations that failed."),
    counter(
        "controller_runtime_reconcile_panics_total", "controller", "Reconciliations that raised an unexpected error."
    ),
    counter(
        "controller_runtime_terminal_reconcile_errors_total",
        "controller",
        "Failures that are not retried. All are retried, so this stays 0.",
    ),
    counter(
        "controller_runtime_reconcile_timeouts_total",
        "controller",
        "Reconciliations that timed out. Only API and provider calls have deadlines, so this stays 0.",
    ),
    counter(
        "controller_runtime_conversion_webhook_panics_total",
        "",
        "Panics of the conversion webhook. There is none, so this stays 0.",
    ),
    histogram(
        "controller_runtime_reconcile_time_seconds", "controller", "How long one reconciliation took.", UP_TO_A_MINUTE
    ),
    gauge("controller_runtime_max_concurrent_reconciles", "controller", "The number of workers."),
    gauge("controller_runtime_active_workers", "controller", "Workers that reconcile a key now."),
)
_QUEUE = "name controller"
_WORK_QUEUE = (
    gauge("workqueue_depth", f"{_QUEUE} priority", "Keys that are due and wait for a worker."),
    counter("workqueue_adds_total", _QUEUE, "Keys that were queued."),
    counter("workqueue_retries_total", _QUEUE, "Keys that were queued again after a failure."),
    histogram("workqueue_queue_duration_seconds", _QUEUE, "How long a due key waited for a worker.", QUEUE_DURATIONS),
    histogram("workqueue_work_duration_seconds", _QUEUE, "How long one key was processed.", QUEUE_DURATIONS),
    gauge("workqueue_unfinished_work_seconds", _QUEUE, "Sum of the time spent so far on keys in process."),
    gauge("workqueue_longest_running_processor_seconds", _QUEUE, "Time spent so far on the key that takes longest."),
)
_CLIENTS = (
    counter("client_go_request_total", "code method", "Requests to the API server, by HTTP status and method."),
    histogram(
        "client_go_request_duration_seconds",
        "verb group version kind subresource",
        "Duration of requests to the API server, without watches.",
        REQUEST_DURATIONS,
    ),
    gauge("leader_election_master_status", "name", "1 on the replica that leads."),
    counter(
        "leader_election_slowpath_total",
        "name",
        "Renewals that had to read the lease first. Every renewal writes at once, so this stays 0.",
    ),
)
_CALL = "service action code"
_AWS_SDK = (
    counter("aws_sdk_go_request_total", _CALL, "Requests to AWS, by error code; empty if it succeeded."),
    counter("aws_sdk_go_request_attempt_total", _CALL, "Attempts of requests to AWS, retries included."),
    histogram(
        "aws_sdk_go_request_duration_seconds", _CALL, "Duration of requests to AWS with all attempts.", DURATIONS
    ),
    histogram(
        "aws_sdk_go_request_attempt_duration_seconds",
        _CALL,
        "Duration of the attempts of a request to AWS, on average.",
        DURATIONS,
    ),
    histogram("aws_sdk_go_request_retry_count", _CALL, "Retries of a request to AWS.", RETRIES),
)
LIBRARY_METRICS = (*_OPERATOR, *_DEPRECATED, *_RECONCILE, *_WORK_QUEUE, *_CLIENTS, *_AWS_SDK)
