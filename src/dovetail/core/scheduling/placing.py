"""Finding a place for one pod: the first room, else the first draft, else a new draft that accepts it."""

from collections.abc import Sequence

from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.domains import Allowance
from dovetail.core.scheduling.draft import Draft, Step
from dovetail.core.scheduling.joining import Attempt, hopeless
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.market import Market
from dovetail.core.scheduling.options import UNLIMITED
from dovetail.core.scheduling.ports import conflict
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shelf import Shelf
from dovetail.core.scheduling.shop import Shop
from dovetail.model.pod import Pod


class Placing:
    """One run over a board. `most_drafts` and `below` bound what it may buy."""

    def __init__(self, board: Board, shop: Shop, *, below: float = UNLIMITED, most_drafts: int | None = None) -> None:
        self.board = board
        self.joining = board.joining
        self._below = below
        self._most_drafts = most_drafts
        self._shop = shop
        self._start: dict[int, int] = {}  # where the scan of a list of candidates may begin
        self._shelf = Shelf()
        self._refused: dict[Stance, int] = {}  # drafts that can never be joined any more, one bit each
        self._gathered: list[tuple[Pod, Shape]] = []

    def place(self, pod: Pod, shape: Shape) -> int | Draft | None:
        """Place a pod: the row of its room, or its draft, or None."""
        if shape.volumes.problem:
            return None
        ladder = self.board.rulebook.ladder(shape)
        for stance in ladder:
            attempt = Attempt(shape, stance, Allowance(self.board.rulebook.rules(stance)))
            row = self._find_room(attempt)
            if row is not None:
                self.board.place(shape, row)
                return row
            draft = self._find_draft(pod, attempt)
            if draft is not None:
                return draft
            if stance is not ladder[-1] and self._dearer(attempt):
                return None  # a preference that could be kept is not given up because that costs more
        return None

    def settle_in_room(self, shape: Shape) -> int | None:
        """Place a pod in a room, whatever it prefers: the row of the first that takes it, or None."""
        if shape.volumes.problem:
            return None
        stance = self.board.rulebook.ladder(shape)[-1]
        row = self._find_room(Attempt(shape, stance, Allowance(self.board.rulebook.rules(stance))))
        if row is not None:
            self.board.place(shape, row)
        return row

    # -- rooms

    def _find_room(self, attempt: Attempt) -> int | None:
        shape, allowance = attempt.shape, attempt.allowance
        board = self.board
        candidates = board.base.candidates(shape, attempt.stance)
        known, free, removed = id(candidates), board.free, board.removed
        simple, ruled = not (shape.ports or shape.volumes.attachments), not allowance.rules.free
        full = True
        for position in range(self._start.get(known, 0), len(candidates)):
            row = candidates[position]
            left = free.get(row)  # none: as free as in the base state, where it had room
            if row in removed or (left is not None and not _holds(left, shape)):
                if full:  # room only shrinks: the next pod with this need may begin behind here
                    self._start[known] = position + 1
                continue
            full = False
            if (simple or self.suits(shape, row)) and not (ruled and allowance.room(row)):
                return row
        return None

    def suits(self, shape: Shape, row: int) -> bool:
        """Whether a room has the pod's ports free and can attach its volumes."""
        if shape.ports and conflict(shape.ports, self.board.ports.get(row, ())) is not None:
            return False
        return not shape.volumes.attachments or self.attachable(shape, row)

    def attachable(self, shape: Shape, row: int) -> bool:
        """Whether the pod's volumes stay within the limits of a room."""
        base = self.board.base
        limits = base.snapshot.storage.attach_limits.get(base.rooms.nodes[row].name)
        if not limits:
            return True
        present = self.board.attached.get(row, frozenset())
        brought = {*shape.volumes.attachments} - present
        drivers = {driver for driver, _ in brought if driver in limits}
        return all(sum(each == driver for each, _ in present | brought) <= limits[driver] for driver in drivers)

    # -- drafts

    def _find_draft(self, pod: Pod, attempt: Attempt) -> Draft | None:
        stance, rules = attempt.stance, attempt.allowance.rules
        refused = self._refused.get(stance, 0)
        far = [tally.counts for tally in rules.far if tally.by_host]
        spread = [(tally, itself) for tally, itself in rules.spread if tally.by_host]
        for position in self._shelf.each(refused, lambda options: hopeless(options, attempt)):
            draft = self.board.drafts[position]
            number = draft.number
            if any(number in counts for counts in far) or any(tally.full(number, itself) for tally, itself in spread):
                refused |= 1 << position  # nobody leaves a draft
                continue
            step = self.joining.step(draft, attempt)
            if isinstance(step, Step):
                self._refused[stance] = refused
                self._take(position, [(pod, attempt.shape)], step)
                return draft
            if rules.free:
                refused |= 1 << position  # a draft only narrows
        self._refused[stance] = refused
        return self._open(pod, attempt)

    def _take(self, position: int, pods: list[tuple[Pod, Shape]], step: Step) -> None:
        draft = self.board.drafts[position]
        self._shelf.take(position, len(draft.pods), draft.options)
        self.board.take(draft, pods, step)
        self._shelf.put(position, len(draft.pods), draft.options)

    def _open(self, pod: Pod, attempt: Attempt) -> Draft | None:
        if self._most_drafts is not None and len(self.board.drafts) >= self._most_drafts:
            return None
        for market in self.board.base.markets:
            draft = self.blank(market)
            if isinstance(draft, str):
                continue
            step = self.joining.step(draft, attempt)
            if isinstance(step, Step):
                position = len(self.board.drafts)
                self.board.open(draft)
                self._shelf.put(position, 0, draft.options)
                self._take(position, [(pod, attempt.shape)], step)
                if self._most_drafts is None:  # a run that may open one draft has nothing left to bound
                    self._shop.buy(draft)
                return draft
        return None

    def _dearer(self, attempt: Attempt) -> bool:
        """Whether a new node would take the pod, if this run might buy at any price."""
        if self._below == UNLIMITED and self._most_drafts is None:
            return False
        drafts = (self.blank(market, UNLIMITED) for market in self.board.base.markets)
        return any(
            isinstance(self.joining.step(draft, attempt), Step) for draft in drafts if not isinstance(draft, str)
        )

    def limits_against(self, market: Market, attempt: Attempt) -> str:
        """The limits without which a new node of a NodePool would take a pod; empty if it would not anyway."""
        root = self.board.base.root(market)
        if self._shop.root(market) is root:
            return ""
        draft = Draft(len(self.board.base.rooms) + len(self.board.drafts), root, self._nothing(), self._below)
        step = self.joining.step(draft, attempt)
        if not isinstance(step, Step):
            return ""
        draft.become([], step)
        return self._shop.blocking([draft])

    def _nothing(self) -> list[int]:
        return [0] * len(self.board.base.units.names)

    def blank(self, market: Market, below: float | None = None) -> Draft | str:
        """A new draft of a NodePool without pods, or why its limits allow none."""
        root = self._shop.root(market)
        if isinstance(root, str):
            return root
        number = len(self.board.base.rooms) + len(self.board.drafts)
        return Draft(number, root, self._nothing(), self._below if below is None else below)


def _holds(left: Sequence[int], shape: Shape) -> bool:
    for column, amount in shape.need:  # noqa: SIM110 - half as slow as all(), and asked very often
        if left[column] < amount:
            return False
    return True
