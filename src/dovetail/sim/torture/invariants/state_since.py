"""Since when facts about pods, nodes and PodDisruptionBudgets hold, as the changes of the world say.

Each table maps an object to the second at which the fact became true; an object for which it is not true is absent. A
fact that was interrupted starts again. Invariants compare these instants with the instant of a decision.
"""

from collections import defaultdict, deque

from dovetail.sim.kubernetes.kinds import NODE, PDB, POD
from dovetail.sim.kubernetes.store import ObjectVersion, StoreChange
from dovetail.sim.torture.invariants.pods import is_daemon
from dovetail.sim.torture.invariants.readers import DO_NOT_DISRUPT, annotations

EVENTS_KEPT = 64


class StateSince:
    """The tables, updated with every change of the world."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}  # by uid: the pod is bound to a node
        self.stopped: dict[str, float] = {}  # by uid: the pod was told to stop
        self.guarded: dict[str, float] = {}  # by uid: the pod is bound, active and annotated do-not-disrupt
        self.annotated: dict[str, float] = {}  # by uid: when do-not-disrupt of a pod or node was last changed
        self.guarded_nodes: dict[str, float] = {}  # by uid: the node is annotated do-not-disrupt
        self.exhausted: dict[str, float] = {}  # by uid: the PodDisruptionBudget allows no disruption
        self.pod_ends: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=EVENTS_KEPT))
        """By name of the node: when pods of no DaemonSet ended there, or were told to."""

    def hear(self, step: StoreChange) -> None:
        """Take in a change."""
        record, there = step.after, step.type != "DELETED"
        if record.resource == POD:
            self._hear_pod(step)
        elif record.resource == NODE:
            self._note_annotation(step)
            holds = annotations(record.plain).get(DO_NOT_DISRUPT) == "true"
            _note(self.guarded_nodes, record, step.at, holds=there and holds)
        elif record.resource == PDB:
            allowed = (record.plain.get("status") or {}).get("disruptionsAllowed")
            _note(self.exhausted, record, step.at, holds=there and allowed is not None and allowed <= 0)

    def _hear_pod(self, step: StoreChange) -> None:
        record, there = step.after, step.type != "DELETED"
        bound = there and bool(record.node)
        self._note_annotation(step)
        _note(self.bound, record, step.at, holds=bound)
        _note(self.stopped, record, step.at, holds=there and record.deleting)
        _note(self.guarded, record, step.at, holds=bound and record.active and _annotated(record))
        was_active = step.before is not None and step.before.active
        if was_active and record.node and not (there and record.active) and not is_daemon(record):
            self.pod_ends[record.node].append(step.at)

    def _note_annotation(self, step: StoreChange) -> None:
        if step.type == "DELETED":
            self.annotated.pop(step.after.uid, None)
            return
        before = annotations(step.before.plain).get(DO_NOT_DISRUPT) if step.before is not None else None
        after = annotations(step.after.plain).get(DO_NOT_DISRUPT)
        if step.before is not None and before != after:
            self.annotated[step.after.uid] = step.at


def _note(table: dict[str, float], record: ObjectVersion, at: float, *, holds: bool) -> None:
    if holds:
        table.setdefault(record.uid, at)
    else:
        table.pop(record.uid, None)


def _annotated(pod: ObjectVersion) -> bool:
    """Whether the annotation protects at all; for how long is for the invariant to judge."""
    return bool(annotations(pod.plain).get(DO_NOT_DISRUPT, "false") != "false")
