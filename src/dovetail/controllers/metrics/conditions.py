"""Metrics and events about the conditions and the deletion of objects, as in Karpenter (operatorpkg).

Changes come from watch events, and only those that this process sees count: after a restart the first state of an
object is no transition. Gauges have one row per object and condition, and each metric has a deprecated twin without the
kind in its name, except for nodes. The rows of an object are cached by the identity of the immutable object.

With `--node-metrics pool` the gauges do not name objects: conditions are counted, and durations are the longest ones.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dovetail.controllers.context import ControllerContext
from dovetail.model.kinds import NODE, Kind
from dovetail.model.kube_object import Condition, Key
from dovetail.model.labels import INITIALIZED, NODEPOOL
from dovetail.ports.cluster import Notice
from dovetail.ports.metrics import Row, label_text
from dovetail.runtime.concurrency import in_turns
from dovetail.runtime.informer import Informer

_CLASS_KEYS = ("karpenter.k8s.aws/ec2nodeclass", "karpenter.kwok.sh/kwoknodeclass")
_LABEL_KEYS: Mapping[str, tuple[str, ...]] = {
    "nodeclaim": (*_CLASS_KEYS, NODEPOOL),
    "node": (*_CLASS_KEYS, NODEPOOL, INITIALIZED),
}
"""Labels of an object that its metrics have, by kind."""
COUNT = "status_condition_count"
CURRENT = "status_condition_current_status_seconds"
DELETING = "termination_current_time_seconds"
Gauges = dict[str, defaultdict[Row, float]]


@dataclass(frozen=True, slots=True)
class _ObjectRows:
    """The rows of one object, each with that of the deprecated twin."""

    item: Any
    conditions: tuple[tuple[tuple[Row, Row], float | None], ...]  # with the time of the last transition
    deletion: tuple[tuple[Row, Row], float] | None


def _metric_labels(kind: str, item: Any) -> dict[str, str]:
    labels = item.metadata.labels
    return {key.translate(_UNDERSCORES): labels.get(key, "") for key in _LABEL_KEYS.get(kind, ())}


_UNDERSCORES = str.maketrans("/.-", "___")


class ConditionMetrics:
    """Follows kinds that have conditions."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._followed: list[Informer[Any]] = []
        self._rows: dict[str, dict[Key, _ObjectRows]] = {}  # by kind
        state = context.state
        followed: tuple[Informer[Any], ...] = (state.claims, state.nodepools, state.nodes)
        for informer in followed:
            self.follow(informer)

    def follow(self, informer: Informer[Any]) -> None:
        """Report the conditions and deletions of this informer's kind."""
        self._followed.append(informer)

        def changed(before: Any, after: Any) -> None:
            if before is not None and after is not None:
                self._conditions_changed(informer.kind, before, after)
                self._finalized(informer.kind, before, after.metadata.finalizers)
            elif before is not None:
                self._deleted(informer.kind, before)

        if self._context.seen and not self._context.settings.disable_cluster_state_observability:
            informer.listen(changed)

    def _deleted(self, kind: Kind[Any], before: Any) -> None:
        self._finalized(kind, before, ())
        if before.metadata.deletion_timestamp is not None:
            took = max(0.0, (self._context.clock.now() - before.metadata.deletion_timestamp).total_seconds())
            self._observe(kind, before, "termination_duration_seconds", took)

    def _finalized(self, kind: Kind[Any], before: Any, remaining: tuple[str, ...]) -> None:
        for finalizer in before.metadata.finalizers:
            if finalizer not in remaining:
                self._publish(kind, before, "Finalized", f"Finalizer {finalizer} was removed", (finalizer,))

    def _conditions_changed(self, kind: Kind[Any], before: Any, after: Any) -> None:
        if before.status.conditions is after.status.conditions:
            return
        known = {condition.type: condition for condition in before.status.conditions}
        for condition in after.status.conditions:
            earlier = known.get(condition.type)
            if earlier is None or earlier.status != condition.status:
                self._transitioned(kind, after, earlier, condition)

    def _transitioned(self, kind: Kind[Any], item: Any, earlier: Condition | None, condition: Condition) -> None:
        new = {"type": condition.type, "status": condition.status, "reason": condition.reason}
        name, count = kind.name.lower(), self._context.metrics.count
        metric = "status_condition_transitions_total"
        count(f"operator_{name}_{metric}", **new, **_metric_labels(name, item))
        if kind is not NODE:
            count(f"operator_{metric}", **new, group=kind.group, kind=kind.name)
        if earlier is None:
            return
        began, ended = earlier.last_transition_time, condition.last_transition_time
        if began is not None and ended is not None:
            left = {"type": earlier.type, "status": earlier.status}
            took = max(0.0, (ended - began).total_seconds())
            self._observe(kind, item, "status_condition_transition_seconds", took, **left)
        message = f"{condition.type} changed from {earlier.status} to {condition.status}, reason {condition.reason}"
        message += f": {condition.message}" if condition.message else ""
        self._publish(kind, item, condition.type, message, (condition.status, str(ended)))

    def _publish(self, kind: Kind[Any], item: Any, reason: str, message: str, dedupe: tuple[str, ...]) -> None:
        if kind is not NODE or NODEPOOL in item.metadata.labels:  # the kubelet reports on other nodes
            notice = Notice(kind, item, reason, message, dedupe=(item.metadata.uid, *dedupe))
            self._context.recorder.publish(notice)

    def _observe(self, kind: Kind[Any], item: Any, metric: str, seconds: float, **labels: str) -> None:
        name, observe = kind.name.lower(), self._context.metrics.observe
        observe(f"operator_{name}_{metric}", seconds, **labels, **_metric_labels(name, item))
        if kind is not NODE:
            observe(f"operator_{metric}", seconds, **labels, group=kind.group, kind=kind.name)

    async def refresh(self, now: datetime) -> None:
        """Compute the gauges."""
        deprecated = _gauges()
        for informer in self._followed:
            own = _gauges()
            async for rows in self._object_rows(informer):
                _add_rows(rows, 0, own, now.timestamp())
                if informer.kind is not NODE:
                    _add_rows(rows, 1, deprecated, now.timestamp())
            self._show(f"operator_{informer.kind.name.lower()}", own)
        self._show("operator", deprecated)

    def _show(self, prefix: str, gauges: Gauges) -> None:
        for metric, rows in gauges.items():
            self._context.metrics.show(f"{prefix}_{metric}", rows)

    async def _object_rows(self, informer: Informer[Any]) -> AsyncIterator[_ObjectRows]:
        known, found = self._rows.get(informer.kind.name, {}), {}
        async for key, item in in_turns(tuple(informer.items.items())):
            rows = known.get(key)
            if rows is None or rows.item is not item:
                rows = self._format(informer.kind, item)
            found[key] = rows
            yield rows
        self._rows[informer.kind.name] = found

    def _format(self, kind: Kind[Any], item: Any) -> _ObjectRows:
        meta, by_name = item.metadata, self._context.settings.node_metrics == "node"
        name = {"namespace": meta.namespace, "name": meta.name} if by_name else {}
        own, twin = _metric_labels(kind.name.lower(), item), {"group": kind.group, "kind": kind.name}
        conditions = []
        for each in item.status.conditions:
            condition = {**name, "type": each.type, "status": each.status, "reason": each.reason}
            at = each.last_transition_time.timestamp() if each.last_transition_time is not None else None
            conditions.append((_both(condition, own, twin), at))
        deleted_at = meta.deletion_timestamp
        deletion = (_both(name, own, twin), deleted_at.timestamp()) if deleted_at is not None else None
        return _ObjectRows(item, tuple(conditions), deletion)


def _both(labels: dict[str, str], own: dict[str, str], twin: dict[str, str]) -> tuple[Row, Row]:
    return (label_text({**labels, **own}),), (label_text({**labels, **twin}),)


def _gauges() -> Gauges:
    return {metric: defaultdict(float) for metric in (COUNT, CURRENT, DELETING)}


def _add_rows(rows: _ObjectRows, which: int, gauges: Gauges, now: float) -> None:
    """Add the rows of one object, or those of its deprecated twins."""
    count, current, deleting = gauges[COUNT], gauges[CURRENT], gauges[DELETING]
    for both, at in rows.conditions:
        row = both[which]
        count[row] += 1.0
        if at is not None:
            current[row] = max(current[row], now - at)
    if rows.deletion is not None:
        row = rows.deletion[0][which]
        deleting[row] = max(deleting[row], now - rows.deletion[1])
