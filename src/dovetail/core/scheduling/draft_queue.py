"""The drafts of a run in the order they are tried: fewest pods first, then the oldest.

A set of drafts is one integer with bit i set for draft i. There is one such set for each number of pods and each
value of draft options, so drafts that refused a pod, or whose options cannot accept it, are skipped thousands at a
time with `&` and `~`. The lowest set bit, `bits & -bits`, is the oldest draft.

Invariant: each draft is in exactly one set, that of its current number of pods and options.
"""

from collections.abc import Callable, Iterator

from dovetail.core.scheduling.draft_options import DraftOptions


class DraftQueue:
    """Sets of draft positions, by number of pods and by options; bit i of a set is draft i."""

    def __init__(self) -> None:
        self._by_count: dict[int, dict[DraftOptions, int]] = {}

    def put(self, position: int, count: int, options: DraftOptions) -> None:
        """A draft that has `count` pods now."""
        alike = self._by_count.setdefault(count, {})
        alike[options] = alike.get(options, 0) | 1 << position

    def take(self, position: int, count: int, options: DraftOptions) -> None:
        """A draft is taken from where it was put."""
        alike = self._by_count[count]
        alike[options] ^= 1 << position
        if not alike[options]:
            del alike[options]
            if not alike:
                del self._by_count[count]

    def each(self, refused: int, hopeless: Callable[[DraftOptions], bool]) -> Iterator[int]:
        """The positions to try: all but the refused, and those whose options are hopeless."""
        known: dict[DraftOptions, bool] = {}
        for count in sorted(self._by_count):
            waiting = 0
            for options, positions in self._by_count[count].items():
                left = positions & ~refused
                if left and options not in known:
                    known[options] = hopeless(options)
                if left and not known[options]:
                    waiting |= left
            while waiting:
                lowest = waiting & -waiting  # the lowest set bit: the oldest draft
                waiting ^= lowest
                yield lowest.bit_length() - 1
