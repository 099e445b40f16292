"""A snapshot as initial cluster: instances are simulated, uids are new, and owner references stay consistent."""

from pathlib import Path

from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model import kinds
from dovetail.model.labels import TERMINATION_FINALIZER
from dovetail.model.snapshot_builder import snapshot_objects
from dovetail.sim.kubernetes.kinds import REPLICAS
from dovetail.sim.scenario.from_snapshot import adopt
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

OFFICE = Path(__file__).parents[3] / "examples" / "snapshots" / "office-hours.yaml"


def adopted():
    async def moved_in():
        world = World(WorldOptions())
        adopt(world, read_snapshot_file(OFFICE))
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
