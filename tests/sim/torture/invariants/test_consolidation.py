"""The invariant on the destinations of consolidation: the pods of a node must fit on nodes that stay."""

import asyncio
import json

import pytest

from dovetail.cli.torture import start_controllers
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.torture.cluster_generator import CLASS_REF, TOLERATES_ALL
from dovetail.sim.torture.invariants.consolidation import DestinationsAreQuiet
from dovetail.sim.torture.invariants.observer import MAX_STALENESS, Observer
from dovetail.sim.torture.replica import Supervisor
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

POOL_LABEL = {"karpenter.sh/nodepool": "pool"}
INITIALIZED = {"karpenter.sh/initialized": "true"}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "pool"},
    "spec": {
        "template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": []}},
        "disruption": {"consolidateAfter": "0s"},
    },
}


def add_node(world, name, *pods, labels=INITIALIZED):
    """Add a node with 2 CPUs, its NodeClaim, and a pod for each request of CPU."""
    claim = {"name": name, "labels": POOL_LABEL}
    spec = {"nodeClassRef": CLASS_REF, "requirements": []}
    world.apply({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": claim, "spec": spec})
    world.api.patch(NODE_CLAIM, Key("", name), Patch({"status": {"providerID": name}}, subresource="status"))
    size = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {**POOL_LABEL, **labels}}}
    world.apply({**node, "spec": {"providerID": name}, "status": {"capacity": size, "allocatable": size}})
    for number, cpu in enumerate(pods):
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        pod = {"nodeName": name, "containers": [container], "tolerations": TOLERATES_ALL}
        meta = {"name": f"{name}-{number}", "namespace": "default"}
        world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})


def select(world, name, command):
    """Write the record of a command that deletes a node without a replacement."""
    record = {"id": command, "reason": "Underutilized", "candidates": 1, "replacements": 0}
    annotations = {"dovetail.sh/command": json.dumps(record)}
    world.api.patch(NODE_CLAIM, Key("", name), Patch({"metadata": {"annotations": annotations}}))


def is_reported(add_others, *, removed=(), since=MAX_STALENESS + 1.0):
    """Whether the invariant reports the consolidation of "a", which has two pods of 900m."""

    async def consolidate():
        world = World()
        observer = Observer(world, Supervisor(world, start_controllers, lambda *_: None))
        world.store.listen_to_all(observer.on_change)
        world.apply(POOL)
        add_node(world, "a", "900m", "900m")
        add_others(world)
        await asyncio.sleep(MAX_STALENESS + 1.0)
        for name in removed:
            select(world, name, "earlier")
        await asyncio.sleep(since)
        select(world, "a", "now")
        await asyncio.sleep(1.0)  # listeners of the store are notified later
        DestinationsAreQuiet(observer).claim_marked(observer.claims["a"], "Underutilized")
        return bool(observer.violations)

    return run(consolidate())


def two_half_full_nodes(world):
    add_node(world, "b", "1100m")
    add_node(world, "c", "1100m")


def one_empty_node(world):
    add_node(world, "b")


def two_half_full_nodes_and_an_overdrawn_one(world):
    two_half_full_nodes(world)
    add_node(world, "d", "2050m")


def two_nodes_that_are_too_full(world):
    add_node(world, "b", "1200m")
    add_node(world, "c", "1200m")


def one_half_full_node(world):
    add_node(world, "b", "1100m")


def a_node_that_starts(world):
    add_node(world, "b", labels={})


@pytest.mark.parametrize("add_others", [one_empty_node, two_half_full_nodes, two_half_full_nodes_and_an_overdrawn_one])
def test_pods_that_fit_on_nodes_that_stay_are_not_reported(add_others):
    assert not is_reported(add_others)


@pytest.mark.parametrize("add_others", [two_nodes_that_are_too_full, one_half_full_node, a_node_that_starts])
def test_pods_that_do_not_fit_on_initialized_nodes_are_reported(add_others):
    assert is_reported(add_others)


def test_a_node_that_a_command_removes_is_no_destination_whatever_the_pods_tolerate():
    assert is_reported(one_empty_node, removed=["b"])


def test_a_command_that_the_controllers_may_not_have_seen_yet_does_not_count():
    assert not is_reported(one_empty_node, removed=["b"], since=MAX_STALENESS / 2)
