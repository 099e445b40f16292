"""Pods that hardly any room has room for: most of them would have to share one cheaper node.

A quick no for the sweep. A pod with few rooms to go to is in one of them, or on the one node that may be bought. So
that node holds at least what these rooms leave over, and where nothing cheaper holds even that, the node stays.
Topology, ports and volumes are left aside: they could only make it harder.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import msgspec

from dovetail.core.scheduling.base import FEW_ROOMS
from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.joining import Joining
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shop import Purchase
from dovetail.model.pod import Pod

Entry = tuple[Pod, Shape]


class Glance(msgspec.Struct, frozen=True, eq=False):
    """The first of the pods that cannot all have a place, if that can be seen, and the shapes it hangs on.

    As long as these have the rooms they had, and no other shape loses one and has hardly any left, it stays so.
    """

    blocker: Pod | None
    evidence: tuple[Shape, ...]


NOTHING_SEEN = Glance(None, ())
NOWHERE = -1
"""No room."""


class Homeless:
    """Asked for one node after the other, against the base state. The last stance of a shape asks for the least."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._base = board.base
        self._joining: Joining = board.joining
        self._homes: dict[Shape, tuple[Stance, Sequence[int]]] = {}
        self._by_row: dict[int, list[tuple[Entry, Sequence[int]]]] = {}

    def glance(self, row: int, queue: Sequence[Entry], purchase: Purchase) -> Glance:
        """Whether pods cannot all have a place when a room goes, if that can be seen at once."""
        return self._glance(row, self._homes_on(row, queue), purchase)

    def glance_from_afar(self, queue: Sequence[Entry], purchase: Purchase) -> tuple[Glance, frozenset[int]]:
        """The same if they came from a room that none of them could go to, and the few that some could go to."""
        homes = [(entry, self.rooms(entry[1])) for entry in queue]
        few = frozenset(room for _, rooms in homes if len(rooms) <= FEW_ROOMS for room in rooms)
        return self._glance(NOWHERE, homes, purchase), few

    def _glance(self, row: int, homes_of: Sequence[tuple[Entry, Sequence[int]]], purchase: Purchase) -> Glance:
        nowhere: list[Entry] = []
        only: dict[int, list[Entry]] = {}
        for entry, homes in homes_of:
            number = len(homes)
            if number > FEW_ROOMS:
                continue
            if not number or (number == 1 and homes[0] == row):
                nowhere.append(entry)
            elif number == 1 or row in homes:
                only.setdefault(homes[0] if homes[0] != row else homes[1], []).append(entry)
        together = self._together(nowhere, purchase)
        if together < len(nowhere):
            return Glance(nowhere[0][0], _shapes(nowhere[: together + 1]))
        if not only:
            return NOTHING_SEEN
        bound = [entry for entries in only.values() for entry in entries]
        if self._fits_with(nowhere, only, purchase):
            # That more room is found for those who had none makes nothing harder. But without a small pod that found
            # a second room, the others may seem to need more: so those with one room are what this hangs on.
            return Glance(None, _shapes(bound))
        return Glance((nowhere or bound)[0][0], _shapes([*nowhere, *bound]))

    def _together(self, entries: Sequence[Entry], purchase: Purchase) -> int:
        """How many of these, one after the other, some node that may be bought holds at once."""
        most = 0
        for market in self._base.markets if purchase.below is not None else ():
            most = max(most, self._taken(market, entries, purchase))
            if most == len(entries):
                break
        return most

    def _taken(self, market: Market, entries: Sequence[Entry], purchase: Purchase) -> int:
        if self._held(market, entries, self._sum(entries), purchase):
            return len(entries)
        reached: Options | str = purchase.shop.root(market)
        seen: Shape | None = None
        total = [0] * len(self._base.units.names)
        place = 0
        for number, (_, shape) in enumerate(entries):
            if shape is not seen:
                narrowed = self._narrowed(market, reached, self._homes[shape][0])
                place = place if narrowed is reached else 0
                seen, reached = shape, narrowed
            if isinstance(reached, str):
                return number
            for column, amount in shape.need:
                total[column] += amount
            place = reached.first(total, purchase.below or 0.0, place)
            if place < 0:
                return number
        return len(entries)

    def _narrowed(self, market: Market, options: Options | str, stance: Stance) -> Options | str:
        if isinstance(options, str):
            return options
        if problem := self._joining.untolerated(stance, market):
            return problem
        return options.narrow(stance.alternatives[0]) if len(stance.alternatives) == 1 else options

    def _fits_with(self, nowhere: Sequence[Entry], only: Mapping[int, list[Entry]], purchase: Purchase) -> bool:
        """Whether some node might hold those without a room, and what is left over of those with one."""
        asked = self._sum(nowhere)
        crowded = False
        for home, entries in only.items():
            over = self._left_over(home, entries)
            crowded = crowded or any(over)
            asked = [have + more for have, more in zip(asked, over, strict=True)]
        return not crowded or self._sold(nowhere, asked, purchase)

    def _sum(self, entries: Iterable[Entry]) -> list[int]:
        asked = [0] * len(self._base.units.names)
        for _, shape in entries:
            for column, amount in shape.need:
                asked[column] += amount
        return asked

    def _left_over(self, home: int, entries: list[Entry]) -> list[int]:
        """The least of pods with one and the same room to go to that this room cannot take."""
        free = self._base.free[home]
        columns: list[list[int]] = [[] for _ in free]
        for _, shape in entries:
            for column, amount in shape.need:
                columns[column].append(amount)
        most = len(entries)  # no more of them fit than of the smallest, in any resource
        for amounts, left in zip(columns, free, strict=True):
            amounts.sort()
            spare = len(entries) - len(amounts)
            fitting = bisect_right(list(accumulate(amounts)), left)
            most = min(most, spare + fitting)
        taken = [
            min(max(left, 0), sum(amounts[-most:] if most else ())) for amounts, left in zip(columns, free, strict=True)
        ]
        return [sum(amounts) - took for amounts, took in zip(columns, taken, strict=True)]

    def _sold(self, nowhere: Sequence[Entry], asked: list[int], purchase: Purchase) -> bool:
        """Whether some node that may be bought holds as much."""
        markets = self._base.markets if purchase.below is not None else ()
        return any(self._held(market, nowhere, asked, purchase) for market in markets)

    def _homes_on(self, row: int, queue: Iterable[Entry]) -> list[tuple[Entry, Sequence[int]]]:
        known = self._by_row.get(row)
        if known is None:
            known = self._by_row[row] = [(entry, self.rooms(entry[1])) for entry in queue]
        return known

    def forget(self, row: int) -> None:
        """Other pods are on a room."""
        self._by_row.pop(row, None)

    def rooms(self, shape: Shape) -> Sequence[int]:
        """Where a pod could go that gave up everything it prefers."""
        known = self._homes.get(shape)
        if known is None:
            stance = self._board.rulebook.ladder(shape)[-1]
            known = self._homes[shape] = stance, self._base.candidates(shape, stance)
        return known[1]

    def _held(self, market: Market, nowhere: Sequence[Entry], least: list[int], purchase: Purchase) -> bool:
        options: Options | str = purchase.shop.root(market)
        seen: Shape | None = None
        for _, shape in nowhere:
            if shape is not seen:
                seen, options = shape, self._narrowed(market, options, self._homes[shape][0])
        return not isinstance(options, str) and options.first(least, purchase.below or 0.0) >= 0


def _shapes(entries: Iterable[Entry]) -> tuple[Shape, ...]:
    return tuple(dict.fromkeys(shape for _, shape in entries))
