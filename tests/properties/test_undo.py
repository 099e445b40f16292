"""Law: whatever a sweep tried, it leaves everything as it was, bit for bit."""

import pytest

from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.scheduling.topology_counts import SpreadCounts
from reference.clusters import random_cluster


def state(removal_simulation):
    """Everything a run may change, as plain values."""
    solver_state = removal_simulation._solver_state
    all_counts = {
        id(topology_counts): topology_counts
        for counted in solver_state.topology.counted_by.values()
        for topology_counts in counted
    }
    counts_by_rule = {
        number: (
            dict(topology_counts.counts),
            dict(topology_counts.nodes_by_domain) if isinstance(topology_counts, SpreadCounts) else None,
        )
        for number, topology_counts in all_counts.items()
    }
    return (
        counts_by_rule,
        dict(solver_state.topology.host_pods.pods),
        dict(solver_state.free),
        dict(solver_state.ports),
        dict(solver_state.attached),
        dict(solver_state.removed),
        list(solver_state.drafts),
        [list(left) for left in solver_state.problem.free],
        solver_state.journal.mark(),
    )


@pytest.mark.parametrize("chunk", range(6))
def test_removing_a_node_and_putting_it_back_changes_nothing(chunk):
    removed = 0
    for seed in range(chunk * 50, chunk * 50 + 50):
        case = random_cluster(seed)
        removal_simulation = RemovalSimulation(case.snapshot, case.pools)
        before = state(removal_simulation)
        first = [removal_simulation.remove(row).kind for row in removal_simulation.rows]
        assert state(removal_simulation) == before, f"seed {seed}"
        assert [removal_simulation.remove(row).kind for row in reversed(removal_simulation.rows)][::-1] == first, (
            f"seed {seed}"
        )
        removed += len(first)
    assert removed > 50
