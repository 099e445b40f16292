"""Explains what node repair does about an unhealthy node: its conditions, when they are due, and what prevents it."""

from dataclasses import dataclass
from datetime import datetime

from dovetail.core.lifecycle.repair import (
    Breaker,
    RepairTerms,
    UnhealthyCondition,
    find_unhealthy_conditions,
    read_breaker,
)
from dovetail.model.nodepool import Repair
from dovetail.model.snapshot import ClusterNode, Snapshot


@dataclass(frozen=True, slots=True)
class RepairView:
    """The unhealthy conditions of a node, ordered by when they are due. `off` says why it is not repaired."""

    unhealthy_conditions: tuple[UnhealthyCondition, ...]
    breaker: Breaker
    off: str = ""

    @property
    def due_at(self) -> datetime | None:
        """When the node is replaced by force, unless the breaker is open; None if it is not repaired."""
        return self.unhealthy_conditions[0].due_at if not self.off else None


def explain_repair(node: ClusterNode, snapshot: Snapshot, terms: RepairTerms) -> RepairView | None:
    """What repair does about a node; None if it is healthy or not managed."""
    if node.node is None or node.claim is None:
        return None
    pool = snapshot.nodepools.get(node.nodepool_name)
    repair = terms.of(pool)
    unhealthy_conditions = find_unhealthy_conditions(node.node, repair or Repair(), terms.statements)
    if not unhealthy_conditions:
        return None
    peers = [each.node for each in snapshot.nodes if each.node is not None and _share_breaker(each, node)]
    off = ""
    if not terms.options.node_repair:
        off = "the feature gate NodeRepair is off"
    elif repair is None:
        off = f"nodepool {pool.name} has no repair block" if pool is not None else "it belongs to no nodepool"
    return RepairView(unhealthy_conditions, read_breaker(peers, terms.statements), off)


def _share_breaker(each: ClusterNode, node: ClusterNode) -> bool:
    return not node.nodepool_name or each.nodepool_name == node.nodepool_name
