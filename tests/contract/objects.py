"""Objects: created, read, patched and deleted as a real API server does it."""

import pytest

from contract.environment import Environment
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL, POD
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.ports.cluster import Deletion, ListOptions, Patch
from dovetail.ports.errors import AlreadyExists, Conflict, Invalid, NotFound
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, ConfigMapWithData

NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
FINALIZER = "contract.dovetail/hold"


async def make_map(env: Environment, data: dict[str, str] | None = None, **meta: object) -> ConfigMapWithData:
    """A ConfigMap: the plainest object there is."""
    metadata = ObjectMeta(name=env.name("map"), namespace=env.namespace, **meta)
    return await env.cluster.create(CONFIG_MAP, ConfigMapWithData(metadata=metadata, data=data or {}))


async def created_object_has_an_identity_and_can_be_read_back(env: Environment) -> None:
    made = await make_map(env, {"a": "1"}, labels={"l": "x"})
    assert made.metadata.uid
    assert made.metadata.resource_version
    assert made.metadata.creation_timestamp is not None
    assert made.metadata.creation_timestamp.microsecond == 0
    assert await env.cluster.get(CONFIG_MAP, made.key) == made


async def what_is_not_there_is_not_found(env: Environment) -> None:
    missing = env.key("missing")
    with pytest.raises(NotFound):
        await env.cluster.get(CONFIG_MAP, missing)
    with pytest.raises(NotFound):
        await env.cluster.patch(CONFIG_MAP, missing, Patch({"data": {"a": "1"}}))
    with pytest.raises(NotFound):
        await env.cluster.delete(CONFIG_MAP, missing)


async def a_name_can_be_taken_once(env: Environment) -> None:
    made = await make_map(env)
    with pytest.raises(AlreadyExists):
        await env.cluster.create(
            CONFIG_MAP, ConfigMapWithData(metadata=ObjectMeta(name=made.name, namespace=env.namespace))
        )


async def names_are_generated_on_request(env: Environment) -> None:
    wanted = ConfigMapWithData(metadata=ObjectMeta(generate_name="some-", namespace=env.namespace))
    first, second = [await env.cluster.create(CONFIG_MAP, wanted) for _ in range(2)]
    assert first.name != second.name
    assert first.name.startswith("some-")
    assert len(first.name) == len("some-") + 5


async def a_merge_patch_sets_keeps_and_removes(env: Environment) -> None:
    made = await make_map(env, {"kept": "1", "gone": "2", "changed": "3"}, labels={"l": "x"})
    body = {"data": {"gone": None, "changed": "4", "new": "5", "absent": None}, "metadata": {"labels": {"m": "y"}}}
    patched = await env.cluster.patch(CONFIG_MAP, made.key, Patch(body))
    assert patched.data == {"kept": "1", "changed": "4", "new": "5"}
    assert patched.metadata.labels == {"l": "x", "m": "y"}
    assert int(patched.metadata.resource_version) > int(made.metadata.resource_version)
    assert patched.metadata.uid == made.metadata.uid
    assert await env.cluster.get(CONFIG_MAP, made.key) == patched


async def a_patch_that_changes_nothing_is_no_write(env: Environment) -> None:
    made = await make_map(env, {"a": "1"})
    patched = await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"a": "1"}}))
    assert patched.metadata.resource_version == made.metadata.resource_version


async def a_patch_under_a_stale_version_conflicts_and_changes_nothing(env: Environment) -> None:
    made = await make_map(env, {"a": "1"})
    newer = await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"a": "2"}}, made.metadata.resource_version))
    with pytest.raises(Conflict):
        await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"a": "3"}}, made.metadata.resource_version))
    assert await env.cluster.get(CONFIG_MAP, made.key) == newer


