"""Since when facts about pods, nodes and PodDisruptionBudgets hold, as the event log of the world has it.

Each table maps an object to the second at which the fact became true; an object for which it is not true is absent. A
fact that was interrupted starts again. Laws compare these instants with the instant of a decision.
"""

from typing import Any

from dovetail.sim.kinds import NODE, PDB, POD
from dovetail.sim.store import Record, Step

Plain = dict[str, Any]
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


class Since:
    """Four tables, updated with every change of the world."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}  # by uid: the pod is bound to a node
        self.guarded: dict[str, float] = {}  # by uid: the pod is bound, active and annotated do-not-disrupt
        self.guarded_nodes: dict[str, float] = {}  # by uid: the node is annotated do-not-disrupt
        self.exhausted: dict[str, float] = {}  # by uid: the PodDisruptionBudget allows no disruption

    def hear(self, step: Step) -> None:
        """Take in a change."""
        record, there = step.after, step.type != "DELETED"
        if record.resource == POD:
            bound = there and bool(record.node)
            _note(self.bound, record, step.at, holds=bound)
            _note(self.guarded, record, step.at, holds=bound and record.active and _annotated(record))
        elif record.resource == NODE:
            holds = (record.meta.get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"
            _note(self.guarded_nodes, record, step.at, holds=there and holds)
        elif record.resource == PDB:
            allowed = (record.plain.get("status") or {}).get("disruptionsAllowed")
            _note(self.exhausted, record, step.at, holds=there and allowed is not None and allowed <= 0)


def _note(table: dict[str, float], record: Record, at: float, *, holds: bool) -> None:
    if holds:
        table.setdefault(record.uid, at)
    else:
        table.pop(record.uid, None)


def _annotated(pod: Record) -> bool:
    """Whether the annotation protects at all; for how long is for the law to judge."""
    return bool((pod.meta.get("annotations") or {}).get(DO_NOT_DISRUPT, "false") != "false")
