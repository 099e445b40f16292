"""The life around the API: nodes come up, pods are bound, start and stop, workloads keep their pods."""

import asyncio
from collections import Counter
from typing import Any

from contract.environment import NODE_LABEL, Environment
from contract.evictions import gone, running_pods
from dovetail.model.kinds import DAEMON_SET, LEASE, NODE, POD
from dovetail.model.kube_object import Key
from dovetail.model.labels import ZONE
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Deletion, ListOptions, Patch
from dovetail.ports.errors import NotFound
from dovetail.sim.kubernetes.kinds import DEPLOYMENT, JOB

NOT_READY = "node.kubernetes.io/not-ready"


async def pods_of(env: Environment, app: str) -> list[Pod]:
    """The pods that carry this app label."""
    found = await env.cluster.list(POD, ListOptions(namespace=env.namespace, label_selector=f"app={app}"))
    return list(found.items)


async def a_node_comes_up_loses_its_taint_and_beats(env: Environment) -> None:
    node = await env.make_node()
    assert not node.ready
    assert any(taint.key == NOT_READY and taint.effect == "NoSchedule" for taint in node.spec.taints)

    async def up() -> bool:
        current = await env.cluster.get(NODE, node.key)
        return current.ready and not current.spec.taints

    async def beats() -> bool:
        try:
            lease = await env.cluster.get(LEASE, Key("kube-node-lease", node.name))
        except NotFound:
            return False
        return lease.spec.holder_identity is not None and lease.spec.renew_time is not None

    await env.eventually(up)
    await env.eventually(beats)


async def a_pod_takes_time_to_start_and_to_stop(env: Environment) -> None:
    node = await env.make_ready_node()
    delays = {"pod-ready.stage.kwok.x-k8s.io/delay": "1500ms", "pod-delete.stage.kwok.x-k8s.io/delay": "1500ms"}
    pod = await env.make_pod(on=node, annotations=delays)

    async def bound() -> Pod | None:
        current = await env.cluster.get(POD, pod.key)
        return current if current.node_name else None

    waiting: Pod = await env.eventually(bound)
    assert waiting.status.phase == "Pending"
    assert not waiting.ready
    running = await env.running(pod)
    assert running.node_name == node.name
    await env.cluster.delete(POD, pod.key)
    leaving = await env.cluster.get(POD, pod.key)
    assert leaving.deleting
    assert leaving.metadata.deletion_grace_period_seconds == 30
    assert leaving.status.phase == "Running"
    await gone(env, pod)


async def a_pod_goes_at_once_without_a_node_or_without_grace(env: Environment) -> None:
    unbound = await env.make_pod(spec={"schedulerName": "nobody"})
    await env.cluster.delete(POD, unbound.key)
    node = await env.make_ready_node()
    bound = await env.running(await env.make_pod(on=node))
    await env.cluster.delete(POD, bound.key, Deletion(uid=bound.metadata.uid, grace_seconds=0))
    left = await env.cluster.list(POD, ListOptions(namespace=env.namespace))
    assert not left.items


async def a_pod_that_fits_nowhere_says_so_and_is_bound_when_a_node_comes(env: Environment) -> None:
    wanted = env.name("wanted")
    pod = await env.make_pod(spec={"nodeSelector": {"pool": wanted}})

    async def refused() -> bool:
        return (await env.cluster.get(POD, pod.key)).provisionable

    await env.eventually(refused)
    await env.make_ready_node(labels={"pool": "other"})
    await env.make_ready_node(labels={"pool": wanted}, room={"cpu": "50m", "memory": "1Gi", "pods": "10"})
    taints = [{"key": "closed", "effect": "NoSchedule"}]
    await env.make_ready_node(labels={"pool": wanted}, taints=taints)
    await asyncio.sleep(1)
    assert await refused()
    right = await env.make_ready_node(labels={"pool": wanted})
    running = await env.running(pod)
    assert running.node_name == right.name
    assert not running.failed_to_schedule


async def a_deployment_keeps_its_pods(env: Environment) -> None:
    node = await env.make_ready_node()
    app = await env.make_deployment(3, on=node)
    pods = await running_pods(env, app, 3)
    assert all(pod.owned_by("ReplicaSet", "apps/v1") for pod in pods)
    await env.cluster.delete(POD, pods[0].key)
    replaced = await running_pods(env, app, 3)
    assert pods[0].name not in {pod.name for pod in replaced}
    await env.cluster.patch(DEPLOYMENT, env.key(app), Patch({"spec": {"replicas": 1}}))
    await running_pods(env, app, 1)
    await env.cluster.delete(DEPLOYMENT, env.key(app))

    async def empty() -> bool:
        return not await pods_of(env, app)

    await env.eventually(empty)