async def a_node_keeps_its_status_at_creation_and_guards_it_later(env: Environment) -> None:
    node = await env.make_node(annotations={"node-ready.stage.kwok.x-k8s.io/delay": "24h"})
    assert str(node.status.allocatable["cpu"]) == "4"
    body = {"spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "1"}}}
    main = await env.cluster.patch(NODE, node.key, Patch(body))
    assert main.spec.unschedulable
    assert str(main.status.allocatable["cpu"]) == "4"
    body = {"spec": {"unschedulable": False}, "status": {"allocatable": {"cpu": "2"}}}
    status = await env.cluster.patch(NODE, node.key, Patch(body, subresource="status"))
    assert status.spec.unschedulable
    assert str(status.status.allocatable["cpu"]) == "2"


async def make_claim(env: Environment, **meta: object) -> Key:
    """A NodeClaim that nobody acts on."""
    name = env.name("claim")
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, **meta},
        "spec": {"nodeClassRef": NODE_CLASS, "requirements": []},
        "status": {"providerID": "kwok://written-at-creation"},
    }
    await env.apply(claim)
    return Key("", name)


async def a_custom_object_gets_its_status_by_the_subresource_alone(env: Environment) -> None:
    key = await make_claim(env)
    made = await env.cluster.get(NODE_CLAIM, key)
    assert not made.provider_id, "status is dropped at creation"
    body = {"status": {"providerID": "kwok://one"}, "metadata": {"labels": {"l": "x"}}}
    main = await env.cluster.patch(NODE_CLAIM, key, Patch(body))
    assert (main.provider_id, main.metadata.labels.get("l")) == ("", "x")
    body = {"status": {"providerID": "kwok://two"}, "metadata": {"labels": {"l": "y"}}}
    status = await env.cluster.patch(NODE_CLAIM, key, Patch(body, subresource="status"))
    assert (status.provider_id, status.metadata.labels.get("l")) == ("kwok://two", "x")


async def the_spec_of_a_node_claim_cannot_change(env: Environment) -> None:
    key = await make_claim(env)
    with pytest.raises(Invalid):
        await env.cluster.patch(NODE_CLAIM, key, Patch({"spec": {"nodeClassRef": {"name": "other"}}}))


async def the_generation_counts_changes_of_the_spec(env: Environment) -> None:
    name = env.name("pool")
    spec = {"template": {"spec": {"nodeClassRef": NODE_CLASS, "requirements": []}}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}
    await env.apply(pool)
    key = Key("", name)
    made = await env.cluster.get(NODE_POOL, key)
    labelled = await env.cluster.patch(NODE_POOL, key, Patch({"metadata": {"labels": {"l": "x"}}}))
    weighed = await env.cluster.patch(NODE_POOL, key, Patch({"spec": {"weight": 7}}))
    assert [each.metadata.generation for each in (made, labelled, weighed)] == [1, 1, 2]


async def a_pod_cannot_be_moved_by_a_patch(env: Environment) -> None:
    pod = await env.make_pod(spec={"schedulerName": "nobody"})
    with pytest.raises(Invalid):
        await env.cluster.patch(POD, pod.key, Patch({"spec": {"nodeName": "elsewhere"}}))


async def a_finalizer_holds_the_object_until_it_is_removed(env: Environment) -> None:
    made = await make_map(env, finalizers=(FINALIZER,))
    await env.cluster.delete(CONFIG_MAP, made.key)
    held = await env.cluster.get(CONFIG_MAP, made.key)
    assert held.deleting
    await env.cluster.delete(CONFIG_MAP, made.key)
    changed = await env.cluster.patch(CONFIG_MAP, made.key, Patch({"data": {"still": "writable"}}))
    assert changed.metadata.deletion_timestamp == held.metadata.deletion_timestamp
    with pytest.raises(Invalid):
        await env.cluster.patch(CONFIG_MAP, made.key, Patch({"metadata": {"finalizers": [FINALIZER, "a.b/late"]}}))
    await env.cluster.patch(CONFIG_MAP, made.key, Patch({"metadata": {"finalizers": None}}))
    with pytest.raises(NotFound):
        await env.cluster.get(CONFIG_MAP, made.key)


