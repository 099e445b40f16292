"""A spot interruption notice in the queue, with real controllers, a simulated cluster, and EC2 and SQS over HTTP."""

import json

import pytest

from cloud.aws.interruption.events import spot
from cloud.aws.living import OF_THE_CLUSTER, alive, ec2_pool
from dovetail.cloud.aws.catalog.offerings import OfferingKey
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from stories import deployment

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


@pytest.fixture
def life(moto, monkeypatch):
    return lambda story, *manifests, **given: alive(story, moto, monkeypatch, *manifests, **given)


def impatient(asked):
    """Limits long polls to a second: the clock of the loop is accelerated, that of moto is not."""
    asked.body = json.dumps(asked.given | {"WaitTimeSeconds": 1}).encode()


def test_a_spot_warning_drains_the_right_node_and_starts_its_replacement(life):
    async def story(life):
        life.proxy.on("ReceiveMessage", impatient)
        aws = life.account.aws
        url = (await aws.call("sqs", "create_queue", QueueName=life.account.name))["QueueUrl"]
        await life.until(lambda: life.running(2) and life.settled(), within=1800)
        before = {claim.provider_id: claim for claim in life.claims}
        warned, spared = life.claims
        offering = [warned.metadata.labels[label] for label in (CAPACITY_TYPE, INSTANCE_TYPE, ZONE)]
        assert offering[0] == "spot"
        instance = warned.provider_id.rpartition("/")[2]
        await aws.call("sqs", "send_message", QueueUrl=url, MessageBody="neither this")
        await aws.call("sqs", "send_message", QueueUrl=url, MessageBody=spot(instance, life.world.clock.now()))

        unavailable = life.parts.supplier.parts.unavailable
        await life.until(lambda: unavailable.is_unavailable(OfferingKey(*offering)), within=600)
        moved = lambda: warned.provider_id not in {each.provider_id for each in life.claims}  # noqa: E731
        await life.until(lambda: moved() and life.running(2) and life.settled(), within=1800)
        after = {claim.provider_id: claim for claim in life.claims}
        assert set(before) & set(after) == {spared.provider_id}
        [fresh] = set(after) - set(before)
        assert [after[fresh].metadata.labels[label] for label in (CAPACITY_TYPE, INSTANCE_TYPE, ZONE)] != offering
        assert {each.provider_id for each in await life.instances()} == set(after)
        assert len(life.proxy.fleets.launched) == 3
        assert {event.involved_object.name for event in life.events("SpotInterrupted")} >= {warned.name}
        assert life.proxy.calls["DeleteMessageBatch"] >= 2

    life(story, ec2_pool(), deployment(replicas=2, cpu="500m", affinity=APART), interruption_queue=OF_THE_CLUSTER)
