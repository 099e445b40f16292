"""Can this node go? The slow answer, for every node, each from scratch."""

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodepool import NodePool
from dovetail.model.snapshot import ClusterNode, Snapshot
from reference.run import is_room, open_run
from reference.solver import DraftAnswer, finish


@dataclass(frozen=True)
class SweepAnswer:
    """`delete`, `replace` with a draft, or `stay`."""

    kind: str
    draft: DraftAnswer | None = None


def removal_simulation(snapshot: Snapshot, pools: Sequence[NodePool]) -> dict[str, SweepAnswer]:
    """The answer for every managed, initialised node that is not on its way out."""
    return {
        node.name: removal(snapshot, node, pools)
        for node in snapshot.nodes
        if node.managed and node.initialized and is_room(node)
    }


def removal(snapshot: Snapshot, node: ClusterNode, pools: Sequence[NodePool]) -> SweepAnswer:
    """Place the node's pods elsewhere, with at most one draft, cheaper than the node.

    The node does not count against the limits of its pool: the draft comes in exchange for it.
    """
    pods = [pod for pod in node.pods if pod.reschedulable]
    run = open_run(snapshot, pods, pools, without=node.name)
    run.removed = node.name
    run.price_ceiling = price(snapshot, node)
    run.max_drafts = 0 if run.price_ceiling is None else 1
    answer = finish(run, pods)
    if answer.refused:
        return SweepAnswer("stay")
    return SweepAnswer("replace", answer.drafts[0]) if answer.drafts else SweepAnswer("delete")


def price(snapshot: Snapshot, node: ClusterNode) -> float | None:
    """The price of the offering the node's labels name; None if there is none such."""
    for instance_type in snapshot.catalogs.get(node.nodepool_name, ()):
        if instance_type.name == node.labels.get(INSTANCE_TYPE):
            for offering in instance_type.offerings:
                if offering.zone == node.labels.get(ZONE) and offering.capacity_type == node.labels.get(CAPACITY_TYPE):
                    return offering.price
    return None
