"""DaemonSets whose requests the API server fills in, from limits or from a LimitRange: no node is launched in vain."""

import asyncio

import pytest

from dovetail.model.labels import INSTANCE_TYPE
from stories import ACTING, deployment, live, node_class, node_pool

FIVE_MINUTES = 300.0
SIZES = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-2x-amd64-linux", "s-4x-amd64-linux"]}


def daemon_set(resources, namespace="kube-system"):
    container = {"name": "agent", "image": "agent", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


def limit_range(namespace="kube-system", **limits):
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": namespace},
        "spec": {"limits": [{"type": "Container", **limits}]},
    }


def claims_after_five_minutes(*manifests, settings):
    """How many NodeClaims were created for three pods of 1500m CPU, and how many of the pods are ready."""
    created = set()

    async def story(life):
        life.parts.manager.state.claims.listen(lambda _before, after: after and created.add(after.metadata.uid))
        life.world.apply(deployment(replicas=3, cpu="1500m", memory="512Mi"))
        await asyncio.sleep(FIVE_MINUTES)
        web = [pod for pod in life.pods if pod.metadata.labels.get("app") == "web"]
        return len(created), sum(pod.ready for pod in web)

    pool = node_pool(template={"requirements": [SIZES]})
    return live(story, node_class(), pool, *manifests, settings=settings)


@pytest.mark.parametrize("placed", ["in every container", "by the pod"])
def test_limits_of_a_daemon_set_count_as_its_requests(placed):
    daemons = daemon_set({"limits": {"cpu": "1"}})
    if placed == "by the pod":
        spec = daemons["spec"]["template"]["spec"]
        spec["resources"] = spec["containers"][0].pop("resources")
    created, ready = claims_after_five_minutes(daemons, settings=ACTING)
    assert (created, ready) == (3, 3)


@pytest.mark.parametrize("field", ["defaultRequest", "default", "max"])
def test_requests_from_a_limit_range_are_learned_from_the_first_pod(field):
    """A node that is launched before there is any pod of the DaemonSet may be too small. Nothing repeats that."""
    created, ready = claims_after_five_minutes(limit_range(**{field: {"cpu": "1"}}), daemon_set({}), settings=ACTING)
    assert ready == 3
    assert created <= 4


def test_a_larger_node_is_launched_before_the_one_that_is_too_small_is_consolidated():
    """The first node shows what the DaemonSet needs. Waiting until that node is gone would lose what it showed."""

    async def story(life):
        life.world.apply(deployment(replicas=1, cpu="1500m", memory="512Mi"))
        await asyncio.sleep(FIVE_MINUTES)
        (web,) = [pod for pod in life.pods if pod.metadata.labels.get("app") == "web"]
        return web.ready, len(life.nodes)

    pool = node_pool(template={"requirements": [SIZES]}, disruption={"consolidateAfter": "0s"})
    defaults = limit_range(defaultRequest={"cpu": "1"})
    assert live(story, node_class(), pool, defaults, daemon_set({}), settings=ACTING) == (True, 1)