async def a_daemon_set_has_a_pod_on_every_node_that_takes_it(env: Environment) -> None:
    group = env.name("group")
    closed = [{"key": "closed", "effect": "NoSchedule"}]
    nodes = [await env.make_ready_node(labels={"group": group}) for _ in range(2)]
    await env.make_ready_node(labels={"group": group}, taints=closed)
    name = env.name("agent")
    template = {"metadata": {"labels": {"app": name}}, "spec": env.pod_spec(nodeSelector={"group": group})}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    meta = {"name": name, "namespace": env.namespace}
    await env.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec})
    pods = await running_pods(env, name, 2)
    assert {pod.node_name for pod in pods} == {node.name for node in nodes}
    assert all(pod.daemon for pod in pods)
    late = await env.make_ready_node(labels={"group": group})
    assert late.name in {pod.node_name for pod in await running_pods(env, name, 3)}
    await env.cluster.delete(DAEMON_SET, env.key(name))


async def the_pods_of_a_job_run_to_their_end(env: Environment) -> None:
    node = await env.make_ready_node()
    name = env.name("job")
    delay = {"pod-complete.stage.kwok.x-k8s.io/delay": "1s"}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": delay},
        "spec": env.pod_spec(node, restartPolicy="Never"),
    }
    spec = {"completions": 3, "parallelism": 2, "template": template}
    meta = {"name": name, "namespace": env.namespace}
    await env.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})

    async def complete() -> bool:
        status = (await env.cluster.get(JOB, env.key(name))).status
        return status.get("succeeded") == 3 and bool(status.get("completionTime"))

    await env.eventually(complete, 60.0)
    assert all(pod.status.phase == "Succeeded" for pod in await pods_of(env, name))


async def pods_that_repel_each_other_get_a_node_each(env: Environment) -> None:
    group = env.name("group")
    for _ in range(2):
        await env.make_ready_node(labels={"group": group})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"lonely": group}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"affinity": apart, "nodeSelector": {"group": group}}
    pods = [await env.make_pod(labels={"lonely": group}, spec=spec) for _ in range(3)]

    async def settled() -> list[Pod] | None:
        current = [await env.cluster.get(POD, pod.key) for pod in pods]
        return current if all(pod.node_name or pod.failed_to_schedule for pod in current) else None

    current: list[Pod] = await env.eventually(settled)
    places = Counter(pod.node_name for pod in current)
    assert sorted(places.values()) == [1, 1, 1]
    assert places[""] == 1


async def pods_are_spread_over_zones(env: Environment) -> None:
    group = env.name("group")
    nodes: dict[str, Node] = {}
    for zone in ("east", "west"):
        node = await env.make_ready_node(labels={"group": group, ZONE: zone})
        nodes[node.name] = node
    spread: dict[str, Any] = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"spread": group}},
    }
    spec = {"topologySpreadConstraints": [spread], "nodeSelector": {"group": group}}
    pods = [await env.make_pod(labels={"spread": group}, spec=spec) for _ in range(4)]
    running = [await env.running(pod) for pod in pods]
    zones = Counter(nodes[pod.node_name].metadata.labels[ZONE] for pod in running)
    assert zones == {"east": 2, "west": 2}


async def a_deleted_node_waits_for_its_finalizer(env: Environment) -> None:
    node = await env.make_ready_node(finalizers=["contract.dovetail/hold"])
    await env.cluster.delete(NODE, node.key)
    held = await env.cluster.get(NODE, node.key)
    assert held.deleting
    assert held.metadata.labels[NODE_LABEL] == node.name
    await env.cluster.patch(NODE, node.key, Patch({"metadata": {"finalizers": None}}))
    left = await env.cluster.list(NODE, ListOptions(field_selector=f"metadata.name={node.name}"))
    assert not left.items


CASES = (
    a_node_comes_up_loses_its_taint_and_beats,
    a_pod_takes_time_to_start_and_to_stop,
    a_pod_goes_at_once_without_a_node_or_without_grace,
    a_pod_that_fits_nowhere_says_so_and_is_bound_when_a_node_comes,
    a_deployment_keeps_its_pods,
    a_daemon_set_has_a_pod_on_every_node_that_takes_it,
    the_pods_of_a_job_run_to_their_end,
    pods_that_repel_each_other_get_a_node_each,
    pods_are_spread_over_zones,
    a_deleted_node_waits_for_its_finalizer,
)
