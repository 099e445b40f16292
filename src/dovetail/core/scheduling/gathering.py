"""Placing for a run that may open one draft at most: pods without rules join it together, not one after the other.

A pod is plain if nothing but its taints, labels and size decides where it may run, and no rule counts it. Whether a
draft holds a plain pod depends only on what is in it, and more never makes it easier: so several of them fit one after
the other if and only if they fit together. They are gathered until somebody has to know what the draft has become.
"""

from dovetail.core.scheduling.alternative import ANYWHERE
from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.domains import Allowance
from dovetail.core.scheduling.draft import Draft, Step
from dovetail.core.scheduling.joining import Attempt, fit
from dovetail.core.scheduling.ladder import Stance
from dovetail.core.scheduling.placing import Placing
from dovetail.core.scheduling.remembering import BEYOND
from dovetail.core.scheduling.shape import Shape
from dovetail.model.pod import Pod


class Gathering(Placing):
    """One run over a board, with plain pods held back while there is a draft that could take them."""

    def place_plain(self, pod: Pod, shape: Shape, stance: Stance) -> int | None:
        """Place a plain pod: the row of its room, BEYOND for the draft (it may turn out not to fit), or None."""
        row = self._first_room(shape, stance)
        if row is not None:
            self.board.fill(shape, row)
            return row
        if self.board.drafts:
            self._gathered.append((pod, shape))
            return BEYOND
        attempt = Attempt(shape, stance, Allowance(self.board.rulebook.rules(stance)))
        return None if self._open(pod, attempt) is None else BEYOND

    def _first_room(self, shape: Shape, stance: Stance) -> int | None:
        board = self.board
        candidates = board.base.candidates(shape, stance)
        free, removed, known = board.free, board.removed, id(candidates)
        for position in range(self._start.get(known, 0), len(candidates)):
            row = candidates[position]
            if row in removed:
                continue
            left = free.get(row)
            if left is not None:
                for column, amount in shape.need:
                    if left[column] < amount:
                        break
                else:
                    left = None
            if left is None:
                self._start[known] = position
                return row
        self._start[known] = len(candidates)
        return None

    def _find_draft(self, pod: Pod, attempt: Attempt) -> Draft | None:
        """There is one draft, or none yet: nothing to choose from."""
        if not self.board.drafts:
            return self._open(pod, attempt)
        draft = self.board.drafts[0]
        step = self.joining.step(draft, attempt)
        if not isinstance(step, Step):
            return None
        self._take(0, [(pod, attempt.shape)], step)
        return draft

    def _take(self, position: int, pods: list[tuple[Pod, Shape]], step: Step) -> None:
        self.board.take(self.board.drafts[position], pods, step)

    def settle(self) -> Pod | None:
        """Let the draft take everybody who was gathered; the first one it has no room for, or None."""
        if not self._gathered:
            return None
        gathered, self._gathered = self._gathered, []
        draft = self.board.drafts[0]
        step = self._together(draft, gathered)
        if step is not None:
            self._take(0, gathered, step)
            return None
        return self._one_by_one(draft, gathered)

    def _together(self, draft: Draft, gathered: list[tuple[Pod, Shape]]) -> Step | None:
        total, options = list(draft.total), draft.options
        seen: Shape | None = None
        for _, shape in gathered:
            for column, amount in shape.need:
                total[column] += amount
            if shape is seen:
                continue
            seen = shape
            (stance,) = self.board.rulebook.ladder(shape)
            if self.joining.untolerated(stance, options.market):
                return None
            narrowed = options.narrow(stance.alternatives[0])
            if isinstance(narrowed, str):
                return None
            options = narrowed
        step = fit(draft, options, total, draft.ports)
        return step if isinstance(step, Step) else None

    def _one_by_one(self, draft: Draft, gathered: list[tuple[Pod, Shape]]) -> Pod:
        for pod, shape in gathered:
            (stance,) = self.board.rulebook.ladder(shape)
            attempt = Attempt(shape, stance, Allowance(self.board.rulebook.rules(stance)))
            step = self.joining.step(draft, attempt)
            if not isinstance(step, Step):
                return pod
            self._take(0, [(pod, shape)], step)
        raise AssertionError("pods that fit one after the other fit together")


def plain_stance(board: Board, shape: Shape) -> Stance | None:
    """The only stance of a shape that is plain, or None if it is not."""
    ladder = board.rulebook.ladder(shape)
    stance = ladder[0]
    plain = (
        len(ladder) == 1
        and len(stance.alternatives) == 1
        and board.rulebook.rules(stance).free
        and not board.rulebook.counted_by[shape]
        and not shape.ports
        and not shape.volumes.attachments
        and not shape.volumes.problem
        and shape.volumes.on_drafts == (ANYWHERE,)
    )
    return stance if plain else None
