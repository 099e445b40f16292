"""Nominated nodes: the scheduler tries them first, keeps their room, and drops the nomination when an attempt fails."""

import asyncio
from typing import Any

import pytest

from contract.environment import Environment
from dovetail.model.kinds import POD
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Invalid

GATED = {"schedulingGates": [{"name": "contract.dovetail/gate"}]}
ONE_POD = {"cpu": "150m", "memory": "1Gi", "pods": "10"}
OTHER_UID = "0b4d7a3e-0000-4000-8000-000000000000"


async def nominate(env: Environment, pod: Pod, node: str, uid: str = "") -> Pod:
    """Nominate the pod to a node."""
    body = {"metadata": {"uid": uid or pod.metadata.uid}, "status": {"nominatedNodeName": node}}
    return await env.cluster.patch(POD, pod.key, Patch(body, subresource="status"))


async def make_gated_pod(env: Environment, group: str, **spec: Any) -> Pod:
    """A pod that waits for its gate, for the nodes of a group."""
    return await env.make_pod(spec={"nodeSelector": {"group": group}, **GATED, **spec})


async def open_gate(env: Environment, pod: Pod) -> None:
    """Let the scheduler have the pod."""
    await env.cluster.patch(POD, pod.key, Patch({"spec": {"schedulingGates": None}}))


async def bound(env: Environment, pod: Pod) -> Pod:
    """The pod, once it has a node."""

    async def has_node() -> Pod | None:
        current = await env.cluster.get(POD, pod.key)
        return current if current.node_name else None

    found: Pod = await env.eventually(has_node)
    return found


async def refused(env: Environment, pod: Pod) -> Pod:
    """The pod, once the scheduler has found no node for it."""

    async def failed() -> Pod | None:
        current = await env.cluster.get(POD, pod.key)
        return current if current.failed_to_schedule else None

    found: Pod = await env.eventually(failed)
    return found


async def group_of(env: Environment, *rooms: dict[str, str], **parts: Any) -> tuple[str, list[Node]]:
    """The label of a group, and its nodes."""
    group = env.name("group")
    return group, [await env.make_ready_node(labels={"group": group}, room=room, **parts) for room in rooms]


async def nominated_pods_fill_their_node_although_another_is_empty(env: Environment) -> None:
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    group, nodes = await group_of(env, room, room)
    pods = [await make_gated_pod(env, group) for _ in range(6)]
    for pod in pods:
        await nominate(env, pod, nodes[1].name)
    for pod in pods:
        await open_gate(env, pod)
    assert {(await bound(env, pod)).node_name for pod in pods} == {nodes[1].name}


async def a_pod_whose_nominated_node_is_full_goes_to_another_at_once(env: Environment) -> None:
    group, nodes = await group_of(env, {**ONE_POD, "cpu": "50m"}, ONE_POD)
    pod = await make_gated_pod(env, group)
    await nominate(env, pod, nodes[0].name)
    await open_gate(env, pod)
    assert (await bound(env, pod)).node_name == nodes[1].name


async def a_nomination_keeps_room_from_pods_of_the_same_priority(env: Environment) -> None:
    group, nodes = await group_of(env, ONE_POD)
    first = await make_gated_pod(env, group)
    await nominate(env, first, nodes[0].name)
    await asyncio.sleep(1)
    second = await env.make_pod(spec={"nodeSelector": {"group": group}})
    await refused(env, second)
    await open_gate(env, first)
    assert (await bound(env, first)).node_name == nodes[0].name
    assert not (await env.cluster.get(POD, second.key)).node_name


async def a_nomination_keeps_no_room_from_pods_of_higher_priority(env: Environment) -> None:
    group, nodes = await group_of(env, ONE_POD)
    urgent = env.name("urgent")
    await env.apply(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": urgent}, "value": 1000}
    )
    first = await make_gated_pod(env, group)
    await nominate(env, first, nodes[0].name)
    await asyncio.sleep(1)
    second = await env.make_pod(spec={"nodeSelector": {"group": group}, "priorityClassName": urgent})
    assert (await bound(env, second)).node_name == nodes[0].name


async def the_room_is_free_again_when_the_nominated_pod_is_gone(env: Environment) -> None:
    group, nodes = await group_of(env, ONE_POD)
    first = await make_gated_pod(env, group)
    await nominate(env, first, nodes[0].name)
    await asyncio.sleep(1)
    await env.cluster.delete(POD, first.key)
    await asyncio.sleep(1)
    second = await env.make_pod(spec={"nodeSelector": {"group": group}})
    assert (await bound(env, second)).node_name == nodes[0].name


async def a_failed_attempt_ends_a_nomination(env: Environment) -> None:
    group = env.name("group")
    pod = await env.make_pod(spec={"nodeSelector": {"group": group}})
    await refused(env, pod)
    await nominate(env, pod, "not-there")
    await env.make_ready_node(labels={"group": group}, taints=[{"key": "closed", "effect": "NoSchedule"}])

    async def ended() -> bool:
        return not (await env.cluster.get(POD, pod.key)).status.nominated_node_name

    await env.eventually(ended, timeout=60)
    assert (await env.cluster.get(POD, pod.key)).provisionable


async def a_nomination_alone_causes_no_attempt(env: Environment) -> None:
    group = env.name("group")
    pod = await env.make_pod(spec={"nodeSelector": {"group": group}})
    await refused(env, pod)
    for _ in range(5):  # any other change in the cluster may cause an attempt
        await nominate(env, pod, "not-there")
        await asyncio.sleep(1)
        if (await env.cluster.get(POD, pod.key)).status.nominated_node_name == "not-there":
            return
    raise AssertionError("no nomination stayed for a second")


async def binding_ends_a_nomination_and_no_bound_pod_has_one(env: Environment) -> None:
    group, nodes = await group_of(env, ONE_POD)
    pod = await make_gated_pod(env, group)
    await nominate(env, pod, nodes[0].name)
    await open_gate(env, pod)
    assert not (await bound(env, pod)).status.nominated_node_name
    with pytest.raises(Invalid):
        await nominate(env, pod, nodes[0].name)


async def a_nomination_with_another_uid_is_refused(env: Environment) -> None:
    pod = await make_gated_pod(env, env.name("group"))
    with pytest.raises(Invalid):
        await nominate(env, pod, "not-there", OTHER_UID)
    assert not (await env.cluster.get(POD, pod.key)).status.nominated_node_name


CASES = (
    nominated_pods_fill_their_node_although_another_is_empty,
    a_pod_whose_nominated_node_is_full_goes_to_another_at_once,
    a_nomination_keeps_room_from_pods_of_the_same_priority,
    a_nomination_keeps_no_room_from_pods_of_higher_priority,
    the_room_is_free_again_when_the_nominated_pod_is_gone,
    a_failed_attempt_ends_a_nomination,
    a_nomination_alone_causes_no_attempt,
    binding_ends_a_nomination_and_no_bound_pod_has_one,
    a_nomination_with_another_uid_is_refused,
)