async def a_deletion_meant_for_another_object_conflicts(env: Environment) -> None:
    made = await make_map(env)
    with pytest.raises(Conflict):
        await env.cluster.delete(CONFIG_MAP, made.key, Deletion(uid="0b4d7a3e-0000-4000-8000-000000000000"))
    await env.cluster.delete(CONFIG_MAP, made.key, Deletion(uid=made.metadata.uid))
    with pytest.raises(NotFound):
        await env.cluster.get(CONFIG_MAP, made.key)


async def lists_are_narrowed_by_labels(env: Environment) -> None:
    ranks = {"one": {"rank": "1"}, "two": {"rank": "2"}, "none": {"other": "x"}}
    names = {rank: (await make_map(env, labels={**labels, "mine": "yes"})).name for rank, labels in ranks.items()}
    cases = {
        "rank=1": {"one"},
        "rank!=1": {"two", "none"},
        "rank in (1,2)": {"one", "two"},
        "rank notin (1)": {"two", "none"},
        "rank": {"one", "two"},
        "!rank": {"none"},
        "rank,rank!=2": {"one"},
    }
    for selector, expected in cases.items():
        options = ListOptions(namespace=env.namespace, label_selector=f"mine=yes,{selector}")
        found = await env.cluster.list(CONFIG_MAP, options)
        assert {item.name for item in found.items} == {names[each] for each in expected}, selector


async def lists_are_narrowed_by_fields(env: Environment) -> None:
    node = await env.make_ready_node()
    pod = await env.make_pod(on=node)
    await env.make_pod(spec={"schedulerName": "nobody"})
    await env.running(pod)
    for selector in (f"spec.nodeName={node.name}", f"metadata.name={pod.name}"):
        found = await env.cluster.list(POD, ListOptions(namespace=env.namespace, field_selector=selector))
        assert [item.name for item in found.items] == [pod.name], selector
    everywhere = await env.cluster.list(POD, ListOptions(field_selector=f"spec.nodeName={node.name}"))
    assert [item.name for item in everywhere.items] == [pod.name]


def owner(held: ConfigMapWithData) -> dict[str, object]:
    """A reference to a ConfigMap as owner."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": held.name, "uid": held.metadata.uid}


async def what_is_owned_goes_with_its_last_owner(env: Environment) -> None:
    first, second, owned = [await make_map(env) for _ in range(3)]
    references = {"metadata": {"ownerReferences": [owner(first), owner(second)]}}
    await env.cluster.patch(CONFIG_MAP, owned.key, Patch(references))

    async def one_owner_left() -> bool:
        return len((await env.cluster.get(CONFIG_MAP, owned.key)).metadata.owner_references) == 1

    async def gone() -> bool:
        found = await env.cluster.list(CONFIG_MAP, ListOptions(field_selector=f"metadata.name={owned.name}"))
        return not found.items

    await env.cluster.delete(CONFIG_MAP, first.key)
    await env.eventually(one_owner_left)
    await env.cluster.delete(CONFIG_MAP, second.key)
    await env.eventually(gone)


async def the_version_has_a_major_and_a_minor_number(env: Environment) -> None:
    major, minor = (await env.cluster.server_version()).split(".")
    assert (int(major), int(minor)) >= (1, 20)


CASES = (
    the_version_has_a_major_and_a_minor_number,
    created_object_has_an_identity_and_can_be_read_back,
    what_is_not_there_is_not_found,
    a_name_can_be_taken_once,
    names_are_generated_on_request,
    a_merge_patch_sets_keeps_and_removes,
    a_patch_that_changes_nothing_is_no_write,
    a_patch_under_a_stale_version_conflicts_and_changes_nothing,
    a_node_keeps_its_status_at_creation_and_guards_it_later,
    a_custom_object_gets_its_status_by_the_subresource_alone,
    the_spec_of_a_node_claim_cannot_change,
    the_generation_counts_changes_of_the_spec,
    a_pod_cannot_be_moved_by_a_patch,
    a_finalizer_holds_the_object_until_it_is_removed,
    a_deletion_meant_for_another_object_conflicts,
    lists_are_narrowed_by_labels,
    lists_are_narrowed_by_fields,
    what_is_owned_goes_with_its_last_owner,
)
