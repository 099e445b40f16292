"""Draft options: the instance types and offerings that a draft can still become.

One object is one state of narrowing: requirements, a mask over the offerings of an instance type table, and the types
that are left with their cheapest price. States form a tree from the NodePool's root; `narrow` returns the same object
for an equal step. So drafts that were narrowed in the same way share all work, and options can be dictionary keys by
identity.

`frontier` finds the cheapest type that holds a total: types by price, without those that have no more of any resource
than a cheaper one. `_running_max` has running maxima of each resource over it, so a binary search skips all types that
are too small. With `minValues` or host ports all types have to be checked.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import ge

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.catalog_table import CandidateType, Mask
from dovetail.core.scheduling.host_ports import HostPort, conflict
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.model.catalog import InstanceType
from dovetail.model.requirements import Requirement, Requirements

UNLIMITED = float("inf")
NO_TYPE = "no instance type met all requirements"


class DraftOptions:
    """One state of narrowing. Compared by identity; derived from the root options of a NodePool."""

    def __init__(self, type_table: InstanceTypeTable, requirements: Requirements, offerings: Mask) -> None:
        self.type_table = type_table
        self.requirements = requirements
        self._offerings = offerings
        self._steps: dict[Alternative, DraftOptions | str] = {}
        self._within: dict[tuple[str, tuple[str, ...]], DraftOptions] = {}
        self._domains: dict[str, tuple[str, ...]] = {}
        held = np.flatnonzero(offerings)
        kinds, first = np.unique(type_table.type_of[held], return_index=True)
        order = np.argsort(first, kind="stable")  # the first offering of a type is its cheapest
        self.types: npt.NDArray[np.intp] = kinds[order]
        self.prices: npt.NDArray[np.float64] = type_table.price[held][first[order]]
        self.net: npt.NDArray[np.int64] = type_table.net[self.types]
        self._rows: dict[int, list[int]] = {}
        self._frontier: list[tuple[float, int, list[int]]] | None = None
        self._running_max: list[
            list[int]
        ] = []  # for each resource, the largest amount up to each place of the frontier
        self._highest_prices: npt.NDArray[np.float64] | None = None
        self.diversity = {
            key: requirement.min_values
            for key, requirement in requirements.items()
            if requirement.min_values is not None
        }

    @property
    def offerings(self) -> Mask:
        """The offerings that are left, as a mask over those of the table."""
        return self._offerings

    def narrow(self, wanted: Alternative) -> "DraftOptions | str":
        """The options with these expressions added, or why no type is left."""
        if not wanted.expressions:
            return self
        known = self._steps.get(wanted)
        if known is None:
            known = self._steps[wanted] = self._narrow(wanted)
        return known

    def _narrow(self, wanted: Alternative) -> "DraftOptions | str":
        requirements = wanted.narrow(self.requirements, self.type_table.template.defined)
        if isinstance(requirements, str):
            return f"incompatible requirements, {requirements}"
        if requirements == self.requirements:
            return self
        left = self.type_table.left_by(self._offerings, requirements, {each.key for each in wanted.expressions})
        if not left.any():
            return NO_TYPE
        return DraftOptions(self.type_table, requirements, left)

    def within(self, key: str, domains: Sequence[str]) -> "DraftOptions":
        """The options narrowed to some of their domains of a topology key."""
        key_and_domains = (key, tuple(domains))
        if key_and_domains not in self._within:
            narrowed = self.narrow(Alternative([Requirement.of(key, "In", domains)]))
            assert isinstance(narrowed, DraftOptions), f"{domains} are possible domains of {key}: {narrowed}"
            self._within[key_and_domains] = narrowed
        return self._within[key_and_domains]

    def domains(self, key: str) -> tuple[str, ...]:
        """The values of a label that are still possible, sorted; empty if they are not known."""
        if key not in self._domains:
            self._domains[key] = tuple(sorted(self._possible(key)))
        return self._domains[key]

    def _possible(self, key: str) -> set[str]:
        allowed = self.requirements.get(key)
        column = self.type_table.offering_column(key)
        if not column.empty:
            present = {*np.unique(column.ids[self._offerings]).tolist()} - {-1}
            return {value for index in present for value in column.distinct[index].values if allowed.has(value)}
        column = self.type_table.type_column(key)
        if not column.empty:
            present = {*np.unique(column.ids[self.types]).tolist()} - {-1}
            listed = [column.distinct[index] for index in present]
            return {value for each in listed if not each.complement for value in each.values if allowed.has(value)}
        return set() if allowed.complement or key not in self.requirements else {*allowed.values}

    def find(self, total: Sequence[int], below: float = UNLIMITED, ports: Sequence[HostPort] = ()) -> int:
        """The position of some type that holds `total` and costs less than `below`; -1 if none does."""
        if self.diversity or ports:
            positions = self._holding(total, below, ports)
            return positions[0] if positions else -1
        place = self.first(total, below)
        return self.frontier[place][1] if place >= 0 else -1

    def first(self, total: Sequence[int], below: float, place: int = 0) -> int:
        """The first place on the frontier, from `place` on, that holds `total` and costs less; -1 if none does."""
        frontier = self._frontier or self.frontier
        for most, needed in zip(self._running_max, total, strict=True):
            if place < len(most) and most[place] < needed:
                place = bisect_left(most, needed, place)  # no type before has enough of this resource
        for index in range(place, len(frontier)):
            price, _, net = frontier[index]
            if price >= below:
                break
            if all(map(ge, net, total)):
                return index
        return -1

    @property
    def frontier(self) -> list[tuple[float, int, list[int]]]:
        """(price, position, net resources) by price; each type has more of some resource than any one before it."""
        if self._frontier is None:
            self._frontier = []
            left = np.arange(len(self.types))
            while len(left):
                best, net = int(left[0]), self.net[left[0]]
                self._frontier.append((float(self.prices[best]), best, net.tolist()))
                left = left[(self.net[left] > net).any(axis=1)]
            nets = (net for _, _, net in self._frontier)
            self._running_max = [list(accumulate(column, max)) for column in zip(*nets, strict=True)]
        return self._frontier

    def holds(self, position: int, total: Sequence[int]) -> bool:
        """Whether the type at that position holds `total`."""
        row = self._rows.get(position)
        if row is None:
            row = self._rows[position] = self.net[position].tolist()
        return all(map(ge, row, total))

    def left(self, total: Sequence[int], below: float = UNLIMITED, ports: Sequence[HostPort] = ()) -> list[int]:
        """Positions of all types that hold `total`, cheapest first; empty if they do not meet `minValues`."""
        positions = self._holding(total, below, ports)
        return positions if self._diverse(positions) else []

    def _holding(self, total: Sequence[int], below: float, ports: Sequence[HostPort]) -> list[int]:
        holding = (self.net >= total).all(axis=1) & (self.prices < below)
        positions: list[int] = np.flatnonzero(holding).tolist()
        if ports:
            positions = [each for each in positions if conflict(ports, self.choice(each).ports) is None]
        return positions

    def _diverse(self, positions: list[int]) -> bool:
        for key, least in self.diversity.items():
            types = (self.choice(each).type for each in positions)
            if count_values(types, self.requirements.get(key)) < least:
                return False
        return True

    def most_expensive(self, position: int) -> float:
        """The highest price of the type at a position, over its offerings that are left."""
        if self._highest_prices is None:
            most = np.zeros(len(self.type_table.choices))
            held = np.flatnonzero(self._offerings)
            np.maximum.at(most, self.type_table.type_of[held], self.type_table.price[held])
            self._highest_prices = most
        return float(self._highest_prices[int(self.types[position])])

    def choice(self, position: int) -> CandidateType:
        """The type at a position."""
        return self.type_table.choices[int(self.types[position])]


def count_values(types: Iterable[InstanceType], admitted: Requirement) -> int:
    """The number of values of a label that these types have and a requirement admits."""
    own = (each.requirements.get(admitted.key) for each in types)
    return len({value for each in own if not each.complement for value in each.values if admitted.has(value)})


def root_options(type_table: InstanceTypeTable, allowed: Mask | None = None) -> DraftOptions:
    """The options of a new draft; `allowed` is the mask of types that limits leave."""
    offerings = np.ones(len(type_table.offerings), dtype=np.bool_) if allowed is None else allowed[type_table.type_of]
    return DraftOptions(type_table, type_table.template.requirements, offerings)
