"""The problem: a snapshot in the form that the solver computes with.

Existing nodes are rows and resources are columns, so free resources are a matrix of int64, and whether a pod fits is
a comparison of integers. Pods are grouped by shape. For each distinct size class and requirement there is an ascending
array of candidate rows: labels and taints match, and the least need of the size class fitted when the problem was
built. NodePools are instance type tables.

Invariants: a run never changes the problem (`solver_state` holds its changes). During a run rows only fill up, so a
row that is not a candidate never becomes one. A row that is overdrawn in any resource has -1 of all of them and takes
no pod.

`replace_node` updates one row between runs, and the candidate arrays with it. Building costs O(pods + nodes x
resources), and O(nodes) for each distinct requirement.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain, islice

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
from dovetail.core.scheduling.resource_vector import Need, fits
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import PREFER_NO_SCHEDULE, Toleration, untolerated

CandidateKey = tuple[tuple[Toleration, ...], bool, tuple[Alternative, ...], tuple[Alternative, ...], Need]
"""What decides the candidate rows: tolerations, soft taints tolerated, node and volume alternatives, size class."""


class Problem:
    """A snapshot as the solver needs it.

    `pods_to_reschedule` are the pods to place; they do not count on the nodes they are bound to now. With
    `include_deleting`, nodes that are being deleted are rows that take no pods. `register` is the index of an earlier
    problem, which saves reading unchanged nodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pods_to_reschedule: Sequence[Pod],
        pools: Sequence[NodePool],
        *,
        include_deleting: bool = False,
        register: PodIndex | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.existing_nodes = ExistingNodes(snapshot.nodes, include_deleting=include_deleting)
        self._pods_to_reschedule = frozenset(pod.metadata.uid for pod in pods_to_reschedule)
        self._nodes_losing_pods = frozenset(pod.node_name for pod in pods_to_reschedule if pod.node_name)
        self.daemon_sets = read_daemons(snapshot)
        self._daemons = self.daemon_sets.each
        nominated = self._read_pods(pods_to_reschedule, register or PodIndex())
        self.free = self._free(nominated)
        self.free_matrix = np.array(self.free, dtype=np.int64).reshape(len(self.existing_nodes), len(self.units.names))
        self.ports = self._ports()
        self.attached = self._attached()
        self.type_tables = tuple(self._type_tables(pools))
        self.limits = RemainingLimits.of(snapshot)
        self.soft_taints = self.existing_nodes.has_soft_taints or any(
            taint.effect == PREFER_NO_SCHEDULE for pool in pools for taint in pool.spec.template.spec.taints
        )
        self._candidates: dict[CandidateKey, array[int]] = {}
        self._candidates_by_level: dict[tuple[PreferenceLevel, Need], array[int]] = {}
        self._groups: dict[CandidateKey, int] = {}
        self._roots = {type_table: root_options(type_table) for type_table in self.type_tables}

    def _read_pods(self, pods_to_reschedule: Sequence[Pod], register: PodIndex) -> list[tuple[Pod, PodShape]]:
        """Read the pods on each node and the pods to place; return the pods that the scheduler nominated to a node."""
        unbound = [pod for pod in self.snapshot.unbound_pods if pod.status.nominated_node_name]
        node_pods = register.node_pods(self.snapshot, self.existing_nodes.nodes, [*pods_to_reschedule, *unbound])
        nominated = self._assign_shapes(pods_to_reschedule, unbound, node_pods)
        with_columns = register.with_resources(node_pods, self._requested_resources())
        if with_columns is not node_pods:
            nominated = self._assign_shapes(pods_to_reschedule, unbound, with_columns)
        self.units = with_columns.units
        for shape in self.all_shapes:
            if not shape.need:
                shape.measure(self.units)
        return nominated

    def _assign_shapes(
        self, pods_to_reschedule: Sequence[Pod], unbound: Sequence[Pod], node_pods: NodePods
    ) -> list[tuple[Pod, PodShape]]:
        self._node_pods = node_pods
        self.shapes = shapes = node_pods.shapes
        self.pods_to_reschedule = tuple((pod, shapes.of(pod)) for pod in pods_to_reschedule)
        self.bound_pods = [self._bound_pods(node) for node in self.existing_nodes.nodes]
        nominated = [(pod, shapes.of(pod)) for pod in unbound if pod.metadata.uid not in self._pods_to_reschedule]
        self.all_shapes = tuple(
            dict.fromkeys([shape for _, shape in chain(self.pods_to_reschedule, *self.bound_pods, nominated)])
        )
        self.all_constraints = tuple(dict.fromkeys([shape.constraints for shape in self.all_shapes]))
        return nominated

    def _bound_pods(self, node: ClusterNode) -> list[tuple[Pod, PodShape]]:
        """The pods that use resources of a node, without the pods to place."""
        bound_pods = self._node_pods.bound_pods(node)
        if node.name in self._nodes_losing_pods:
            return [each for each in bound_pods if each[0].metadata.uid not in self._pods_to_reschedule]
        return bound_pods

    def reschedulable_pods(self, row: int) -> Sequence[tuple[Pod, PodShape]]:
        """The pods of a row that have to run elsewhere when its node is removed."""
        node = self.existing_nodes.nodes[row]
        if node.name in self._nodes_losing_pods:
            return [each for each in self.bound_pods[row] if each[0].reschedulable]
        return self._node_pods.reschedulable(node)

    def _requested_resources(self) -> set[str]:
        names = {name for shape in self.all_shapes for name in shape.requests}
        return names | {name for daemon in self._daemons for name in daemon.requests}

    def _free(self, nominated: Sequence[tuple[Pod, PodShape]]) -> list[list[int]]:
        self._daemon_needs = self._daemon_needs_by_row()
        free = [self._free_on(row) for row in range(len(self.existing_nodes))]
        for pod, shape in nominated:
            row = self.existing_nodes.row_by_name.get(pod.status.nominated_node_name, -1)
            if row >= 0:
                for column, amount in shape.need:
                    free[row][column] -= amount
        return [self._none_if_overdrawn(left) for left in free]

    def _none_if_overdrawn(self, left: list[int]) -> list[int]:
        return left if min(left, default=0) >= 0 else [-1] * len(left)

    def _free_on(self, row: int) -> list[int]:
        """Allocatable of a node less the requests of its pods, and of its daemon pods that are still to come."""
        node = self.existing_nodes.nodes[row]
        # An unreadable object hides how much is free. A node that a command removes looks free once its pods are
        # displaced, and its taint does not keep off pods that tolerate it.
        if node.record is not None or self.snapshot.unread_on(node) is not None:
            return [-1] * len(self.units.names)
        loses_pods = node.name in self._nodes_losing_pods
        left = left_of(node, self.bound_pods[row], self.units) if loses_pods else self._node_pods.left(node)
        missing = list(self._daemon_needs[row]) if self._daemons else []
        for pod, shape in self.bound_pods[row] if missing else ():
            if pod.daemon:
                for column, amount in shape.need:
                    missing[column] -= amount
        for column, amount in enumerate(missing):
            if amount > 0:
                left[column] -= amount
        return left

    def _daemon_needs_by_row(self) -> list[list[int]]:
        """For each row, the requests of all its daemon pods; an empty list if there are no DaemonSets."""
        if not self._daemons:
            return []
        expected = [[0] * len(self.units.names) for _ in self.existing_nodes.nodes]
        for daemon in self._daemons:
            need = self.units.need(daemon.requests)
            for row in np.flatnonzero(self._rows_for(daemon)).tolist():
                for column, amount in need:
                    expected[row][column] += amount
        return expected

    def _rows_for(self, daemon: Daemon) -> Mask:
        fits = self.existing_nodes.tolerated(daemon.tolerations, soft=True) & self.existing_nodes.meeting(
            daemon.alternatives
        )
        for row in self.existing_nodes.unlaunched_rows:
            node = self.existing_nodes.nodes[row]
            fits[row] = untolerated(daemon.tolerations, hard(node.taints)) is None and any(
                each.may_match(node.requirements, node.undefined_labels | frozenset(node.requirements))
                for each in daemon.alternatives
            )
        return fits

    def _ports(self) -> dict[int, frozenset[HostPort]]:
        if not any(constraints.ports for constraints in self.all_constraints):
            return {}
        return {row: ports for row in range(len(self.existing_nodes)) if (ports := self.ports_on(row))}

    def ports_on(self, row: int) -> frozenset[HostPort]:
        """The host ports in use on a node."""
        return frozenset(port for _, shape in self.bound_pods[row] for port in shape.ports)

    def _attached(self) -> dict[int, frozenset[tuple[str, str]]]:
        if not any(constraints.volumes.attachments for constraints in self.all_constraints):
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

    def reprice(self, snapshot: Snapshot) -> dict[InstanceTypeTable, InstanceTypeTable]:
        """Go on with a snapshot that has other prices and the same offerings; the new table for each old one."""
        before = self.type_tables
        self.snapshot = snapshot
        self.type_tables = tuple(self._type_tables([each.template.pool for each in before]))
        self._roots = {type_table: root_options(type_table) for type_table in self.type_tables}
        return dict(zip(before, self.type_tables, strict=True))

    def root(self, type_table: InstanceTypeTable) -> DraftOptions:
        """The options of a new draft of a NodePool whose limits exclude no instance type."""
        return self._roots[type_table]

    def matching_rows(self, shape: PodShape, level: PreferenceLevel) -> Mask:
        """The rows whose taints and labels match a pod, whether or not it fits."""
        return (
            self.existing_nodes.tolerated(level.tolerations, soft=level.soft)
            & self.existing_nodes.meeting(level.alternatives)
            & self.existing_nodes.meeting(shape.volumes.on_existing_nodes)
        )

    def candidates(self, shape: PodShape, level: PreferenceLevel) -> Sequence[int]:
        """The candidate rows of a pod, ascending: taints and labels match, and the least of its size class fits now."""
        key = (level, shape.least)
        found = self._candidates_by_level.get(key)
        if found is None:
            found = self._candidates_by_level[key] = self._find_candidates(shape, level)
        return found

    def fitting_rows(self, shape: PodShape, level: PreferenceLevel, most: int) -> Sequence[int]:
        """The first candidate rows on which a pod fits now, at most so many."""
        free, need = self.free, shape.need
        return tuple(islice((row for row in self.candidates(shape, level) if fits(free[row], need)), most))

    def candidate_group(self, shape: PodShape, level: PreferenceLevel) -> int:
        """The number of the array of `candidates`: equal for pods that match the same rows and are of a size class."""
        self.candidates(shape, level)
        return self._groups[_candidate_key(shape, level)]

    def _find_candidates(self, shape: PodShape, level: PreferenceLevel) -> "array[int]":
        """Shapes with equal keys share one array: every pod may have a shape, and an array has up to O(nodes)."""
        key = _candidate_key(shape, level)
        found = self._candidates.get(key)
        if found is None:
            rows = self.matching_rows(shape, level)
            for column, amount in shape.least:
                rows = rows & (self.free_matrix[:, column] >= amount)
            found = self._candidates[key] = array("i", np.flatnonzero(rows).astype(np.intc).tobytes())
            self._groups[key] = len(self._groups)
        return found

    def replace_node(self, row: int, node: ClusterNode, *, gone: bool = False) -> None:
        """Replace the pods of a row; nothing else about the node has changed. Candidate arrays are updated in place.

        A node that is `gone` keeps its row, with nothing free.
        """
        before = self.free[row]
        self.existing_nodes.replace(row, node)
        self.bound_pods[row] = self._bound_pods(node)
        for _, shape in self.bound_pods[row]:
            if not shape.need:
                shape.measure(self.units)
        self.free[row] = [-1] * len(before) if gone else self._none_if_overdrawn(self._free_on(row))
        self.free_matrix[row] = self.free[row]
        for key, found in self._candidates.items():
            had, has = (fits(free, key[-1]) for free in (before, self.free[row]))
            if had is not has and self._row_matches(row, key):
                _update_rows(row, found, present=has)

    def has_columns_for(self, shape: PodShape) -> bool:
        """Whether every resource that a shape requests has a column."""
        return all(name in self.units.column for name in shape.requests)

    def _row_matches(self, row: int, key: CandidateKey) -> bool:
        tolerations, soft, alternatives, on_existing_nodes, _ = key
        existing_nodes = self.existing_nodes
        return bool(
            existing_nodes.tolerated(tolerations, soft=soft)[row]
            and existing_nodes.meeting(alternatives)[row]
            and existing_nodes.meeting(on_existing_nodes)[row]
        )

    def counted_shapes(self, row: int) -> Iterable[PodShape]:
        """The shapes of the pods on a node that count for topology."""
        return (shape for pod, shape in self.bound_pods[row] if not pod.deleting)


def _candidate_key(shape: PodShape, level: PreferenceLevel) -> CandidateKey:
    return level.tolerations, level.soft, level.alternatives, shape.volumes.on_existing_nodes, shape.least


def _update_rows(row: int, found: "array[int]", *, present: bool) -> None:
    position = bisect_left(found, row)
    if present:
        found.insert(position, row)
    else:
        found.pop(position)
