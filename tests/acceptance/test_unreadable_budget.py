"""A budget nobody can read reaches the controllers: its pool is blocked and says so, the others go on."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.model.kinds import NODE_POOL
from dovetail.model.labels import NODEPOOL
from dovetail.model.wire import Key
from dovetail.ports.cluster import Patch
from stories import GENERIC, deployment, live, node_class, node_pool

ACTING = replace(GENERIC, disruption="on")
FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def unvalidated(_resource, _before, after):
    """An API server without our schemas."""
    return after


def of_pool(life, name):
    return [node for node in life.nodes if node.metadata.labels[NODEPOOL] == name]


@pytest.mark.parametrize(
    "faulty",
    [
        {"budgets": [{"nodes": "5", "schedule": "0 0 30 2 *", "duration": "1h"}]},
        {"budgets": [{"nodes": "some"}]},
        {"budgets": [{"nodes": "5", "action": "Boredom"}]},
        {"budgets": [{"nodes": "5", "action": "Drift", "reasons": ["Drifted"]}]},
        {"budgets": [{"nodes": "5", "schedule": "@daily"}]},
        {"actionControls": {"Boredom": {"disruptAfter": "1h"}}},
        {"actionControls": {"Drift": {}}, "genericPerActionControls": {"Drift": {}}},
    ],
    ids=str,
)
def test_the_pool_is_blocked_and_says_so_and_the_others_go_on(faulty):
    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        kept = len(of_pool(life, "red"))
        patch = Patch({"spec": {"disruption": {**FREELY, **faulty}}})
        await life.world.patch(NODE_POOL, Key("", "red"), patch)
        for name in ("red", "blue"):
            life.world.apply(deployment(name, 0, nodeSelector={NODEPOOL: name}))
        await life.until(lambda: not of_pool(life, "blue"))
        await asyncio.sleep(300)
        assert len(of_pool(life, "red")) == kept > 0
        condition = next(each for each in life.pool("red").status.conditions if each.type == "ValidationSucceeded")
        assert condition.status == "False"
        assert condition.message
        told = [event for event in life.events("DisruptionBlocked") if event.involved_object.name == "red"]
        assert told

    pools = [node_pool(name, disruption=FREELY) for name in ("red", "blue")]
    loads = [deployment(name, 3, nodeSelector={NODEPOOL: name}) for name in ("red", "blue")]
    live(story, node_class(), *pools, *loads, settings=ACTING, validate=unvalidated)
