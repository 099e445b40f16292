"""Pods that hardly any room has room for: most of them would have to share one cheaper node.

A quick no for the sweep. A pod with few rooms to go to is in one of them, or on the one node that may be bought. So
that node holds at least what these rooms leave over, and where nothing cheaper holds even that, the node stays.
Topology, ports and volumes are left aside: they could only make it harder.
"""

from collections.abc import Iterable, Sequence

from dovetail.core.scheduling.base import FEW_ROOMS
from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.joining import Joining
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shop import Shop
from dovetail.core.scheduling.solve import queue_order
from dovetail.model.pod import Pod

Entry = tuple[Pod, Shape]


class Homeless:
    """Asked for one node after the other, against the base state. The last stance of a shape asks for the least."""

    def __init__(self, board: Board, shop: Shop) -> None:
        self._board = board
        self._base = board.base
        self._joining: Joining = board.joining
        self._shop = shop
        self._homes: dict[Shape, tuple[Stance, Sequence[int]]] = {}
        self._by_row: dict[int, list[tuple[Entry, Sequence[int]]]] = {}

    def blocker(self, row: int, moving: Iterable[Entry], below: float | None) -> Pod | None:
        """The first pod of those that cannot all have a place when a room goes, if that can be seen at once."""
        few = [each for each in self._homes_on(row, moving) if len(each[1]) <= FEW_ROOMS]
        if not few:
            return None
        nowhere = [entry for entry, homes in few if not homes or (len(homes) == 1 and homes[0] == row)]
        least = self._left_over(row, few)
        if max(least, default=0) <= 0:
            return None
        if below is not None and any(self._held(market, nowhere, least, below) for market in self._base.markets):
            return None
        return min(nowhere or [entry for entry, _ in few], key=queue_order)[0]

    def _homes_on(self, row: int, moving: Iterable[Entry]) -> list[tuple[Entry, Sequence[int]]]:
        known = self._by_row.get(row)
        if known is None:
            known = self._by_row[row] = [(entry, self._rooms(entry[1])) for entry in moving]
        return known

    def forget(self, row: int) -> None:
        """Other pods are on a room."""
        self._by_row.pop(row, None)

    def _rooms(self, shape: Shape) -> Sequence[int]:
        known = self._homes.get(shape)
        if known is None:
            stance = self._board.rulebook.ladder(shape)[-1]
            known = self._homes[shape] = stance, self._base.candidates(shape, stance)
        return known[1]

    def _left_over(self, row: int, few: list[tuple[Entry, Sequence[int]]]) -> list[int]:
        """The least that a new node would have to hold: of the pods with fewest rooms, what these do not take."""
        asked = [0] * len(self._base.units.names)
        least = list(asked)
        rooms: set[int] = set()
        few = sorted(few, key=_number_of_homes) if len(few) > 1 else few
        for (_, shape), homes in few:
            for column, amount in shape.need:
                asked[column] += amount
            for home in homes:
                if home != row and home not in rooms:
                    rooms.add(home)
                    for column, amount in enumerate(self._base.free[home]):
                        asked[column] -= max(0, amount)
            for column, amount in enumerate(asked):
                least[column] = max(least[column], amount)
        return least

    def _held(self, market: Market, nowhere: list[Entry], least: list[int], below: float) -> bool:
        options: Options | str = self._shop.root(market)
        seen: Shape | None = None
        for _, shape in nowhere:
            if shape is seen:
                continue
            seen, stance = shape, self._homes[shape][0]
            if isinstance(options, str) or self._joining.untolerated(stance, market):
                return False
            if len(stance.alternatives) == 1:
                options = options.narrow(stance.alternatives[0])
        return not isinstance(options, str) and options.find(least, below) >= 0


def _number_of_homes(each: tuple[Entry, Sequence[int]]) -> int:
    return len(each[1])
