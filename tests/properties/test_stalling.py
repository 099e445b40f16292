"""Laws of drains that budgets let go on only step by step."""

import random
from collections import Counter

import pytest

from dovetail.core.scheduling.drain_simulation import EvictionPermits
from dovetail.core.scheduling.removal import Bounds
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from properties.test_undo import state
from reference.clusters import random_cluster
from reference.drain import ends

NOTHING = Bounds(max_drafts=0)
"""What may be bought."""


def some_permits(dice, nodes):
    """Budgets, one for each workload or for none, that let go of one or two of its pods."""
    pods = [pod for node in nodes for pod in node.pods if pod.reschedulable]
    numbers = {}
    budgets = {
        pod.key: (numbers.setdefault(tuple(sorted(pod.metadata.labels.items())), len(numbers)),)
        for pod in pods
        if dice.random() < 0.8
    }
    return EvictionPermits({number: dice.choice((1, 1, 2)) for number in numbers.values()}, budgets)


@pytest.mark.parametrize("chunk", range(6))
def test_a_drain_stalls_where_the_reference_does_and_leaves_no_trace(chunk):
    seen = Counter()
    for seed in range(chunk * 100, chunk * 100 + 100):
        case = random_cluster(seed)
        removal_simulation = RemovalSimulation(case.snapshot, case.pools)
        before, dice = state(removal_simulation), random.Random(seed)  # noqa: S311 - for a test
        for row in removal_simulation.rows:
            rows = dice.sample(removal_simulation.rows, min(len(removal_simulation.rows), dice.choice((1, 1, 2, 3))))
            names = [removal_simulation.name(each) for each in rows]
            nodes = [node for node in case.snapshot.nodes if node.name in names]
            permits = some_permits(dice, nodes)
            expected = ends(case.snapshot, case.pools, names, permits.allowed, permits.budgets)
            found = removal_simulation.drain(rows, permits, NOTHING).blocker()
            assert (found is None) is expected, f"seed {seed}, {names}, {row}: {found and found.key}"
            seen[expected] += 1
            if removal_simulation.remove_together(rows, NOTHING).blocker is None:
                assert (removal_simulation.stalled(rows, permits, NOTHING) is None) is expected, (
                    f"seed {seed}, {names}, {row}"
                )
        assert state(removal_simulation) == before, f"seed {seed}"
    assert min(seen[True], seen[False]) > 5, seen
