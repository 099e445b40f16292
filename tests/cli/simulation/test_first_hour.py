"""How long a cluster is simulated for `dovetail adopt`."""

import pytest

from dovetail.cli.simulation.first_hour import simulated_minutes


@pytest.mark.parametrize(("nodes", "minutes"), [(0, 60), (300, 60), (1_000, 18), (100_000, 10)])
def test_a_large_cluster_is_simulated_for_less_than_an_hour(nodes, minutes):
    assert simulated_minutes(nodes) == minutes
