"""Nodes with less capacity than promised, instances that are not terminated, and events about changed conditions."""

import asyncio

from dovetail.model.conditions import find
from dovetail.model.kinds import NODE
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import CloudError
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, deployment, live, node_class, pool


def shrink(life, share):
    """The kubelet reports this share of the memory that the instance type has."""
    (node,), (claim,) = life.nodes, life.claims
    whole = claim.status.capacity["memory"]
    body = {"status": {"capacity": {"memory": f"{int(whole.number * share)}"}}}
    life.world.api.patch(resource_of(NODE), node.key, Patch(body, subresource="status"))


def state(life):
    (claim,) = life.claims
    found = find(claim.status.conditions, "ConsistentStateFound")
    return (found.status, found.reason) if found is not None else None


def test_a_node_with_too_little_memory_is_reported_until_it_is_corrected():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        assert state(life) == ("True", "ConsistentStateFound")
        assert not life.events("FailedConsistencyCheck")
        shrink(life, 0.5)
        await life.until(lambda: state(life) == ("False", "ConsistencyCheckFailed"), within=30)
        await asyncio.sleep(5)
        (event,) = life.events("FailedConsistencyCheck")
        assert event.type == "Warning"
        assert event.involved_object.kind == "NodeClaim"
        assert "of resource memory, but found" in event.message
        assert "(50.0% of expected)" in event.message
        await asyncio.sleep(1300)
        assert life.events("FailedConsistencyCheck")[0].count == 3
        shrink(life, 0.95)
        await life.until(lambda: state(life) == ("True", "ConsistentStateFound"), within=30)
        (claim,) = life.claims
        assert claim.has("Ready")

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)


def test_conditions_that_change_and_finalizers_that_go_are_told_in_events():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (claim,) = life.claims
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.nodes and not life.claims)
        await asyncio.sleep(30)
        registered = [each for each in life.events("Registered") if each.involved_object.name == claim.name]
        finalized = {each.involved_object.kind for each in life.events("Finalized")}
        return [(each.type, each.message) for each in registered], finalized

    registered, finalized = live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)
    assert registered == [("Normal", "Registered changed from Unknown to True, reason Registered")]
    assert finalized == {"NodeClaim", "Node"}


class Refusing:
    """A cloud that refuses to terminate instances until it is allowed."""

    allowed = False

    async def before(self, call):
        if (call.operation, call.kind) == ("terminate", "Instance") and not self.allowed:
            raise CloudError("terminate_instances: UnauthorizedOperation: not you")

    async def after(self, call):
        pass


def test_an_instance_that_the_provider_does_not_terminate_is_told_in_an_event():
    faults = Refusing()

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (claim,) = life.claims
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: life.events("FailedTermination"))
        (event,) = life.events("FailedTermination")
        assert (event.type, event.involved_object.kind, event.involved_object.name) == (
            "Warning",
            "NodeClaim",
            claim.name,
        )
        assert event.message == (
            "Failed terminating the instance, which still runs and costs money:"
            " terminate_instances: UnauthorizedOperation: not you"
        )
        faults.allowed = True
        await life.until(lambda: not life.nodes and not life.claims)

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING, interference=faults)
