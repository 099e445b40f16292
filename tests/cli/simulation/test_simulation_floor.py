"""The lower bound that a simulation keeps from sample to sample is that of the current NodePools and prices."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from builders import claim, instance_type, nodepool, pod
from dovetail.cli.simulation.simulation_floor import SimulationFloor
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.sim.scenario.meter import BilledInstance

ON_DEMAND = [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]


class Cluster:
    """NodePools and a catalog that a test can change between two samples."""

    def __init__(self, pool):
        self.state = SimpleNamespace(nodepools=SimpleNamespace(items={}))
        self.catalog = (instance_type(),)
        self.floor = SimulationFloor(self.state, self)
        self.use(pool)

    def use(self, pool):
        self.state.nodepools.items = {pool.key: pool}

    async def instance_types(self, _pool):
        return self.catalog

    def bound(self, *instances):
        return asyncio.run(self.floor.of([(pod(cpu="2"), 1.0)], instances))


def test_a_new_price_gives_another_bound():
    cluster = Cluster(nodepool())
    before = cluster.bound()
    cluster.catalog = (instance_type(price=2.0),)
    assert cluster.bound() == pytest.approx(2 * before)


def test_an_edited_nodepool_gives_another_bound():
    cluster = Cluster(nodepool())
    before = cluster.bound()
    cluster.use(nodepool(template={"requirements": ON_DEMAND}))
    assert cluster.bound() == pytest.approx(before / 0.4)


def test_an_instance_that_is_no_longer_offered_counts_at_its_price_while_it_runs():
    cluster = Cluster(nodepool(template={"requirements": ON_DEMAND}))
    before = cluster.bound()
    labels = {INSTANCE_TYPE: "m.large", ZONE: "zone-a", CAPACITY_TYPE: "spot"}
    spot = claim(labels=labels)
    assert cluster.bound(BilledInstance("default", 0.1, 0.0, spot)) < before
    assert cluster.bound() == before


def test_counts_of_a_nodepool_leave_what_was_read():
    cluster = Cluster(nodepool())
    before, kept = cluster.bound(), cluster.floor._floor
    counted = nodepool()
    cluster.use(msgspec.structs.replace(counted, status=msgspec.structs.replace(counted.status, nodes=7)))
    assert (cluster.bound(), cluster.floor._floor) == (before, kept)
