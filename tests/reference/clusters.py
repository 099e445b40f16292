"""Random clusters that use every feature, small enough that features meet. The same seed gives the same cluster."""

from dataclasses import dataclass, replace

from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.labels import HOSTNAME
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from reference.chance.catalog import some_pools, some_types
from reference.chance.dice import KNOWN, NAMESPACES, Dice, throw
from reference.chance.disks import CLAIMS, some_storage
from reference.chance.nodes import some_nodes
from reference.chance.workloads import (
    NOON,
    Workload,
    bound,
    daemon_pod,
    light,
    replica,
    some_daemon_sets,
    some_workload,
)

STATES = ("running",) * 12 + ("ended", "leaving", "mirror") + ("stateful leaving", "daemon") * 2


@dataclass(frozen=True)
class Case:
    """A question to the solver."""

    snapshot: Snapshot
    pods: tuple[Pod, ...]
    pools: tuple[NodePool, ...]
    respect_preferences: bool = True
    standing: bool = False


def random_cluster(seed: int, *, size: str = "small") -> Case:
    """The cluster of that seed. `small` is for many cases, `large` for features in greater numbers."""
    dice = throw(seed, size)
    types = some_types(dice)
    pools = some_pools(dice, types)
    daemon_sets = some_daemon_sets(dice)
    workloads = [some_workload(dice, CLAIMS) for _ in range(dice.between(1, 4 if size == "small" else 6))]
    nodes = [
        _with_daemons(dice, _inhabited(dice, node, workloads), daemon_sets) for node in some_nodes(dice, pools, types)
    ]
    waiting = [
        replica(dice, workload) for workload in workloads for _ in range(dice.between(1, 4 if size == "small" else 5))
    ]
    snapshot = Snapshot(
        at=NOON,
        nodes=tuple(nodes),
        unbound_pods=(*waiting, *_nominated(dice, nodes, workloads)),
        nodepools={pool.name: pool for pool in pools},
        daemon_sets=daemon_sets,
        catalogs={pool.name: _catalog(dice, types) for pool in pools},
        well_known=KNOWN,
        storage=some_storage(dice, [node.name for node in nodes if HOSTNAME in node.labels]),
        namespaces=NAMESPACES,
    )
    pods = [*waiting, *_displaced(dice, nodes)]
    dice.random.shuffle(pods)
    return Case(snapshot, tuple(pods), tuple(usable_pools(snapshot)), not dice.maybe(0.15))


def _catalog(dice: Dice, types: tuple) -> tuple:
    return types if dice.maybe(0.7) else tuple(dice.some(types))


def _inhabited(dice: Dice, node: ClusterNode, workloads: list[Workload]) -> ClusterNode:
    """The node with pods in every state on it; claims without a node have none."""
    if node.node is None:
        return node
    pods = [_inhabitant(dice, node.node.name, workloads) for _ in range(dice.pick((0, 1, 1, 2, 3)))]
    return replace(node, pods=tuple(pods))


def _with_daemons(dice: Dice, node: ClusterNode, daemon_sets: tuple[DaemonSet, ...]) -> ClusterNode:
    """The node with pods of some DaemonSets on it."""
    if node.node is None:
        return node
    here = [daemon_pod(dice, each, node.node.name) for each in daemon_sets if dice.maybe(0.3)]
    return replace(node, pods=(*node.pods, *here)) if here else node


def _inhabitant(dice: Dice, node: str, workloads: list[Workload]) -> Pod:
    workload = dice.pick(workloads)
    pod = replica(dice, light(workload) if dice.maybe(0.9) else workload)
    state = dice.pick(STATES)
    match state:
        case "ended":
            return bound(pod, node, dice.pick(("Succeeded", "Failed")))
        case "leaving":
            return bound(pod, node, deleting=True)
        case "stateful leaving":
            return bound(pod, node, deleting=True, owner="StatefulSet")
        case "daemon":
            return bound(pod, node, owner="DaemonSet")
        case "mirror":
            return bound(pod, node, owner="Node")
    return bound(pod, node)


def _nominated(dice: Dice, nodes: list[ClusterNode], workloads: list[Workload]) -> list[Pod]:
    if not dice.maybe(0.15):
        return []
    return [replica(dice, light(dice.pick(workloads)), nominated_node_name=dice.pick(nodes).name)]


def _displaced(dice: Dice, nodes: list[ClusterNode]) -> list[Pod]:
    """Pods of nodes on their way out, and now and then one of a node that stays."""
    going = [pod for node in nodes if node.deleting for pod in node.pods if pod.reschedulable]
    staying = [pod for node in nodes if not node.deleting for pod in node.pods if pod.reschedulable]
    return [*going, dice.pick(staying)] if staying and dice.maybe(0.15) else going
