"""A preference that keeps nodes from being consolidated is told on the pod and in the log."""

import asyncio

import pytest

from stories import ACTING, deployment, live, node_class, pool

SAID = "has a preferred anti-affinity which prevents consolidation of node"


def apart(app, *, required):
    rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    if required:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    terms = [{"weight": 1, "podAffinityTerm": rule}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def bound(name, node, affinity):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": node, "affinity": affinity, "containers": [container]},
    }


@pytest.mark.parametrize("prefers", [True, False])
def test_the_pods_of_nodes_that_a_preference_keeps_are_told(caplog, prefers):
    """The scheduler of the world knows no preferences: the pods are bound by hand, and what brought the nodes goes."""

    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        affinity = apart("web", required=False) if prefers else {}
        for number, node in enumerate(life.nodes):
            life.world.apply(bound(f"web-{number}", node.name, affinity))
        life.world.apply(deployment("first", 0, cpu="100m", memory="100Mi"))
        await asyncio.sleep(1200)
        assert len(life.nodes) == (2 if prefers else 1)
        return life.events("PreferencePreventsConsolidation")

    first = deployment("first", 2, cpu="100m", memory="100Mi", affinity=apart("first", required=True))
    with caplog.at_level("INFO", "dovetail"):
        told = live(story, node_class(), pool(minSavings="0%"), first, settings=ACTING)
    names = {event.involved_object.name for event in told if event.involved_object.kind == "Pod"}
    assert names == ({"web-0", "web-1"} if prefers else set())
    assert all(SAID in event.message for event in told)
    logged = [each for each in caplog.records if "prevents consolidation" in each.message]
    assert {each.pod for each in logged} == {f"default/{name}" for name in names}
    assert all(each.prefers == "anti-affinity" for each in logged)
