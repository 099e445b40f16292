"""The problem: a snapshot in the form that the solver computes with.

Existing nodes are rows and resources are columns, so free resources are a matrix of int64, and whether a pod fits is
a comparison of integers. Pods are grouped by shape. For each distinct need and requirement there is an ascending
array of candidate rows: labels and taints match, and the pod fitted when the problem was built. NodePools are
instance type tables.

Invariants: a run never changes the problem (`solver_state` holds its changes). During a run rows only fill up, so a
row that is not a candidate never becomes one. A row that is overdrawn in any resource has -1 of all of them and takes
no pod.

`replace_room` updates one row between runs and reports the candidate arrays it joined or left. Building costs O(pods
+ nodes x resources), and O(nodes) for each distinct requirement.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from dovetail.core.scheduling.daemon_overhead import Daemon, read_daemons
from dovetail.core.scheduling.draft_options import DraftOptions, root_options
from dovetail.core.scheduling.existing_nodes import ExistingNodes, Mask, hard
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable, build_table
from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.core.scheduling.nodepool_limits import RemainingLimits
from dovetail.core.scheduling.pod_shapes import NodePods, PodIndex, PodShape, left_of
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.resource_vector import Need
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import Toleration, untolerated

SOFT = "PreferNoSchedule"

Asked = tuple[tuple[Toleration, ...], bool, tuple[Alternative, ...], tuple[Alternative, ...], Need]


class Problem:
    """A snapshot as the solver needs it.

    `pods_to_reschedule` are the pods to place; they do not count on the nodes they are bound to now.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pods_to_reschedule: Sequence[Pod],
        pools: Sequence[NodePool],
        *,
        standing: bool = False,
        register: PodIndex | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.existing_nodes = ExistingNodes(snapshot.nodes, standing=standing)
        self._pods_to_reschedule = frozenset(pod.metadata.uid for pod in pods_to_reschedule)
        self._moving_from = frozenset(pod.node_name for pod in pods_to_reschedule if pod.node_name)
        self.daemon_sets = read_daemons(snapshot)
        self._daemons = self.daemon_sets.each
        nominated = self._settle_in(pods_to_reschedule, register or PodIndex())
        self.free = self._free(nominated)
        self.free_matrix = np.array(self.free, dtype=np.int64).reshape(len(self.existing_nodes), len(self.units.names))
        self.ports = self._ports()
        self.attached = self._attached()
        self.type_tables = tuple(self._type_tables(pools))
        self.limits = RemainingLimits.of(snapshot)
        self.soft_taints = self.existing_nodes.has_soft_taints or any(
            taint.effect == SOFT for pool in pools for taint in pool.spec.template.spec.taints
        )
        self._candidates: dict[Asked, array[int]] = {}
        self._candidates_by_stance: dict[PreferenceLevel, array[int]] = {}
        self._roots = {type_table: root_options(type_table) for type_table in self.type_tables}

    def _settle_in(self, pods_to_reschedule: Sequence[Pod], register: PodIndex) -> list[tuple[Pod, PodShape]]:
        """Read the pods on each node and the pods to place; returns pods that the scheduler nominated to a node."""
        unbound = [pod for pod in self.snapshot.unbound_pods if pod.status.nominated_node_name]
        node_pods = register.node_pods(self.snapshot, self.existing_nodes.nodes, [*pods_to_reschedule, *unbound])
        nominated = self._read(pods_to_reschedule, unbound, node_pods)
        measured = register.measured(node_pods, self._names())
        if measured is not node_pods:
            nominated = self._read(pods_to_reschedule, unbound, measured)
        self.units = measured.units
        for shape in self.kinds:
            shape.need = self.units.need(shape.requests)
        return nominated

    def _read(
        self, pods_to_reschedule: Sequence[Pod], unbound: Sequence[Pod], node_pods: NodePods
    ) -> list[tuple[Pod, PodShape]]:
        self._lodgings = node_pods
        self.shapes = shapes = node_pods.shapes
        self.pods_to_reschedule = tuple((pod, shapes.of(pod)) for pod in pods_to_reschedule)
        self.bound_pods = [self._bound_pods(node) for node in self.existing_nodes.nodes]
        nominated = [(pod, shapes.of(pod)) for pod in unbound if pod.metadata.uid not in self._pods_to_reschedule]
        self.kinds = tuple(
            dict.fromkeys([shape for _, shape in chain(self.pods_to_reschedule, *self.bound_pods, nominated)])
        )
        return nominated

    def _bound_pods(self, node: ClusterNode) -> list[tuple[Pod, PodShape]]:
        """Pods that use resources of a node and are not to be placed."""
        bound_pods = self._lodgings.bound_pods(node)
        if node.name in self._moving_from:
            return [each for each in bound_pods if each[0].metadata.uid not in self._pods_to_reschedule]
        return bound_pods

    def _names(self) -> set[str]:
        names = {name for shape in self.kinds for name in shape.requests}
        return names | {name for daemon in self._daemons for name in daemon.requests}

    def _free(self, nominated: Sequence[tuple[Pod, PodShape]]) -> list[list[int]]:
        self._expected = self._daemons_expected()
        free = [self._unclaimed(row) for row in range(len(self.existing_nodes))]
        for pod, shape in nominated:
            row = self.existing_nodes.row_by_name.get(pod.status.nominated_node_name, -1)
            if row >= 0:
                for column, amount in shape.need:
                    free[row][column] -= amount
        return [self._or_nothing(left) for left in free]

    def _or_nothing(self, left: list[int]) -> list[int]:
        return left if min(left, default=0) >= 0 else [-1] * len(left)

    def _unclaimed(self, row: int) -> list[int]:
        """What the pods on a node leave free, less what daemons will need beyond those already there."""
        node = self.existing_nodes.nodes[row]
        if self.snapshot.unread_on(node) is not None:
            return [-1] * len(self.units.names)  # what is left of it is not known
        some_move = node.name in self._moving_from
        left = left_of(node, self.bound_pods[row], self.units) if some_move else self._lodgings.left(node)
        coming = list(self._expected[row]) if self._daemons else []
        for pod, shape in self.bound_pods[row] if coming else ():
            if pod.daemon:
                for column, amount in shape.need:
                    coming[column] -= amount
        for column, amount in enumerate(coming):
            if amount > 0:
                left[column] -= amount
        return left

    def _daemons_expected(self) -> list[list[int]]:
        """What the daemons of each node need together; an empty list if there are no DaemonSets."""
        if not self._daemons:
            return []
        expected = [[0] * len(self.units.names) for _ in self.existing_nodes.nodes]
        for daemon in self._daemons:
            need = self.units.need(daemon.requests)
            for row in np.flatnonzero(self._runs_on(daemon)).tolist():
                for column, amount in need:
                    expected[row][column] += amount
        return expected

    def _runs_on(self, daemon: Daemon) -> Mask:
        fits = self.existing_nodes.tolerated(daemon.tolerations, soft=True) & self.existing_nodes.meeting(
            daemon.alternatives
        )
        for row in self.existing_nodes.undecided:
            node = self.existing_nodes.nodes[row]
            fits[row] = untolerated(daemon.tolerations, hard(node.taints)) is None and any(
                each.fits(node.requirements, node.undefined_labels | frozenset(node.requirements))
                for each in daemon.alternatives
            )
        return fits

    def _ports(self) -> dict[int, frozenset[HostPort]]:
        if not any(shape.ports for shape in self.kinds):
            return {}
        return {row: ports for row in range(len(self.existing_nodes)) if (ports := self.ports_on(row))}

    def ports_on(self, row: int) -> frozenset[HostPort]:
        """The host ports in use on a node."""
        return frozenset(port for _, shape in self.bound_pods[row] for port in shape.ports)

    def _attached(self) -> dict[int, frozenset[tuple[str, str]]]:
        if not any(shape.volumes.attachments for shape in self.kinds):
            return {}
        return {row: used for row in range(len(self.existing_nodes)) if (used := self.attached_on(row))}

    def attached_on(self, row: int) -> frozenset[tuple[str, str]]:
        """The (driver, claim) pairs in use on a node."""
        return frozenset(each for _, shape in self.bound_pods[row] for each in shape.volumes.attachments)

    def _type_tables(self, pools: Sequence[NodePool]) -> Iterable[InstanceTypeTable]:
        for pool in pools:
            type_table = build_table(pool, self.snapshot, self.daemon_sets, self.units)
            if type_table.choices:
                yield type_table

    def root(self, type_table: InstanceTypeTable) -> DraftOptions:
        """Where every draft of a NodePool starts while its limits leave everything."""
        return self._roots[type_table]

    def standing(self, shape: PodShape, level: PreferenceLevel) -> Mask:
        """The rows whose taints and labels suit a pod, whether or not it fits."""
        return (
            self.existing_nodes.tolerated(level.tolerations, soft=level.soft)
            & self.existing_nodes.meeting(level.alternatives)
            & self.existing_nodes.meeting(shape.volumes.on_rooms)
        )

    def candidates(self, shape: PodShape, level: PreferenceLevel) -> Sequence[int]:
        """The candidate rows of a pod, ascending: taints and labels suit it, and it fits before any is placed."""
        found = self._candidates_by_stance.get(level)
        if found is None:
            found = self._candidates_by_stance[level] = self._find_candidates(shape, level)
        return found

    def _find_candidates(self, shape: PodShape, level: PreferenceLevel) -> "array[int]":
        """Shapes that ask for the same share one: there may be thousands, each as long as the cluster is large."""
        asked = (level.tolerations, level.soft, level.alternatives, shape.volumes.on_rooms, shape.need)
        found = self._candidates.get(asked)
        if found is None:
            suits = self.standing(shape, level)
            for column, amount in shape.need:
                suits = suits & (self.free_matrix[:, column] >= amount)
            found = self._candidates[asked] = array("i", np.flatnonzero(suits).astype(np.intc).tobytes())
        return found

    def replace_room(self, row: int, node: ClusterNode, *, gone: bool = False) -> None:
        """Other pods are on a room; everything else about it is as before. Lists of candidates follow in place.

        A node that is `gone` keeps its row, with nothing free.
        """
        before = self.free[row]
        self.existing_nodes.replace(row, node)
        self.bound_pods[row] = self._bound_pods(node)
        for _, shape in self.bound_pods[row]:
            shape.need = shape.need or self.units.need(shape.requests)
        self.free[row] = [-1] * len(before) if gone else self._or_nothing(self._unclaimed(row))
        self.free_matrix[row] = self.free[row]
        for asked, found in self._candidates.items():
            had, has = (_holds(free, asked[-1]) for free in (before, self.free[row]))
            if had is not has and self._may_stand(row, asked):
                _move_on_list(row, found, draft_fit=has)

    def measures(self, pod: Pod, shape: PodShape) -> bool:
        """Whether a shape requests no new resource, and its selectors read no new label."""
        return all(name in self.units.column for name in shape.requests) and self.shapes.sees(pod)

    def _may_stand(self, row: int, asked: Asked) -> bool:
        tolerations, soft, alternatives, on_rooms, _ = asked
        existing_nodes = self.existing_nodes
        return bool(
            existing_nodes.tolerated(tolerations, soft=soft)[row]
            and existing_nodes.meeting(alternatives)[row]
            and existing_nodes.meeting(on_rooms)[row]
        )

    def placed(self, row: int) -> Iterable[PodShape]:
        """The shapes of the pods on a node that count for topology."""
        return (shape for pod, shape in self.bound_pods[row] if not pod.deleting)


def _holds(free: Sequence[int], need: Need) -> bool:
    return all(free[column] >= amount for column, amount in need)


def _move_on_list(row: int, found: "array[int]", *, draft_fit: bool) -> None:
    position = bisect_left(found, row)
    if draft_fit:
        found.insert(position, row)
    else:
        found.pop(position)
