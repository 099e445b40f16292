"""A generated cluster has the requested nodes and pods, and only offerings that its NodePools allow."""

from collections import Counter

import pytest

from builders import TYPES, nodepool
from dovetail.model.labels import CAPACITY_TYPE
from dovetail.model.resources import Quantity
from dovetail.sim.scenario.document import Generate, PodSize
from dovetail.sim.scenario.generate import generate
from dovetail.sim.scenario.parsing import Percent, ScenarioInvalid

ON_DEMAND = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]}


def size(cpu="500m", memory="1Gi", weight=1.0):
    return PodSize(cpu=Quantity.of(cpu), memory=Quantity.of(memory), weight=weight)


def made(seed=0, pools=None, **wanted):
    pools = pools or [nodepool(template=ON_DEMAND)]
    asked = Generate(**{"nodes": 10, "pods": 60, "mix": (size(), size("1", "4Gi")), **wanted})
    return generate(asked, seed, pools, {pool.name: TYPES for pool in pools})


def test_numbers_of_nodes_pods_and_workloads_are_as_requested():
    nodes = made(nodes=13, pods=90, workloads=9)
    assert len(nodes) == len({each.name for each in nodes}) == 13
    assert sum(len(each.workloads) for each in nodes) == 90
    assert len({workload.name for each in nodes for workload in each.workloads}) == 9


@pytest.mark.parametrize("filled", ["40%", "100%"])
def test_every_node_is_allowed_by_its_pool_and_fits_its_pods(filled):
    for node in made(filled=Percent(filled)):
        assert node.offering in node.type.offerings
        assert node.offering.capacity_type == "on-demand"
        cpu = sum(workload.size.cpu.milli for workload in node.workloads)
        memory = sum(workload.size.memory.units for workload in node.workloads)
        part = Percent(filled).number / 100
        assert cpu <= node.type.allocatable["cpu"].milli * part
        assert memory <= node.type.allocatable["memory"].units * part


def test_pools_get_their_share_and_the_pods_of_a_workload_stay_in_its_pool():
    pools = [nodepool("a"), nodepool("b"), nodepool("c")]
    nodes = made(pools=pools, nodes=8, pods=80, nodepools={"a": 3, "b": 1})
    assert Counter(each.pool.name for each in nodes) == {"a": 6, "b": 2}
    for node in nodes:
        assert {workload.pool.name for workload in node.workloads} <= {node.pool.name}


def test_the_result_depends_only_on_the_seed():
    def described(nodes):
        return [(each.name, each.age, each.type.name, [workload.name for workload in each.workloads]) for each in nodes]

    assert described(made(1)) == described(made(1))
    assert described(made(1)) != described(made(2))


def test_a_seed_of_the_generated_cluster_overrides_the_seed_of_the_scenario():
    wanted = Generate(nodes=10, pods=60, seed=5)
    first, second = (generate(wanted, seed, [nodepool()], {"default": TYPES}) for seed in (1, 2))
    assert [each.type.name for each in first] == [each.type.name for each in second]
    assert [each.age for each in first] == [each.age for each in second]


def test_sizes_occur_by_weight():
    nodes = made(nodes=60, pods=800, workloads=400, mix=(size(weight=9), size("2", "2Gi", 1)))
    small = sum(workload.size.cpu.milli == 500 for each in nodes for workload in each.workloads)
    assert 0.8 < small / 800 < 0.97


def test_nodes_may_be_empty():
    assert sum(len(each.workloads) for each in made(pods=0)) == 0
    assert all(each.type.name == "m.small" for each in made(pods=0))


def test_pods_that_fit_no_node_are_a_fault_with_a_remedy():
    with pytest.raises(ScenarioInvalid) as caught:
        made(nodes=2, pods=500)
    (fault,) = caught.value.faults
    assert fault.path == "spec.generate"
    assert "pods do not fit 2 nodes of the largest types that NodePool default allows, 70% full" in fault.problem
    assert "more nodes" in fault.remedy


def test_an_unknown_nodepool_is_a_fault():
    with pytest.raises(ScenarioInvalid, match=r"nodepools.other: there is no such NodePool; there are: default"):
        made(nodepools={"other": 1.0})
