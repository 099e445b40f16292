"""Pods that no room has room for, whatever else moves: together they would have to share one cheaper node.

A quick no for the sweep. Where nothing cheaper holds these pods alone, nothing holds them with others, and the node
stays. Topology, ports and volumes are left aside: they could only make it harder.
"""

from collections.abc import Iterable, Sequence

from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.joining import Joining
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import Options
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shop import Shop
from dovetail.model.pod import Pod


class Homeless:
    """Asked for one node after the other, against the base state. The last stance of a shape asks for the least."""

    def __init__(self, board: Board, shop: Shop) -> None:
        self._board = board
        self._base = board.base
        self._joining: Joining = board.joining
        self._shop = shop
        self._homes: dict[Shape, tuple[Stance, Sequence[int]]] = {}

    def find(self, row: int, moving: Iterable[tuple[Pod, Shape]]) -> list[tuple[Pod, Shape]]:
        """The pods that fit into no room but, perhaps, this one."""
        found = []
        for pod, shape in moving:
            known = self._homes.get(shape)
            if known is None:
                stance = self._board.rulebook.ladder(shape)[-1]
                known = self._homes[shape] = stance, self._base.candidates(shape, stance)
            rooms = known[1]
            if not rooms or (rooms[0] == row and len(rooms) == 1):
                found.append((pod, shape))
        return found

    def too_many(self, shapes: list[Shape], below: float) -> bool:
        """Whether nothing cheaper than `below` could hold them all."""
        total = [0] * len(self._base.units.names)
        for shape in shapes:
            for column, amount in shape.need:
                total[column] += amount
        return not any(self._held(market, shapes, total, below) for market in self._base.markets)

    def _held(self, market: Market, shapes: list[Shape], total: list[int], below: float) -> bool:
        options: Options | str = self._shop.root(market)
        for shape in shapes:
            stance = self._homes[shape][0]
            if isinstance(options, str) or self._joining.untolerated(stance, market):
                return False
            if len(stance.alternatives) == 1:
                options = options.narrow(stance.alternatives[0])
        return not isinstance(options, str) and options.find(total, below) >= 0
