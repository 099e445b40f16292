"""The base state of a run, made once from a snapshot: rooms with what is free, pods by shape, what can be bought.

Everything here stays as it is while a run tries things; what a run changes is laid over it and can be undone.
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from dovetail.core.scheduling.daemons import Daemon, read_daemons
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.limits import Limits
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options, root_options
from dovetail.core.scheduling.ports import HostPort
from dovetail.core.scheduling.rooms import Mask, Rooms, hard
from dovetail.core.scheduling.shape import Shape, Shapes, relevant_label_keys
from dovetail.core.scheduling.template import Template, read_template
from dovetail.core.scheduling.units import Units
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import untolerated
from dovetail.model.wire import OwnerReference

SOFT = "PreferNoSchedule"


class Base:
    """A snapshot as the solver needs it. `moving` are the pods to place; where they are bound now they do not count."""

    def __init__(self, snapshot: Snapshot, moving: Sequence[Pod], pools: Sequence[NodePool]) -> None:
        self.snapshot = snapshot
        self._owned: dict[int, tuple[bool, tuple[OwnerReference, ...]]] = {}
        self.rooms = Rooms(snapshot.nodes)
        self._moving = frozenset(pod.metadata.uid for pod in moving)
        unbound = [pod for pod in snapshot.unbound_pods if pod.status.nominated_node_name]
        bound = [pod for node in self.rooms.nodes for pod in node.pods]
        self.shapes = Shapes(snapshot, relevant_label_keys([*moving, *bound, *unbound]))
        self._daemons = read_daemons(snapshot.daemon_sets).each
        self.daemon_sets = read_daemons(snapshot.daemon_sets)
        self.moving = tuple((pod, self.shapes.of(pod)) for pod in moving)
        self.residents = [self._residents(node.pods) for node in self.rooms.nodes]
        nominated = [(pod, self.shapes.of(pod)) for pod in unbound if pod.metadata.uid not in self._moving]
        self.units = Units(self._names())
        for shape in self.shapes.all():
            shape.need = self.units.need(shape.requests)
        self.free = self._free(nominated)
        self.free_matrix = np.array(self.free, dtype=np.int64).reshape(len(self.rooms), len(self.units.names))
        self.ports = self._ports()
        self.attached = self._attached()
        self.markets = tuple(self._markets(pools))
        self.limits = Limits.of(snapshot)
        self.soft_taints = self.rooms.has_soft_taints or any(
            taint.effect == SOFT for pool in pools for taint in pool.spec.template.spec.taints
        )
        self._candidates: dict[tuple[object, ...], Sequence[int]] = {}
        self._candidates_by_stance: dict[Stance, Sequence[int]] = {}
        self._roots = {market: root_options(market) for market in self.markets}

    def _residents(self, pods: Iterable[Pod]) -> list[tuple[Pod, Shape]]:
        """Pods that take room on a node and stay."""
        return [(pod, self.shapes.of(pod)) for pod in pods if not pod.terminal and pod.metadata.uid not in self._moving]

    def is_bound_to_node(self, pod: Pod) -> bool:
        """Whether a pod belongs to its node: of a DaemonSet, or static. Pods of one owner share the answer."""
        owners = pod.metadata.owner_references
        known = self._owned.get(id(owners))
        if known is None:
            # The owners are kept with the answer, so that their identity cannot be given to another object.
            known = self._owned[id(owners)] = (pod.daemon or pod.mirror, owners)
        return known[0]

    def _names(self) -> set[str]:
        names = {name for shape in self.shapes.all() for name in shape.requests}
        return names | {name for daemon in self._daemons for name in daemon.requests}

    def _free(self, nominated: Sequence[tuple[Pod, Shape]]) -> list[list[int]]:
        free = [self.units.amounts(node.allocatable) for node in self.rooms.nodes]
        for row, residents in enumerate(self.residents):
            left = free[row]
            for _, shape in residents:
                for column, amount in shape.need:
                    left[column] -= amount
        for pod, shape in nominated:
            row = self.rooms.row_by_name.get(pod.status.nominated_node_name, -1)
            if row >= 0:
                for column, amount in shape.need:
                    free[row][column] -= amount
        self._reserve_for_daemons(free)
        width = len(self.units.names)
        return [left if min(left, default=0) >= 0 else [-1] * width for left in free]

    def _reserve_for_daemons(self, free: list[list[int]]) -> None:
        """Keep free what the daemons of each room need beyond those already there."""
        if not self._daemons:
            return
        coming = [[0] * len(self.units.names) for _ in self.rooms.nodes]
        for daemon in self._daemons:
            need = self.units.need(daemon.requests)
            for row in np.flatnonzero(self._runs_on(daemon)).tolist():
                for column, amount in need:
                    coming[row][column] += amount
        for row, residents in enumerate(self.residents):
            for pod, shape in residents:
                if self.is_bound_to_node(pod) and pod.daemon:
                    for column, amount in shape.need:
                        coming[row][column] -= amount
            for column, amount in enumerate(coming[row]):
                free[row][column] -= max(amount, 0)

    def _runs_on(self, daemon: Daemon) -> Mask:
        fits = self.rooms.tolerated(daemon.tolerations, soft=True) & self.rooms.meeting(daemon.alternatives)
        for row in self.rooms.undecided:
            node = self.rooms.nodes[row]
            fits[row] = untolerated(daemon.tolerations, hard(node.taints)) is None and any(
                each.fits(node.requirements, node.undefined_labels | frozenset(node.requirements))
                for each in daemon.alternatives
            )
        return fits

    def _ports(self) -> dict[int, frozenset[HostPort]]:
        taken: dict[int, frozenset[HostPort]] = {}
        if not any(shape.ports for shape in self.shapes.all()):
            return taken
        for row, residents in enumerate(self.residents):
            ports = frozenset(port for _, shape in residents for port in shape.ports)
            if ports:
                taken[row] = ports
        return taken

    def _attached(self) -> dict[int, frozenset[tuple[str, str]]]:
        """The (driver, claim) pairs in use on each room."""
        attached: dict[int, frozenset[tuple[str, str]]] = {}
        if not any(shape.volumes.attachments for shape in self.shapes.all()):
            return attached
        for row, residents in enumerate(self.residents):
            used = frozenset(each for _, shape in residents for each in shape.volumes.attachments)
            if used:
                attached[row] = used
        return attached

    def _markets(self, pools: Sequence[NodePool]) -> Iterable[Market]:
        for pool in pools:
            template: Template = read_template(pool, self.snapshot, self.daemon_sets)
            if template.choices:
                yield Market(template, self.units)

    def root(self, market: Market) -> Options:
        """Where every draft of a NodePool starts while its limits leave everything."""
        return self._roots[market]

    def standing(self, shape: Shape, stance: Stance) -> Mask:
        """The rooms whose taints and labels suit a pod, whatever is free."""
        return (
            self.rooms.tolerated(stance.tolerations, soft=stance.soft)
            & self.rooms.meeting(stance.alternatives)
            & self.rooms.meeting(shape.volumes.on_rooms)
        )

    def candidates(self, shape: Shape, stance: Stance) -> Sequence[int]:
        """The rooms that suit a pod and had room for it in the base state, in order."""
        found = self._candidates_by_stance.get(stance)
        if found is None:
            found = self._candidates_by_stance[stance] = self._find_candidates(shape, stance)
        return found

    def _find_candidates(self, shape: Shape, stance: Stance) -> Sequence[int]:
        """Shapes that ask for the same share one: there may be thousands, each as long as the cluster is large."""
        asked = (stance.tolerations, stance.soft, stance.alternatives, shape.volumes.on_rooms, shape.need)
        found = self._candidates.get(asked)
        if found is None:
            suits = self.standing(shape, stance)
            for column, amount in shape.need:
                suits = suits & (self.free_matrix[:, column] >= amount)
            found = self._candidates[asked] = array("i", np.flatnonzero(suits).astype(np.intc).tobytes())
        return found

    def placed(self, row: int) -> Iterable[Shape]:
        """The shapes of the pods on a room that count for topology."""
        return (shape for pod, shape in self.residents[row] if not pod.deleting)
