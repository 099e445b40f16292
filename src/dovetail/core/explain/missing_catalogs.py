"""Explains what is known of NodePools whose instance types and prices could not be read: their nodes and obstacles.

Without instance types nothing can be planned for a NodePool, so its nodes are never disrupted. What would be disrupted
with them is not known, which is not the same as nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dovetail.core.disruption.candidates import node_refusals, pod_blocks
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import ClusterNode, Snapshot


@dataclass(frozen=True, slots=True)
class MissingCatalog:
    """NodePools whose instance types could not be read, for one and the same cause."""

    nodepools: tuple[str, ...]
    cause: str

    def __str__(self) -> str:
        noun = "NodePool" if len(self.nodepools) == 1 else "NodePools"
        return f"the instance types and prices of {noun} {', '.join(self.nodepools)} are not known: {self.cause}"


def missing_catalogs(snapshot: Snapshot, pools: Iterable[str] | None = None) -> list[MissingCatalog]:
    """The NodePools without instance types, or those of `pools`, grouped by cause."""
    wanted = set(snapshot.missing_catalogs) if pools is None else set(pools) & set(snapshot.missing_catalogs)
    by_cause: dict[str, list[str]] = {}
    for pool in sorted(wanted):
        by_cause.setdefault(snapshot.missing_catalogs[pool], []).append(pool)
    return [MissingCatalog(tuple(names), cause) for cause, names in by_cause.items()]


def ignored_nodepools(snapshot: Snapshot) -> dict[str, str]:
    """The NodePools that no provider serves, with the group and kind of their node class; empty without one."""
    return {
        name: f"{pool.node_class_ref.api_group}/{pool.node_class_ref.kind}" if pool.node_class_ref.kind else ""
        for name, pool in snapshot.nodepools.items()
        if name not in snapshot.catalogs and name not in snapshot.missing_catalogs and name not in snapshot.unread.pools
    }


def ignored_because(node_class: str) -> str:
    """Why a NodePool with this node class of `ignored_nodepools` is ignored."""
    return f"no provider manages node classes of {node_class}" if node_class else "it has no nodeClassRef"


def known_obstacles(snapshot: Snapshot) -> Iterator[tuple[ClusterNode, list[Refusal]]]:
    """The nodes of the NodePools without instance types, each with the obstacles that do not depend on these."""
    for node in snapshot.nodes:
        if node.managed and node.nodepool_name in snapshot.missing_catalogs:
            found = (*node_refusals(node, snapshot), *pod_blocks(node, snapshot))
            yield node, [each for each in found if each.code is not RefusalCode.NO_CATALOG]
