"""Why a pod fits nowhere: which constraint failed on how many nodes, what each NodePool said, what came closest."""

from collections import Counter

from dovetail.core.scheduling.domains import Allowance
from dovetail.core.scheduling.draft import Draft, Step
from dovetail.core.scheduling.joining import TOO_SMALL, Attempt
from dovetail.core.scheduling.placing import Placing
from dovetail.core.scheduling.ports import conflict
from dovetail.core.scheduling.rooms import hard
from dovetail.core.scheduling.shape import Shape
from dovetail.model.pod import Pod
from dovetail.model.quantity import Quantity
from dovetail.model.refusal import Refusal
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from dovetail.model.taints import untolerated

BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE})


class Explanation:
    """Reasons against the board as the run left it; worked out once a shape."""

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._board = placing.board
        self._known: dict[Shape, str] = {}

    def refusal(self, pod: Pod, shape: Shape) -> Refusal:
        """Why this pod has no place."""
        if shape not in self._known:
            self._known[shape] = self._why(shape)
        return Refusal("Unschedulable", f"pod/{pod.key}", self._known[shape])

    def _why(self, shape: Shape) -> str:
        if shape.volumes.problem:
            return shape.volumes.problem
        total = len(self._board.base.rooms)
        nodes = f"0/{total} nodes are available: {self.rooms(shape)}. " if total else ""
        pools = "; ".join(self._pools(self._attempt(shape))) or "no NodePool can make nodes now"
        return f"{nodes}No new node can take it: {pools}"

    def rooms(self, shape: Shape) -> str:
        """Which constraints failed, each with the number of rooms it failed on."""
        attempt = self._attempt(shape)
        reasons = Counter(reason for row in range(len(self._board.base.rooms)) for reason in self.room(attempt, row))
        return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))

    def _attempt(self, shape: Shape) -> Attempt:
        stance = self._board.rulebook.ladder(shape)[-1]
        return Attempt(shape, stance, Allowance(self._board.rulebook.rules(stance)))

    def room(self, attempt: Attempt, row: int) -> list[str]:
        """The first constraint that a room fails, in the scheduler's words; one for each resource that is short."""
        shape, stance, board = attempt.shape, attempt.stance, self._board
        taints = board.base.rooms.taints[row]
        taint = untolerated(stance.tolerations, hard(taints) if stance.soft else taints)
        if taint is not None:
            return [_taint_words(str(taint))]
        if row in board.base.rooms.going:
            return ["node(s) were on their way out"]
        if shape.volumes.attachments and not self._placing.attachable(shape, row):
            return ["node(s) exceed max volume count"]
        if shape.ports and conflict(shape.ports, board.ports.get(row, ())) is not None:
            return ["node(s) didn't have free ports for the requested pod ports"]
        left = board.left(row)
        short = [board.base.units.names[column] for column, amount in shape.need if left[column] < amount]
        if short:
            return [f"Insufficient {name}" for name in short]
        return [self._labels(attempt, row) or attempt.allowance.room(row)]

    def _labels(self, attempt: Attempt, row: int) -> str:
        rooms = self._board.base.rooms
        if not rooms.meeting(attempt.stance.alternatives)[row]:
            return "node(s) didn't match Pod's node affinity/selector"
        if not rooms.meeting(attempt.shape.volumes.on_rooms)[row]:
            return "node(s) had volume node affinity conflict"
        return ""

    def _pools(self, attempt: Attempt) -> list[str]:
        said = []
        for market in self._board.base.markets:
            draft = self._placing.blank(market)
            outcome = draft if isinstance(draft, str) else self._outcome(draft, attempt)
            limits = self._placing.limits_against(market, attempt) if not isinstance(draft, str) else ""
            outcome += f"; instance types that would do exceed limits ({limits})" if limits else ""
            said.append(f"nodepool {market.template.pool.name}: {outcome}")
        return said

    def _outcome(self, draft: Draft, attempt: Attempt) -> str:
        outcome = self._placing.joining.step(draft, attempt)
        assert not isinstance(outcome, Step), "a pod that a new node takes is not left over"
        if outcome != TOO_SMALL:
            return outcome
        return f"{outcome}{self._closest(draft, attempt)}"

    def _closest(self, draft: Draft, attempt: Attempt) -> str:
        """The type that is short of the fewest resources, and by how much."""
        best: tuple[int, float, str] | None = None
        for alternative in attempt.stance.alternatives:
            options = draft.options.narrow(alternative)
            if isinstance(options, str):
                continue
            for position, row in enumerate(options.net.tolist()):
                short = {column: amount - row[column] for column, amount in attempt.shape.need if row[column] < amount}
                missing = sum(gap / max(amount, 1) for (c, amount) in attempt.shape.need if (gap := short.get(c, 0)))
                words = ", ".join(self._gap(column, gap) for column, gap in sorted(short.items()))
                rank = (len(short), missing, f"{options.choice(position).type.name} is short of {words}")
                best = rank if best is None or rank < best else best
        return f"; closest: {best[2]}" if best is not None else ""

    def _gap(self, column: int, gap: int) -> str:
        name = self._board.base.units.names[column]
        if name == CPU:
            return f"{gap}m {name}"
        return f"{Quantity(gap * 10**9, binary=name in BYTES).canonical} {name}"


def _taint_words(taint: str) -> str:
    if taint.startswith("node.kubernetes.io/unschedulable"):
        return "node(s) were unschedulable"
    return f"node(s) had untolerated taint {{{taint}}}"
