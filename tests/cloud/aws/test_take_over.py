"""Taking over a cluster from another controller of the same API: its nodes stay, and nothing drifts."""

import asyncio

from cloud.aws.living import ON_DEMAND, alive, ec2_pool
from dovetail.cloud.aws.labels import CLAIM_UID_TAG, CLASS_HASH, CLASS_HASH_VERSION
from dovetail.model.kinds import EC2_NODE_CLASS, NODE_CLAIM, NODE_POOL
from dovetail.model.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION
from dovetail.ports.cluster import Patch
from stories import deployment

THEIRS = {NODEPOOL_HASH: "1111", NODEPOOL_HASH_VERSION: "v2", CLASS_HASH: "2222", CLASS_HASH_VERSION: "v6"}
AT_ONCE = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


async def disguise(life):
    """Write the hashes of the other controller, and remove the tags that only Dovetail sets on an instance."""
    for kind in (NODE_POOL, EC2_NODE_CLASS, NODE_CLAIM):
        for each in life.world.values(kind):
            await life.world.patch(kind, each.key, Patch({"metadata": {"annotations": THEIRS}}))
    ids = [each.id for each in await life.instances()]
    tags = [{"Key": name} for name in (CLAIM_UID_TAG, CLASS_HASH, CLASS_HASH_VERSION)]
    await life.account.aws.call("ec2", "delete_tags", Resources=ids, Tags=tags)


def test_nodes_of_another_controller_are_kept_and_do_not_drift(moto, monkeypatch):
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled(), within=300)
        before = {claim.provider_id for claim in life.claims}
        await life.stop()
        await disguise(life)
        life.parts = life._parts()  # a new process
        life.start()

        def adopted():
            return all(claim.metadata.annotations[CLASS_HASH_VERSION] != "v6" for claim in life.claims)

        await life.until(adopted, within=300)
        await asyncio.sleep(90)  # hurried: a look at every claim, and a round of garbage collection
        assert {claim.provider_id for claim in life.claims} == before
        assert not any(claim.has("Drifted") or claim.deleting for claim in life.claims)
        assert {each.provider_id for each in await life.instances()} == before
        assert life.running(2)
        assert len(life.proxy.fleets.launched) == len(before)

    pool = ec2_pool(ON_DEMAND, disruption=AT_ONCE)
    alive(story, moto, monkeypatch, pool, deployment(replicas=2, cpu="500m"))
