"""Metrics of work queues and reconciliations, with the names of controller-runtime.

Counters of the queues are kept as numbers by the `Reconciler` and transferred at each scrape.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from dovetail.ports.metrics import Metrics, Row
from dovetail.runtime.reconciler import Reconciler, ReconcileResult

_GAUGES = (
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_active_workers",
    "workqueue_depth",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
)
_ALWAYS_ZERO = ("reconcile_timeouts_total", "terminal_reconcile_errors_total")


class ReconcilerMetrics:
    """Follows all reconcilers."""

    def __init__(self, metrics: Metrics, reconcilers: Iterable[Reconciler[Any]]) -> None:
        self._metrics = metrics
        self._reconcilers = tuple(reconcilers)
        self._transferred: dict[int, tuple[int, int]] = {}  # adds and retries, by position
        for each in self._reconcilers:
            for name in (*_ALWAYS_ZERO, "reconcile_errors_total", "reconcile_panics_total"):
                metrics.count(f"controller_runtime_{name}", 0, controller=each.name)

    def listen(self) -> None:
        """Count and time every reconciliation from now on."""
        for each in self._reconcilers:
            each.on_result = self._ended

    def _ended(self, result: ReconcileResult) -> None:
        count, observe = self._metrics.count, self._metrics.observe
        queue = {"name": result.name, "controller": result.name}
        count("controller_runtime_reconcile_total", controller=result.name, result=result.outcome)
        if result.outcome == "error":
            count("controller_runtime_reconcile_errors_total", controller=result.name)
            if result.unexpected:
                count("controller_runtime_reconcile_panics_total", controller=result.name)
        observe("controller_runtime_reconcile_time_seconds", result.seconds, controller=result.name)
        observe("workqueue_queue_duration_seconds", result.queued_seconds, **queue)
        observe("workqueue_work_duration_seconds", result.seconds, **queue)

    def refresh(self) -> None:
        """Compute the gauges, and transfer the counters. Reconcilers with the same name are added up."""
        gauges: dict[str, defaultdict[Row, float]] = {name: defaultdict(float) for name in _GAUGES}
        workers, active, depth, unfinished, longest = gauges.values()
        for number, each in enumerate(self._reconcilers):
            name, running = each.name, each.running_seconds()
            workers[name,] += each.workers
            active[name,] += len(running)
            depth[name, name, "0"] += each.depth
            unfinished[name, name] += sum(running)
            longest[name, name] = max(longest[name, name], *running, 0.0)
            adds, retries = self._transferred.get(number, (0, 0))
            queue = {"name": name, "controller": name}
            self._metrics.count("workqueue_adds_total", each.adds - adds, **queue)
            self._metrics.count("workqueue_retries_total", each.retries - retries, **queue)
            self._transferred[number] = each.adds, each.retries
        for metric, rows in gauges.items():
            self._metrics.show(metric, rows)
