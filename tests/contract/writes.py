"""Writes: what the server takes of them, what it ignores, and what is too large."""

import warnings

import pytest

from contract.environment import Environment
from contract.objects import make_claim, make_map
from dovetail.model.cluster_objects import Lease, LeaseSpec
from dovetail.model.kinds import LEASE, NODE, NODE_CLAIM, POD, POD_DISRUPTION_BUDGET
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Conflict, Invalid, NotFound, Unavailable
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, ConfigMapWithData

TOO_LARGE = "a" * (1600 * 1024)


async def what_the_server_owns_is_ignored(env: Environment) -> None:
    uid = "0b4d7a3e-0000-4000-8000-000000000000"
    made = await make_map(env, uid=uid)
    assert made.metadata.uid != uid
    body = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generateName": "other-"}, "data": {"a": "1"}}
    patched = await env.cluster.patch(CONFIG_MAP, made.key, Patch(body))
    assert patched.metadata.creation_timestamp == made.metadata.creation_timestamp
    assert patched.data == {"a": "1"}


async def an_object_with_a_version_cannot_be_created(env: Environment) -> None:
    wanted = ConfigMapWithData(metadata=ObjectMeta(name=env.name("map"), namespace=env.namespace, resource_version="1"))
    with pytest.raises(Unavailable):
        await env.cluster.create(CONFIG_MAP, wanted)
    with pytest.raises(NotFound):
        await env.cluster.get(CONFIG_MAP, wanted.key)


async def an_object_too_large_for_storage_is_refused(env: Environment) -> None:
    warnings.simplefilter("ignore", ResourceWarning)  # aiohttp warns of bodies above 1 MiB
    key = env.key(env.name("lease"))
    meta = ObjectMeta(name=key.name, namespace=key.namespace)
    with pytest.raises(Invalid):
        await env.cluster.create(LEASE, Lease(metadata=meta, spec=LeaseSpec(holder_identity=TOO_LARGE)))
    with pytest.raises(NotFound):
        await env.cluster.get(LEASE, key)
    await env.cluster.create(LEASE, Lease(metadata=meta, spec=LeaseSpec(holder_identity="me")))
    with pytest.raises(Invalid):
        await env.cluster.patch(LEASE, key, Patch({"spec": {"holderIdentity": TOO_LARGE}}))
    assert (await env.cluster.get(LEASE, key)).spec.holder_identity == "me"


async def a_refusal_changes_nothing_and_leaves_the_version(env: Environment) -> None:
    made = await make_map(env, {"a": "1"})
    body = {"data": {"a": "2"}, "metadata": {"labels": {"bad": "a b"}}}
    with pytest.raises(Invalid):
        await env.cluster.patch(CONFIG_MAP, made.key, Patch(body))
    assert await env.cluster.get(CONFIG_MAP, made.key) == made


async def a_stale_write_conflicts_before_it_is_checked(env: Environment) -> None:
    made = await make_map(env, {"a": "1"})
    await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"a": "2"}}))
    body = {"metadata": {"labels": {"bad": "a b"}}}
    with pytest.raises((Conflict, Invalid)) as refused:
        await env.cluster.patch(CONFIG_MAP, made.key, Patch(body, made.metadata.resource_version))
    assert refused.type is Conflict


async def the_status_of_nodes_pods_and_budgets_takes_labels_along(env: Environment) -> None:
    node = await env.make_node(annotations={"node-ready.stage.kwok.x-k8s.io/delay": "24h"})
    pod = await env.make_pod(spec={"schedulerName": "nobody"})
    budget = env.key(await env.make_budget({"a": "b"}, minAvailable=1))
    patch = Patch({"metadata": {"labels": {"l": "x"}}}, subresource="status")
    for kind, key in ((NODE, node.key), (POD, pod.key), (POD_DISRUPTION_BUDGET, budget)):
        patched = await env.cluster.patch(kind, key, patch)
        assert patched.metadata.labels.get("l") == "x", kind
    key = await make_claim(env)
    assert "l" not in (await env.cluster.patch(NODE_CLAIM, key, patch)).metadata.labels


async def every_pod_tolerates_nodes_that_are_not_ready_for_a_while(env: Environment) -> None:
    pod = await env.make_pod(spec={"schedulerName": "nobody"})
    own = {"tolerations": [{"key": "a", "operator": "Exists"}]}
    patched = await env.cluster.patch(POD, pod.key, Patch({"spec": own}))
    keys = [toleration.key for toleration in patched.spec.tolerations]
    assert keys == ["a", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


async def a_node_has_its_capacity_allocatable_unless_it_says_otherwise(env: Environment) -> None:
    name = env.name("node")
    status = {"capacity": {"cpu": "4"}}
    await env.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    assert str((await env.cluster.get(NODE, Key("", name))).status.allocatable["cpu"]) == "4"


CASES = (
    what_the_server_owns_is_ignored,
    an_object_with_a_version_cannot_be_created,
    an_object_too_large_for_storage_is_refused,
    a_refusal_changes_nothing_and_leaves_the_version,
    a_stale_write_conflicts_before_it_is_checked,
    the_status_of_nodes_pods_and_budgets_takes_labels_along,
    every_pod_tolerates_nodes_that_are_not_ready_for_a_while,
    a_node_has_its_capacity_allocatable_unless_it_says_otherwise,
)
