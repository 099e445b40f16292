"""NodePool limits: how much of each limited resource a NodePool may still launch.

While a run opens drafts, their instance types are not decided, so each draft spends the largest type it may become:
limits hold whichever type the provider launches. The limit `nodes` counts drafts of the same run too.

Nodes that a command removes do not count against the limits of its replacements: otherwise no node of a NodePool at
its limit could be replaced. While a command is running, a node and its replacement count once, as the larger of the
two, since the command ends with one of them. So the NodePool exceeds its limit for that time by at most what the
command removes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.catalog_table import Mask
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.model.resources import NODES, ZERO, Quantity, Resources, add, subtract
from dovetail.model.snapshot import ClusterNode, Snapshot

ONE = Quantity.of(1)
EXHAUSTED = "node limits have been exhausted for nodepool"
EXCEEDED = "all available instance types exceed limits for nodepool"


@dataclass
class RemainingLimits:
    """Remaining amounts by NodePool, for the resources that it limits; `written` has the limits themselves."""

    remaining: dict[str, dict[str, Quantity]]
    written: Mapping[str, Resources] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    """The ids of running commands."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "RemainingLimits":
        """The remaining limits of all NodePools of a snapshot."""
        written = {name: pool.spec.limits for name, pool in snapshot.nodepools.items() if pool.spec.limits}
        remaining = {}
        for name, limits in written.items():
            used = limit_usage(snapshot, name)
            remaining[name] = {resource: limit - used.get(resource, ZERO) for resource, limit in limits.items()}
        return cls(remaining, written, snapshot.running_commands)

    def copy(self) -> "RemainingLimits":
        """A copy to spend from."""
        return RemainingLimits({pool: dict(left) for pool, left in self.remaining.items()}, self.written, self.running)

    def without(self, nodes: Iterable[ClusterNode]) -> "RemainingLimits":
        """A copy without these nodes. A node that a running command removes or launched keeps counting."""
        released = self.copy()
        for node in nodes:
            left = released.remaining.get(node.managed_by, {})
            for resource in left if node.record is None and node.replaces not in self.running else ():
                left[resource] += node.capacity.get(resource, ZERO)
        return released

    def exhausted(self, pool: str) -> bool:
        """Whether the `nodes` limit allows no more node."""
        left = self.remaining.get(pool, {})
        return NODES in left and left[NODES] < ONE

    def allowed(self, type_table: InstanceTypeTable) -> Mask:
        """The mask of types that fit into the remaining limits of their NodePool."""
        within = np.ones(len(type_table.choices), dtype=np.bool_)
        for resource, left in self.remaining.get(type_table.template.pool.name, {}).items():
            if resource != NODES:
                within &= type_table.sizes(resource).within(left)
        return within

    def limited(self, pool: str) -> bool:
        """Whether the NodePool has limits."""
        return bool(self.remaining.get(pool))

    def spend(self, type_table: InstanceTypeTable, types: npt.NDArray[np.intp]) -> None:
        """Count a new draft that may become any of `types`, at the largest capacity among them."""
        left = self.remaining.get(type_table.template.pool.name, {})
        for resource in left:
            left[resource] -= ONE if resource == NODES else type_table.sizes(resource).largest(types)

    def describe(self, wanted: Iterable[tuple[str, Sequence[Resources]]]) -> str:
        """The limits that exclude some nodes, in words; `wanted` has the NodePool and possible sizes of each node."""
        needs: dict[str, Resources] = {}
        for pool, sizes in wanted:
            names = self.remaining.get(pool, {})
            least = {name: min((each.get(name, ZERO) for each in sizes), default=ZERO) for name in names}
            needs[pool] = add(needs.get(pool, {}), {**least, NODES: ONE} if NODES in names else least)
        every = [(pool, name, least) for pool, need in needs.items() for name, least in sorted(need.items())]
        over = [each for each in every if each[2] > self.remaining[each[0]][each[1]]]
        # Nothing is `over` where each limit allows some size but no size is within all limits.
        return "; ".join(self._words(*each) for each in over or every)

    def _words(self, pool: str, resource: str, least: Quantity) -> str:
        limit = self.written[pool][resource]
        used = limit - self.remaining[pool][resource]
        return f"nodepool {pool}: {describe_limit(resource, limit, used, f'at least {least}')}"


def describe_limit(resource: str, limit: Quantity, used: Quantity, needed: str) -> str:
    """A limit that would be exceeded, in words."""
    return f"{resource} limit {limit}, {used} used, {needed} needed"


def limit_usage(snapshot: Snapshot, pool: str, leaving: Collection[str] = ()) -> Resources:
    """The resources that count against the limits of a NodePool, without the NodeClaims named in `leaving`."""
    counted = [node for node in snapshot.nodes_by_pool.get(pool, ()) if _counts(node, leaving)]
    removed: dict[str, list[Resources]] = {}
    launched: dict[str, list[Resources]] = {}
    for node in counted:
        if node.record is not None:
            removed.setdefault(node.record.id, []).append(snapshot.size(node))
        if node.replaces is not None:
            launched.setdefault(node.replaces, []).append(snapshot.size(node))
    used = add(*(snapshot.size(node) for node in counted))
    for command in removed.keys() & launched.keys():
        used = subtract(used, _smaller(add(*removed[command]), add(*launched[command])))
    return used


def _counts(node: ClusterNode, leaving: Collection[str]) -> bool:
    return not node.deleting and not (leaving and node.claim is not None and node.claim.name in leaving)


def _smaller(a: Resources, b: Resources) -> Resources:
    return {name: min(amount, b[name]) for name, amount in a.items() if name in b}
