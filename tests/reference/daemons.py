"""Which DaemonSets run on a node, and what they take of it."""

from collections.abc import Sequence

from msgspec import structs

from dovetail.model.catalog import InstanceType
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import PodSpec
from dovetail.model.requirements import Requirements
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, tolerates
from reference.affinity import narrowed, required_alternatives
from reference.amounts import Amounts, at_least_zero, less, requested, requested_by, total
from reference.run import Room, template_requirements

PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure")


def daemons_of_type(snapshot: Snapshot, pool: NodePool, instance_type: InstanceType) -> list[PodSpec]:
    """The daemons on a new node of the pool, of that type. Pods that narrow a draft further change nothing here."""
    node = template_requirements(pool).add(instance_type.requirements)
    taints = pool.spec.template.spec.taints
    defined = snapshot.well_known | frozenset(node)
    return [each for each in specs(snapshot) if _runs(each, taints, node, defined)]


def specs(snapshot: Snapshot) -> list[PodSpec]:
    """The next pod of every DaemonSet. Asked for every room, so those of the last snapshot are kept."""
    if not _LAST or _LAST[0][0] is not snapshot:
        _LAST[:] = [(snapshot, [spec_of(each, snapshot) for each in snapshot.daemon_sets])]
    return _LAST[0][1]


def spec_of(daemon_set: DaemonSet, snapshot: Snapshot) -> PodSpec:
    """As the newest pod it controls, ended and deleted ones apart, with the affinity of the template; else as that."""
    every = [*snapshot.unbound_pods, *(pod for node in snapshot.nodes for pod in node.pods)]
    its = [
        pod
        for pod in every
        for owner in pod.metadata.owner_references
        if owner.controller and owner.uid == daemon_set.metadata.uid and not (pod.terminal or pod.deleting)
    ]
    template = daemon_set.spec.template.spec
    if not its:
        return template
    newest = max(its, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
    return structs.replace(newest.spec, affinity=template.affinity)


_LAST: list[tuple[Snapshot, list[PodSpec]]] = []


def still_needed(snapshot: Snapshot, room: Room) -> Amounts:
    """What the room's DaemonSets expect, less what their pods there already have, resource by resource."""
    node = room.node
    expected = total(
        requested(each)
        for each in specs(snapshot)
        if _runs(each, node.taints, node.requirements, node.undefined_labels | frozenset(node.requirements))
    )
    running = requested_by(pod for pod in room.present if pod.daemon)
    return at_least_zero(less(expected, running))


def _tolerated_by_all(taint: Taint) -> bool:
    """The DaemonSet controller lets every daemon tolerate these."""
    anyway = {"NoExecute": ("not-ready", "unreachable"), "NoSchedule": ("unschedulable", *PRESSURES)}
    return taint.key.removeprefix("node.kubernetes.io/") in anyway.get(taint.effect, ()) and "/" in taint.key


def _runs(spec: PodSpec, taints: Sequence[Taint], node: Requirements, defined: frozenset[str]) -> bool:
    hard = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE and not _tolerated_by_all(taint)]
    return all(tolerates(spec.tolerations, taint) for taint in hard) and any(
        narrowed(node, alternative, defined) is not None for alternative in required_alternatives(spec)
    )
