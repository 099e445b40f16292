"""Many nodes at once, on a real cluster; `make load` does the same with many more, and prints all figures."""

import sys

import pytest

from e2e.loading import Load, told

pytestmark = pytest.mark.once("speed and scale")

NODES = 30


def test_many_nodes_are_bought_given_back_and_no_law_is_broken(prepared, namespace):
    figures = Load(prepared, namespace, NODES, enough=0.7).live()
    sys.stdout.write(told(figures))
    assert figures.broken == []
    assert figures.restarts == 0
    assert figures.evictions > 0
    assert figures.nodes_after < figures.nodes
    assert 1 < figures.most_nodes_away <= 0.2 * figures.nodes + 1
    assert figures.requests < 90 * (figures.nodes + NODES), figures.requests_by
    assert figures.peak_memory_mib < 300
