"""The invariant on repair counts the nodes of a NodePool as the circuit breaker does: every Node with its label."""

import asyncio

import pytest

from dovetail.cli.torture import start_controllers
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from dovetail.sim.torture.cluster_generator import CLASS_REF
from dovetail.sim.torture.invariants.deletions import RepairFollowsPolicy
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.replica import Supervisor
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, World

LABELS = {"karpenter.sh/nodepool": "pool"}
BEFORE_THE_TOLERATION_ENDS = 590.0
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "pool"},
    "spec": {"repair": {}, "template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": []}}},
}


def add_node(world, name, ready="True", *, labels=LABELS, claimed=True):
    """Add a Node. One that is not `claimed` was just launched: no NodeClaim has its provider id yet."""
    claim = {"name": name, "labels": LABELS}
    spec = {"nodeClassRef": CLASS_REF, "requirements": []}
    world.apply({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": claim, "spec": spec})
    if claimed:
        conditions = [{"type": each, "status": "True"} for each in ("Launched", "Registered", "Initialized")]
        status = {"providerID": name, "conditions": conditions}
        world.api.patch(NODE_CLAIM, Key("", name), Patch({"status": status}, subresource="status"))
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": world.api.timestamp()}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    world.apply({**node, "spec": {"providerID": name}, "status": {"conditions": [condition]}})


def violations(*, healthy, unhealthy, launched=0, of_other_pools=0, wait=600.0):
    """What the invariant reports when an unhealthy node is deleted `wait` seconds after it became unhealthy."""

    async def delete_one():
        world = World()
        observer = Observer(world, Supervisor(world, start_controllers, lambda *_: None))
        invariant = RepairFollowsPolicy(observer)
        world.store.listen_to_all(observer.on_change)
        world.apply(POOL)
        for number in range(unhealthy):
            add_node(world, f"unhealthy-{number}", "False")
        for number in range(healthy):
            add_node(world, f"healthy-{number}")
        await asyncio.sleep(wait)
        for number in range(launched):
            add_node(world, f"launched-{number}", claimed=False)
        for number in range(of_other_pools):
            add_node(world, f"other-{number}", labels={"karpenter.sh/nodepool": "other"}, claimed=False)
        await asyncio.sleep(1.0)  # listeners of the store are notified later
        invariant.before_call(ApiCall("delete", "NodeClaim", Key("", "unhealthy-0")))
        return [each.message for each in observer.violations]

    return run(delete_one())


@pytest.mark.parametrize(
    ("healthy", "unhealthy", "launched"), [(0, 1, 0), (4, 1, 0), (4, 2, 0), (3, 2, 1), (0, 2, 4), (8, 3, 0)]
)
def test_up_to_a_fifth_of_the_nodes_may_be_unhealthy_and_new_nodes_count(healthy, unhealthy, launched):
    assert violations(healthy=healthy, unhealthy=unhealthy, launched=launched) == []


@pytest.mark.parametrize(("healthy", "unhealthy", "launched"), [(0, 2, 0), (3, 2, 0), (2, 2, 1), (7, 3, 0), (3, 3, 4)])
def test_repair_of_more_than_a_fifth_of_the_nodes_is_reported(healthy, unhealthy, launched):
    total = healthy + unhealthy + launched
    expected = f"{unhealthy} unhealthy nodes in pool; repair stops above {-(-total // 5)}"
    assert violations(healthy=healthy, unhealthy=unhealthy, launched=launched) == [
        f"unhealthy-0 is repaired with {expected}"
    ]


def test_nodes_of_other_pools_do_not_count():
    assert len(violations(healthy=3, unhealthy=2, of_other_pools=5)) == 1


def test_repair_before_the_toleration_ends_is_reported():
    expected = "unhealthy-0 is unhealthy and deleted before the toleration of pool ends"
    assert violations(healthy=4, unhealthy=1, wait=BEFORE_THE_TOLERATION_ENDS) == [expected]
