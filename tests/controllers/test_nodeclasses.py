"""Node classes are looked after when they change, when a claim of theirs goes, and when their time has come."""

import asyncio

import pytest

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.nodeclasses import NodeClassController
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.model.nodepool import NodeClassRef
from dovetail.ports.cloud import Kept
from dovetail.ports.cluster import Patch
from dovetail.settings import Settings
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World
from stories import node_pool

REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


class Keeper:
    """Notes what it was asked to look after."""

    node_class_kind = EC2_NODE_CLASS

    def __init__(self):
        self.kept = []
        self.told = []
        self.redefined = []
        self.shifted_zones = {}

    def definition(self, node_class):
        return node_class.metadata.annotations.get("stamp"), node_class.status.instance_profile

    async def keep(self, node_class, claims):
        names = tuple(claim.name for claim in claims)
        self.kept.append((node_class.name, names))
        return Kept(600.0, "Waiting" if node_class.deleting and names else "", self.shifted_zones)


class Cloud:
    well_known_labels = frozenset()

    def supports(self, ref):
        return ref.kind == "EC2NodeClass"


class Recorder:
    def __init__(self):
        self.reasons = []
        self.notices = []

    def publish(self, notice):
        self.reasons.append(notice.reason)
        self.notices.append(notice)


@pytest.fixture
def lived():
    """Run a story on a world with one class in it."""

    def living(story):
        async def main():
            world, nodeclass_reconciler, recorder = World(), Keeper(), Recorder()
            held = ObjectMeta(name="default", finalizers=("karpenter.k8s.aws/termination",))
            await world.create(EC2_NODE_CLASS, EC2NodeClass(metadata=held))
            state = ClusterState(world)
            context = ControllerContext(
                cluster=world, cloud=Cloud(), clock=world.clock, recorder=recorder, state=state, settings=Settings()
            )
            classes = NodeClassController(
                context,
                context.cloud,
                nodeclass_reconciler,
                nodeclass_reconciler.told.append,
                nodeclass_reconciler.redefined.append,
            )
            loops = [classes.run(), *(informer.run() for informer in state.informers)]
            tasks = [asyncio.create_task(loop) for loop in loops]
            try:
                await asyncio.sleep(1)
                await story(world, nodeclass_reconciler, recorder)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        run(main(), limit=3600)

    return living


def test_a_class_is_looked_after_at_once_and_again_when_its_time_has_come(lived):
    async def story(world, nodeclass_reconciler, recorder):
        assert nodeclass_reconciler.kept == [("default", ())]
        await asyncio.sleep(600)
        assert len(nodeclass_reconciler.kept) == 2
        assert recorder.reasons == []

    lived(story)


def test_what_the_keeper_writes_does_not_wake_it(lived):
    async def story(world, nodeclass_reconciler, recorder):
        status = Patch({"status": {"instanceProfile": "a"}}, subresource="status")
        await world.patch(EC2_NODE_CLASS, Key("", "default"), status)
        await asyncio.sleep(1)
        assert len(nodeclass_reconciler.kept) == 1
        assert nodeclass_reconciler.told == ["default", "default"]  # but pools hear of it
        await world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"spec": {"role": "a"}}))
        await asyncio.sleep(1)
        assert len(nodeclass_reconciler.kept) == 2

    lived(story)


def test_those_who_judge_drift_hear_only_of_what_they_judge_it_by(lived):
    async def story(world, nodeclass_reconciler, recorder):
        assert nodeclass_reconciler.redefined == ["default"]
        await world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"metadata": {"annotations": {"other": "a"}}}))
        await asyncio.sleep(1)
        assert nodeclass_reconciler.redefined == ["default"]
        await world.patch(EC2_NODE_CLASS, Key("", "default"), Patch({"metadata": {"annotations": {"stamp": "a"}}}))
        await asyncio.sleep(1)
        assert nodeclass_reconciler.redefined == ["default"] * 2

    lived(story)


def test_a_class_that_waits_is_looked_at_when_its_last_claim_goes(lived):
    async def story(world, nodeclass_reconciler, recorder):
        claim = NodeClaim(metadata=ObjectMeta(name="one"), spec=NodeClaimSpec(node_class_ref=REF))
        await world.create(NODE_CLAIM, claim)
        await world.delete(EC2_NODE_CLASS, Key("", "default"))
        await asyncio.sleep(1)
        assert nodeclass_reconciler.kept[-1] == ("default", ("one",))
        assert recorder.reasons == ["WaitingOnNodeClaimTermination"]
        await world.delete(NODE_CLAIM, Key("", "one"))
        await asyncio.sleep(1)
        assert nodeclass_reconciler.kept[-1] == ("default", ())

    lived(story)


def test_a_zonal_shift_is_told_on_the_pools_that_may_use_the_zone_when_it_begins_and_ends(lived):
    def told(recorder):
        return [(each.about.name, each.reason, each.warning, each.message) for each in recorder.notices]

    async def story(world, nodeclass_reconciler, recorder):
        for name, zones in (("any", []), ("there", ["us-east-1a"]), ("elsewhere", ["us-east-1b"])):
            wanted = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}] if zones else []
            ref = {"group": REF.group, "kind": REF.kind, "name": "default"}
            world.apply(node_pool(name, template={"nodeClassRef": ref, "requirements": wanted}))
        other = {"group": REF.group, "kind": REF.kind, "name": "other"}
        world.apply(node_pool("another-class", template={"nodeClassRef": other}))
        nodeclass_reconciler.shifted_zones = {"us-east-1a": "use1-az1"}
        await asyncio.sleep(1300)
        began = "Zonal shift away from zone us-east-1a (use1-az1): no node is launched there"
        assert told(recorder) == [(name, "ZonalShiftActive", True, began) for name in ("any", "there")]
        recorder.notices.clear()
        nodeclass_reconciler.shifted_zones = {}
        await asyncio.sleep(1300)
        ended = "Zonal shift ended in zone us-east-1a (use1-az1): nodes are launched there again"
        assert told(recorder) == [(name, "ZonalShiftCleared", False, ended) for name in ("any", "there")]

    lived(story)
