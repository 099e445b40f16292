"""Law: whatever a sweep tried, it leaves everything as it was, bit for bit."""

import pytest

from dovetail.core.scheduling.sweep import Sweep
from dovetail.core.scheduling.tally import SpreadTally
from reference.clusters import random_cluster


def state(sweep):
    """Everything a run may change, as plain values."""
    board = sweep._board
    tallies = {id(tally): tally for counted in board.rulebook.counted_by.values() for tally in counted}
    books = {
        number: (
            dict(tally.counts),
            dict(tally.bins) if isinstance(tally, SpreadTally) else None,
        )
        for number, tally in tallies.items()
    }
    return (
        books,
        dict(board.free),
        dict(board.ports),
        dict(board.attached),
        dict(board.removed),
        list(board.drafts),
        [list(left) for left in board.base.free],
        board.journal.mark(),
    )


@pytest.mark.parametrize("chunk", range(6))
def test_removing_a_node_and_putting_it_back_changes_nothing(chunk):
    removed = 0
    for seed in range(chunk * 50, chunk * 50 + 50):
        case = random_cluster(seed)
        sweep = Sweep(case.snapshot, case.pools)
        before = state(sweep)
        first = [sweep.remove(row).kind for row in sweep.rows]
        assert state(sweep) == before, f"seed {seed}"
        assert [sweep.remove(row).kind for row in reversed(sweep.rows)][::-1] == first, f"seed {seed}"
        removed += len(first)
    assert removed > 50
