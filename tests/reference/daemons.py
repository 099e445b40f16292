"""Which DaemonSets run on a node, and what they take of it."""

from collections.abc import Sequence

from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirements
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, tolerates
from dovetail.model.workload import DaemonSet
from reference.affinity import narrowed, required_alternatives
from reference.amounts import Amounts, at_least_zero, less, requested, requested_by, total
from reference.run import Room, template_requirements

PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure")


def daemons_of_type(snapshot: Snapshot, pool: NodePool, instance_type: InstanceType) -> list[DaemonSet]:
    """The daemons on a new node of the pool, of that type. Pods that narrow a draft further change nothing here."""
    node = template_requirements(pool).add(instance_type.requirements)
    taints = pool.spec.template.spec.taints
    return [each for each in snapshot.daemon_sets if _runs(each, taints, node, snapshot.well_known | frozenset(node))]


def still_needed(snapshot: Snapshot, room: Room) -> Amounts:
    """What the room's DaemonSets expect, less what their pods there already have, resource by resource."""
    node = room.node
    expected = total(
        requested(each.spec.template.spec)
        for each in snapshot.daemon_sets
        if _runs(each, node.taints, node.requirements, node.undefined_labels | frozenset(node.requirements))
    )
    running = requested_by(pod for pod in room.present if pod.daemon)
    return at_least_zero(less(expected, running))


def _tolerated_by_all(taint: Taint) -> bool:
    """The DaemonSet controller lets every daemon tolerate these."""
    anyway = {"NoExecute": ("not-ready", "unreachable"), "NoSchedule": ("unschedulable", *PRESSURES)}
    return taint.key.removeprefix("node.kubernetes.io/") in anyway.get(taint.effect, ()) and "/" in taint.key


def _runs(daemon: DaemonSet, taints: Sequence[Taint], node: Requirements, defined: frozenset[str]) -> bool:
    spec = daemon.spec.template.spec
    hard = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE and not _tolerated_by_all(taint)]
    return all(tolerates(spec.tolerations, taint) for taint in hard) and any(
        narrowed(node, alternative, defined) is not None for alternative in required_alternatives(spec)
    )
