"""A snapshot as initial cluster: instances are simulated, uids are new, and owner references stay consistent."""

from dataclasses import replace
from pathlib import Path

import pytest

from acceptance.fleet import cluster, drifted, worker
from builders import claim as nodeclaim
from builders import nodepool, pod
from dovetail.core.lifecycle.nodepool_hash import has_changed, hash_annotations
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model import kinds
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.model.pause import PAUSE
from dovetail.model.snapshot import ClusterNode
from dovetail.model.snapshot_builder import snapshot_objects
from dovetail.sim.kubernetes.kinds import REPLICAS, resource_of
from dovetail.sim.scenario.from_snapshot import adopt
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

OFFICE = Path(__file__).parents[3] / "examples" / "snapshots" / "office-hours.yaml"


def adopted(snapshot=None):
    async def moved_in():
        world = World(WorldOptions())
        adopt(world, snapshot or read_snapshot_file(OFFICE))
        return world

    return run(moved_in())


def test_every_claim_has_its_node_and_provider_id():
    """The snapshot was written by hand: its claims have a provider id and no nodeName."""
    world = adopted()
    nodes = {node.name: node for node in world.values(kinds.NODE)}
    claims = world.values(kinds.NODE_CLAIM)
    assert {claim.status.node_name for claim in claims} == set(nodes)
    for claim in claims:
        node = nodes[claim.status.node_name]
        assert claim.provider_id == node.provider_id == f"kwok://{node.name}"
        assert TERMINATION_FINALIZER in claim.metadata.finalizers
        assert TERMINATION_FINALIZER in node.metadata.finalizers


def test_all_uids_are_new_and_owner_references_follow():
    """A snapshot of a simulated cluster has the identities that this world will give to others."""
    world = adopted()
    old = {
        value.metadata.uid
        for kind in (kinds.NODE, kinds.NODE_CLAIM, kinds.NODE_POOL, kinds.POD)
        for value in snapshot_objects(read_snapshot_file(OFFICE)).of(kind)
    }
    assert not old & set(world.store.by_uid)
    owners = {record.uid for record in world.store.all(REPLICAS)}
    owned = [owner.uid for pod in world.values(kinds.POD) for owner in pod.metadata.owner_references]
    assert owned
    assert set(owned) == owners


def of_another_template(name):
    """A node that was launched from an earlier template."""
    return worker(name, claim={"metadata": {"annotations": hash_annotations(nodepool(template={"expireAfter": "1h"}))}})


@pytest.mark.parametrize("old", [drifted("old"), of_another_template("old")], ids=["marked", "hash"])
def test_drift_is_kept_although_the_hash_of_the_template_changes(old):
    """Whether the cloud reported it, or the template is another one."""
    pool = nodepool()
    new = worker("new", claim={"metadata": {"annotations": hash_annotations(pool)}})
    world = adopted(cluster(old, new, pools=[pool]))
    (pool,) = world.values(kinds.NODE_POOL)
    changed = {claim.name: has_changed(claim.metadata.annotations, pool) for claim in world.values(kinds.NODE_CLAIM)}
    assert changed == {"old": True, "new": False}


def test_launches_and_pods_that_had_begun_are_finished():
    """A claim without a node is launched in the world; a pod without a node starts once it is bound."""
    begun = nodeclaim("begun", conditions={"Launched": "True", "Registered": "Unknown"}, status={"providerID": "i-1"})
    world = adopted(replace(cluster(ClusterNode(None, begun)), unbound_pods=(pod("web"),)))
    (found,) = world.values(kinds.NODE_CLAIM)
    assert (found.provider_id, found.status.conditions) == ("", ())
    assert [record.plain["status"]["phase"] for record in world.store.all(resource_of(kinds.POD))] == ["Pending"]


def test_running_pods_are_ready_unless_the_snapshot_says_otherwise():
    sick = pod("sick", on="a", status={"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]})
    world = adopted(cluster(worker("a", pod("well", on="a"), sick)))
    assert {each.name: each.ready for each in world.values(kinds.POD)} == {"well": True, "sick": False}


def test_a_pause_of_everything_is_kept():
    world = adopted(replace(cluster(worker("a")), pause="true"))
    (switch,) = world.values(kinds.CONFIG_MAP)
    assert switch.metadata.annotations == {PAUSE: "true"}
    assert adopted().values(kinds.CONFIG_MAP) == ()
