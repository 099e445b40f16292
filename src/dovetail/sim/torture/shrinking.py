"""Finds a short story that breaks the same invariant: leaves out half of it, then quarters, then single pieces.

Bounded by the number of times a story may be told again, so the answer is short, not always the shortest.
"""

from collections.abc import Callable

from dovetail.sim.torture.runner import TrialOutcome
from dovetail.sim.torture.trial import Trial

Tell = Callable[[Trial], TrialOutcome]


def shrink(outcome: TrialOutcome, tell: Tell, most: int = 60) -> TrialOutcome:
    """The outcome of the shortest story found that breaks the first invariant this one broke."""
    name = outcome.violations[0].invariant
    best, left = _without_the_rest(outcome, tell), most
    size = max(1, len(best.story.ids) // 2)
    while left > 0:
        smaller, left = _pass(best, size, name, tell, left)
        if smaller is None and size == 1:
            break
        best = smaller or best
        size = max(1, min(size // 2 if smaller is None else size, len(best.story.ids) // 2))
    return best


def _without_the_rest(outcome: TrialOutcome, tell: Tell) -> TrialOutcome:
    """What comes after the invariant was broken cannot have broken it."""
    at = outcome.violations[0].at
    shorter = outcome.story.keeping(lambda piece: piece.at <= at)
    again = tell(shorter)
    return again if _breaks(again, outcome.violations[0].invariant) else outcome


def _pass(best: TrialOutcome, size: int, name: str, tell: Tell, left: int) -> tuple[TrialOutcome | None, int]:
    """Leave out each stretch of `size` pieces in turn; the first that is not needed is gone."""
    found: TrialOutcome | None = None
    start = 0
    while left > 0 and start < len(best.story.ids):
        ids = best.story.ids
        again = tell(best.story.only([*ids[:start], *ids[start + size :]]))
        left -= 1
        if _breaks(again, name):
            best = found = again
        else:
            start += size
    return found, left


def _breaks(outcome: TrialOutcome, name: str) -> bool:
    return any(each.invariant == name for each in outcome.violations)
