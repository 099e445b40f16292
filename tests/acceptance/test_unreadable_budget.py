"""A NodePool with an invalid budget is blocked and reports it; other NodePools are not affected."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from dovetail.model.kinds import EVENT, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import NODEPOOL
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Invalid
from dovetail.sim.kubernetes.kinds import resource_of
from stories import GENERIC, deployment, live, node_class, node_pool

ACTING = replace(GENERIC, disruption="on")
FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def unvalidated(_resource, _before, after):
    """An API server without our schemas."""
    return after


def of_pool(life, name):
    return [node for node in life.nodes if node.metadata.labels[NODEPOOL] == name]


def condition(life, kind="ValidationSucceeded"):
    """Read as it is stored: a pool that cannot be decoded has one, too."""
    stored = next(each.plain for each in life.world.store.all(resource_of(NODE_POOL)) if each.meta["name"] == "red")
    return next((each for each in stored.get("status", {}).get("conditions", ()) if each["type"] == kind), {})


def warnings(life):
    told = [event for event in life.world.values(EVENT) if event.involved_object.name == "red"]
    return [event.message for event in told if event.type == "Warning"]


FAULTY = {
    "spec.disruption.budgets[0].schedule": {"budgets": [{"nodes": "5", "schedule": "0 0 30 2 *", "duration": "1h"}]},
    "spec.disruption.budgets[1].schedule": {
        "budgets": [{"nodes": "5"}, {"nodes": "5", "schedule": "61 * * * *", "duration": "1h"}]
    },
    "spec.disruption.budgets[0].nodes": {"budgets": [{"nodes": "some"}]},
    "spec.disruption.budgets[0].action": {"budgets": [{"nodes": "5", "action": "Boredom"}]},
    "spec.disruption.budgets[0].reasons": {"budgets": [{"nodes": "5", "reasons": []}]},
    "spec.disruption.budgets[0].duration": {"budgets": [{"nodes": "5", "schedule": "@daily", "duration": "soon"}]},
    "spec.disruption.budgets[0].duration: 'duration' must be longer than zero": {
        "budgets": [{"nodes": "5", "schedule": "@daily", "duration": "0m"}]
    },
    "spec.disruption.budgets[0]": {"budgets": [{"nodes": "5", "action": "Drift", "reasons": ["Drifted"]}]},
    "spec.disruption.budgets[0]:": {"budgets": [{"nodes": "5", "schedule": "@daily"}]},
    "spec.disruption.actionControls": {"actionControls": {"Boredom": {"disruptAfter": "1h"}}},
    "spec.disruption": {"actionControls": {"Drift": {}}, "genericPerActionControls": {"Drift": {}}},
}


@pytest.mark.parametrize("path", FAULTY)
def test_the_pool_is_blocked_and_says_so_and_the_others_go_on(path):
    async def scenario(life):
        await life.until(lambda: life.running(6) and life.settled())
        kept = len(of_pool(life, "red"))
        patch = Patch({"spec": {"disruption": {**FREELY, **FAULTY[path]}}})
        with suppress(Invalid):  # written, but the answer cannot be read
            await life.world.patch(NODE_POOL, Key("", "red"), patch)
        for name in ("red", "blue"):
            life.world.apply(deployment(name, 0, nodeSelector={NODEPOOL: name}))
        await life.until(lambda: not of_pool(life, "blue"))
        await asyncio.sleep(300)
        assert len(of_pool(life, "red")) == kept > 0
        assert condition(life)["status"] == "False"
        assert condition(life, "Ready")["status"] == "False"
        assert path in condition(life)["message"]
        assert "; " in condition(life)["message"], "the remedy"
        assert any(path in message for message in warnings(life))

        mended = dict.fromkeys(FAULTY[path], None)
        await life.world.patch(NODE_POOL, Key("", "red"), Patch({"spec": {"disruption": {**mended, **FREELY}}}))
        await life.until(lambda: condition(life)["status"] == "True" and condition(life, "Ready")["status"] == "True")
        await life.until(lambda: not of_pool(life, "red"))

    pools = [node_pool(name, disruption=FREELY) for name in ("red", "blue")]
    loads = [deployment(name, 3, nodeSelector={NODEPOOL: name}) for name in ("red", "blue")]
    live(scenario, node_class(), *pools, *loads, settings=ACTING, validate=unvalidated)


@pytest.mark.parametrize("window", [("@yearly", "8784h"), ("@daily", "100000h")], ids=str)
def test_a_window_that_never_closes_holds_its_own_pool_and_no_other(window):
    schedule, duration = window

    async def scenario(life):
        await life.until(lambda: life.running(6) and life.settled())
        kept = len(of_pool(life, "red"))
        for name in ("red", "blue"):
            life.world.apply(deployment(name, 0, nodeSelector={NODEPOOL: name}))
        await life.until(lambda: not of_pool(life, "blue"))
        assert len(of_pool(life, "red")) == kept > 0

    shut = {**FREELY, "budgets": [{"nodes": "0", "schedule": schedule, "duration": duration}]}
    pools = [node_pool("red", disruption=shut), node_pool("blue", disruption=FREELY)]
    loads = [deployment(name, 3, nodeSelector={NODEPOOL: name}) for name in ("red", "blue")]
    live(scenario, node_class(), *pools, *loads, settings=ACTING)
