"""A capacity block that ends: its node is drained before EC2 reclaims it, and its pods keep running."""

from datetime import timedelta

import pytest

from cloud.aws.living import alive, ec2_pool
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE
from dovetail.ports.cluster import Patch
from stories import deployment

PATIENT = 1800
TOLD = "CapacityReservationInstanceInterrupted"
EITHER = {"key": CAPACITY_TYPE, "operator": "In", "values": ["reserved", "on-demand"]}
M5 = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
PLACE = {"capacityReservationId": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large"}


@pytest.fixture
def life(moto, monkeypatch):
    return lambda story, *manifests, **given: alive(story, moto, monkeypatch, *manifests, **given)


def block(ends_at):
    more = {"reservationType": "capacity-block", "state": "active", "availableInstanceCount": 1}
    return PLACE | more | {"endDate": ends_at.strftime("%Y-%m-%dT%H:%M:%S.000Z")}


def test_the_node_of_a_block_that_ends_is_drained_in_time_and_its_pods_go_on_on_demand(life):
    async def story(life):
        key, now = Key("", "default"), life.world.clock.now
        life.proxy.reserves(block(now() + timedelta(hours=10)))
        terms = Patch({"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}})
        await life.world.patch(EC2_NODE_CLASS, key, terms)
        resolved = lambda: life.world.values(EC2_NODE_CLASS)[0].status.capacity_reservations  # noqa: E731
        await life.until(resolved, within=PATIENT)
        life.world.apply(deployment(replicas=1, cpu="500m"))
        await life.until(lambda: life.running(1) and life.settled(), within=PATIENT)
        [drawn] = life.claims
        assert drawn.metadata.labels[CAPACITY_TYPE] == "reserved"
        assert not life.events(TOLD)
        life.proxy.heal()
        life.proxy.reserves(block(now() + timedelta(minutes=40)))  # nobody waits for hours here
        gone = lambda: drawn.name not in {claim.name for claim in life.claims}  # noqa: E731
        await life.until(lambda: gone() and life.running(1) and life.settled(), within=2 * PATIENT)
        [other] = life.claims
        assert other.metadata.labels[CAPACITY_TYPE] == "on-demand"
        assert drawn.name in {event.involved_object.name for event in life.events(TOLD)}

    life(story, ec2_pool(EITHER, M5))
