"""Metrics about changes, taken from watch events: condition transitions, deletions, and pods that are bound and run.

Only changes seen by this process are counted, so a restart counts nothing twice.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.model.kube_object import Condition
from dovetail.model.pod import Pod
from dovetail.runtime.informer import Informer


class ConditionMetrics:
    """Counts changes that informers report."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._first_seen: dict[str, datetime] = {}  # provisionable pods that do not run yet, by uid
        self._bound_pods: set[str] = set()  # those of `_first_seen` that are bound
        state = context.state
        followed: tuple[Informer[Any], ...] = (state.claims, state.nodepools, state.nodes)
        for informer in followed:
            self.follow(informer)
        if context.seen:
            state.pods.listen(self._pod_changed)

    def follow(self, informer: Informer[Any]) -> None:
        """Count condition transitions and the duration of deletions of this informer's kind."""
        kind = informer.kind.name.lower()

        def changed(before: Any, after: Any) -> None:
            if before is not None and after is not None:
                self._conditions_changed(kind, before.status.conditions, after.status.conditions)
            elif before is not None and before.metadata.deletion_timestamp is not None:
                took = self._since(before.metadata.deletion_timestamp)
                self._context.metrics.observe(f"operator_{kind}_termination_duration_seconds", took)

        if self._context.seen:
            informer.listen(changed)

    def _conditions_changed(self, kind: str, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        if before is after:
            return
        known = {condition.type: condition for condition in before}
        for condition in after:
            earlier = known.get(condition.type)
            if earlier is not None and earlier.status == condition.status:
                continue
            self._context.metrics.count(
                f"operator_{kind}_status_condition_transitions_total",
                type=condition.type,
                status=condition.status,
                reason=condition.reason,
            )
            began = earlier.last_transition_time if earlier is not None else None
            if began is not None and condition.last_transition_time is not None:
                self._context.metrics.observe(
                    f"operator_{kind}_status_condition_transition_seconds",
                    max(0.0, (condition.last_transition_time - began).total_seconds()),
                    type=condition.type,
                    status=condition.status,
                )

    def _since(self, at: datetime) -> float:
        return max(0.0, (self._context.clock.now() - at).total_seconds())

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._forget(before.metadata.uid)
            return
        uid, created_at = after.metadata.uid, after.metadata.creation_timestamp
        if after.provisionable and uid not in self._first_seen:
            self._first_seen[uid] = self._context.clock.now()
        if before is None or created_at is None:
            return
        seen_at = self._first_seen.get(uid)
        if after.node_name and not before.node_name:
            self._bound_pods.add(uid)
            self._observe_duration("bound", created_at, seen_at)
        if after.status.phase == "Running" and before.status.phase == "Pending":
            self._observe_duration("startup", created_at, seen_at)
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._first_seen.pop(uid, None)
        self._bound_pods.discard(uid)

    def _observe_duration(self, what: str, created_at: datetime, seen_at: datetime | None) -> None:
        observe = self._context.metrics.observe
        observe(f"karpenter_pods_{what}_duration_seconds", self._since(created_at))
        if seen_at is not None:
            observe(f"karpenter_pods_provisioning_{what}_duration_seconds", self._since(seen_at))

    def longest_waits(self) -> tuple[float, float]:
        """Return for how many seconds the longest waiting pod has been unbound, and has not been running."""
        unbound = (self._since(at) for uid, at in self._first_seen.items() if uid not in self._bound_pods)
        return max(unbound, default=0.0), max(map(self._since, self._first_seen.values()), default=0.0)


ReconcileListener = Callable[[str, str, float], None]


def count_reconciles(context: ControllerContext) -> ReconcileListener:
    """Return the listener that counts and times reconciliations."""

    def on_result(name: str, result: str, seconds: float) -> None:
        context.metrics.count("controller_runtime_reconcile_total", controller=name, result=result)
        context.metrics.observe("controller_runtime_reconcile_time_seconds", seconds, controller=name)

    return on_result
