"""The base state of a run, made once from a snapshot: rooms with what is free, pods by shape, what can be bought.

Everything here stays as it is while a run tries things; what a run changes is laid over it and can be undone.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from dovetail.core.scheduling.alternative import Alternative
from dovetail.core.scheduling.daemons import Daemon, read_daemons
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.limits import Limits
from dovetail.core.scheduling.market import Market, open_market
from dovetail.core.scheduling.options import Options, root_options
from dovetail.core.scheduling.ports import HostPort
from dovetail.core.scheduling.register import Lodgings, Register, left_of
from dovetail.core.scheduling.rooms import Mask, Rooms, hard
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.units import Need
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import Toleration, untolerated
from dovetail.model.wire import OwnerReference

SOFT = "PreferNoSchedule"

Asked = tuple[tuple[Toleration, ...], bool, tuple[Alternative, ...], tuple[Alternative, ...], Need]


FEW_ROOMS = 2
"""Lists of candidates up to this length are short: who is on them is looked at one by one."""


@dataclass(frozen=True)
class Requalified:
    """Lists of candidates, by identity: those a room was or is on, and those of them that are or were short.

    `left` has those a room is not on any more.
    """

    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)
    short: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)


class Base:
    """A snapshot as the solver needs it. `moving` are the pods to place; where they are bound now they do not count."""

    def __init__(
        self,
        snapshot: Snapshot,
        moving: Sequence[Pod],
        pools: Sequence[NodePool],
        *,
        standing: bool = False,
        register: Register | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._owned: dict[int, tuple[bool, tuple[OwnerReference, ...]]] = {}
        self.rooms = Rooms(snapshot.nodes, standing=standing)
        self._moving = frozenset(pod.metadata.uid for pod in moving)
        self._moving_from = frozenset(pod.node_name for pod in moving if pod.node_name)
        self.daemon_sets = read_daemons(snapshot)
        self._daemons = self.daemon_sets.each
        nominated = self._settle_in(moving, register or Register())
        self.free = self._free(nominated)
        self.free_matrix = np.array(self.free, dtype=np.int64).reshape(len(self.rooms), len(self.units.names))
        self.ports = self._ports()
        self.attached = self._attached()
        self.markets = tuple(self._markets(pools))
        self.limits = Limits.of(snapshot)
        self.soft_taints = self.rooms.has_soft_taints or any(
            taint.effect == SOFT for pool in pools for taint in pool.spec.template.spec.taints
        )
        self._candidates: dict[Asked, array[int]] = {}
        self._candidates_by_stance: dict[Stance, array[int]] = {}
        self._roots = {market: root_options(market) for market in self.markets}

    def _settle_in(self, moving: Sequence[Pod], register: Register) -> list[tuple[Pod, Shape]]:
        """Who lives where, and who moves; those who have the promise of a room are returned."""
        unbound = [pod for pod in self.snapshot.unbound_pods if pod.status.nominated_node_name]
        lodgings = register.lodgings(self.snapshot, self.rooms.nodes, [*moving, *unbound])
        nominated = self._read(moving, unbound, lodgings)
        measured = register.measured(lodgings, self._names())
        if measured is not lodgings:
            nominated = self._read(moving, unbound, measured)
        self.units = measured.units
        for shape in self.kinds:
            shape.need = self.units.need(shape.requests)
        return nominated

    def _read(self, moving: Sequence[Pod], unbound: Sequence[Pod], lodgings: Lodgings) -> list[tuple[Pod, Shape]]:
        self._lodgings = lodgings
        self.shapes = shapes = lodgings.shapes
        self.moving = tuple((pod, shapes.of(pod)) for pod in moving)
        self.residents = [self._residents(node) for node in self.rooms.nodes]
        nominated = [(pod, shapes.of(pod)) for pod in unbound if pod.metadata.uid not in self._moving]
        self.kinds = tuple(dict.fromkeys([shape for _, shape in chain(self.moving, *self.residents, nominated)]))
        return nominated

    def _residents(self, node: ClusterNode) -> list[tuple[Pod, Shape]]:
        """Pods that take room on a node and stay."""
        residents = self._lodgings.residents(node)
        if node.name in self._moving_from:
            return [each for each in residents if each[0].metadata.uid not in self._moving]
        return residents

    def is_bound_to_node(self, pod: Pod) -> bool:
        """Whether a pod belongs to its node: of a DaemonSet, or static. Pods of one owner share the answer."""
        owners = pod.metadata.owner_references
        known = self._owned.get(id(owners))
        if known is None:
            # The owners are kept with the answer, so that their identity cannot be given to another object.
            known = self._owned[id(owners)] = (pod.daemon or pod.mirror, owners)
        return known[0]

    def _names(self) -> set[str]:
        names = {name for shape in self.kinds for name in shape.requests}
        return names | {name for daemon in self._daemons for name in daemon.requests}

    def _free(self, nominated: Sequence[tuple[Pod, Shape]]) -> list[list[int]]:
        self._expected = self._daemons_expected()
        free = [self._unclaimed(row) for row in range(len(self.rooms))]
        for pod, shape in nominated:
            row = self.rooms.row_by_name.get(pod.status.nominated_node_name, -1)
            if row >= 0:
                for column, amount in shape.need:
                    free[row][column] -= amount
        return [self._or_nothing(left) for left in free]

    def _or_nothing(self, left: list[int]) -> list[int]:
        return left if min(left, default=0) >= 0 else [-1] * len(left)

    def _unclaimed(self, row: int) -> list[int]:
        """What residents leave of a room, less what daemons need beyond those already there."""
        node = self.rooms.nodes[row]
        if self.snapshot.unread_on(node) is not None:
            return [-1] * len(self.units.names)  # what is left of it is not known
        some_move = node.name in self._moving_from
        left = left_of(node, self.residents[row], self.units) if some_move else self._lodgings.left(node)
        coming = list(self._expected[row]) if self._daemons else []
        for pod, shape in self.residents[row] if coming else ():
            if self.is_bound_to_node(pod) and pod.daemon:
                for column, amount in shape.need:
                    coming[column] -= amount
        for column, amount in enumerate(coming):
            if amount > 0:
                left[column] -= amount
        return left

    def _daemons_expected(self) -> list[list[int]]:
        """What the daemons of each room need together; nothing for any if there are none."""
        if not self._daemons:
            return []
        expected = [[0] * len(self.units.names) for _ in self.rooms.nodes]
        for daemon in self._daemons:
            need = self.units.need(daemon.requests)
            for row in np.flatnonzero(self._runs_on(daemon)).tolist():
                for column, amount in need:
                    expected[row][column] += amount
        return expected

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
        if not any(shape.ports for shape in self.kinds):
            return {}
        return {row: ports for row in range(len(self.rooms)) if (ports := self.ports_on(row))}

    def ports_on(self, row: int) -> frozenset[HostPort]:
        """The host ports in use on a room."""
        return frozenset(port for _, shape in self.residents[row] for port in shape.ports)

    def _attached(self) -> dict[int, frozenset[tuple[str, str]]]:
        if not any(shape.volumes.attachments for shape in self.kinds):
            return {}
        return {row: used for row in range(len(self.rooms)) if (used := self.attached_on(row))}

    def attached_on(self, row: int) -> frozenset[tuple[str, str]]:
        """The (driver, claim) pairs in use on a room."""
        return frozenset(each for _, shape in self.residents[row] for each in shape.volumes.attachments)

    def _markets(self, pools: Sequence[NodePool]) -> Iterable[Market]:
        for pool in pools:
            market = open_market(pool, self.snapshot, self.daemon_sets, self.units)
            if market.choices:
                yield market

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

    def _find_candidates(self, shape: Shape, stance: Stance) -> "array[int]":
        """Shapes that ask for the same share one: there may be thousands, each as long as the cluster is large."""
        asked = (stance.tolerations, stance.soft, stance.alternatives, shape.volumes.on_rooms, shape.need)
        found = self._candidates.get(asked)
        if found is None:
            suits = self.standing(shape, stance)
            for column, amount in shape.need:
                suits = suits & (self.free_matrix[:, column] >= amount)
            found = self._candidates[asked] = array("i", np.flatnonzero(suits).astype(np.intc).tobytes())
        return found

    def replace_room(self, row: int, node: ClusterNode, *, gone: bool = False) -> Requalified:
        """Other pods are on a room; everything else about it is as before. Lists of candidates follow in place.

        A room that is `gone` keeps its row, and has nothing to give.
        """
        before = self.free[row]
        self.rooms.replace(row, node)
        self.residents[row] = self._residents(node)
        for _, shape in self.residents[row]:
            shape.need = shape.need or self.units.need(shape.requests)
        self.free[row] = [-1] * len(before) if gone else self._or_nothing(self._unclaimed(row))
        self.free_matrix[row] = self.free[row]
        changed = Requalified()
        for asked, found in self._candidates.items():
            had, has = (_holds(free, asked[-1]) for free in (before, self.free[row]))
            if not (had or has) or not self._may_stand(row, asked):
                continue
            if had:
                changed.before.add(id(found))
                if not has:
                    changed.left.add(id(found))
            if has:
                changed.after.add(id(found))
            if len(found) <= FEW_ROOMS:
                changed.short.add(id(found))
            if had is not has:
                _move_on_list(row, found, joining=has)
            if len(found) <= FEW_ROOMS:
                changed.short.add(id(found))
        return changed

    def measures(self, pod: Pod, shape: Shape) -> bool:
        """Whether a shape asks for nothing, and looks at nothing, that nobody asked for before."""
        return all(name in self.units.column for name in shape.requests) and self.shapes.sees(pod)

    def _may_stand(self, row: int, asked: Asked) -> bool:
        tolerations, soft, alternatives, on_rooms, _ = asked
        rooms = self.rooms
        return bool(
            rooms.tolerated(tolerations, soft=soft)[row]
            and rooms.meeting(alternatives)[row]
            and rooms.meeting(on_rooms)[row]
        )

    def candidates_known(self, stance: Stance) -> Sequence[int] | None:
        """The list of candidates, if anybody has asked for it."""
        return self._candidates_by_stance.get(stance)

    def placed(self, row: int) -> Iterable[Shape]:
        """The shapes of the pods on a room that count for topology."""
        return (shape for pod, shape in self.residents[row] if not pod.deleting)


def _holds(free: Sequence[int], need: Need) -> bool:
    return all(free[column] >= amount for column, amount in need)


def _move_on_list(row: int, found: "array[int]", *, joining: bool) -> None:
    position = bisect_left(found, row)
    if joining:
        found.insert(position, row)
    else:
        found.pop(position)
