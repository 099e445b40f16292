"""Writes a generated cluster into a world, with objects in the state of a cluster that has run for a while.

Creates the NodeClaims, Nodes and pods, the ReplicaSets that own the pods, and their PodDisruptionBudgets, with creation
times before the start of the scenario. Uids derive from kind and name, so that equal scenarios give equal objects.
"""

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from dovetail.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGISTERED,
    TERMINATION_FINALIZER,
    ZONE,
)
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources
from dovetail.sim.kubernetes.kinds import resource_of_plain
from dovetail.sim.scenario.from_snapshot import CLASS_LABEL, FAKE_NODE, PRICE
from dovetail.sim.scenario.generate import GeneratedNode, GeneratedWorkload
from dovetail.sim.world import World

Plain = dict[str, Any]
WORKLOAD_LABEL = "generated-workload"
_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")
_DEFAULT_LABELS = {OS: "linux", ARCH: "amd64"}


def stand(world: World, nodes: Iterable[GeneratedNode], start: datetime) -> None:
    """Write all objects of these nodes into the store."""
    nodes = tuple(nodes)
    for plain in (*_owners(nodes, start), *_nodes(nodes, start)):
        world.store.put(resource_of_plain(plain), plain)


def _owners(nodes: Iterable[GeneratedNode], start: datetime) -> Iterator[Plain]:
    """The ReplicaSet of each workload, and its PodDisruptionBudget."""
    nodes_by_workload: dict[str, list[GeneratedNode]] = {}
    workloads: dict[str, GeneratedWorkload] = {}
    for node in nodes:
        for workload in node.workloads:
            workloads[workload.name] = workload
            nodes_by_workload.setdefault(workload.name, []).append(node)
    for name, on in nodes_by_workload.items():
        workload = workloads[name]
        selector = {"matchLabels": {WORKLOAD_LABEL: name}}
        created_at = _stamp(start, max(node.age for node in on))
        spec = {"replicas": len(on), "selector": selector, "template": _template(workload)}
        meta = _meta("ReplicaSet", name, created_at)
        yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
        if workload.size.max_unavailable is not None:
            spec = {"maxUnavailable": workload.size.max_unavailable, "selector": selector}
            meta = _meta("PodDisruptionBudget", name, created_at)
            yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}


def _nodes(nodes: Iterable[GeneratedNode], start: datetime) -> Iterator[Plain]:
    for node in nodes:
        created_at = _stamp(start, node.age)
        labels = _labels(node)
        yield _claim(node, labels, created_at)
        yield _node(node, labels, created_at)
        for number, workload in enumerate(node.workloads):
            yield _pod(workload, node, f"{workload.name}-{node.name}-{number}", created_at)


def _claim(node: GeneratedNode, labels: dict[str, str], created_at: str) -> Plain:
    pool, template = node.pool, node.pool.spec.template.spec
    ref = template.node_class_ref
    owner = _owner("karpenter.sh/v1", "NodePool", pool.name, pool.metadata.uid)
    requirements = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)}
    spec: Plain = {
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()],
        "resources": {"requests": {}},
        "nodeClassRef": {"group": ref.api_group, "kind": ref.kind, "name": ref.name},
        "expireAfter": str(pool.hard_expire_after),
        "taints": _taints(node),
    }
    if template.termination_grace_period is not None:
        spec["terminationGracePeriod"] = str(template.termination_grace_period)
    conditions = [
        {"type": each, "status": "True", "reason": each, "lastTransitionTime": created_at} for each in _CONDITIONS
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            **_meta("NodeClaim", node.name, created_at, namespace=""),
            "labels": labels,
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {
            "providerID": f"kwok://{node.name}",
            "nodeName": node.name,
            **_amounts(node),
            "conditions": conditions,
            "lastPodEventTime": created_at,
        },
    }


def _node(node: GeneratedNode, labels: dict[str, str], created_at: str) -> Plain:
    meta = _meta("NodeClaim", node.name, created_at, namespace="")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": created_at}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            **_meta("Node", node.name, created_at, namespace=""),
            "labels": {**labels, REGISTERED: "true", INITIALIZED: "true"},
            "annotations": {FAKE_NODE: "fake"},
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [_owner("karpenter.sh/v1", "NodeClaim", node.name, meta["uid"])],
        },
        "spec": {"providerID": f"kwok://{node.name}", "taints": _taints(node)},
        "status": {**_amounts(node), "phase": "Running", "conditions": [{**ready, "lastHeartbeatTime": created_at}]},
    }


def _pod(workload: GeneratedWorkload, node: GeneratedNode, name: str, created_at: str) -> Plain:
    owner = _meta("ReplicaSet", workload.name, created_at)
    template = _template(workload)
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": created_at} for each in ("PodScheduled", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_meta("Pod", name, created_at),
            **template["metadata"],
            "ownerReferences": [_owner("apps/v1", "ReplicaSet", workload.name, owner["uid"]) | {"controller": True}],
        },
        "spec": {**template["spec"], "nodeName": node.name},
        "status": {"phase": "Running", "conditions": conditions, "startTime": created_at},
    }


def _template(workload: GeneratedWorkload) -> Plain:
    """The pod template; its pods tolerate the taints of their NodePool."""
    requests = {"cpu": str(workload.size.cpu), "memory": str(workload.size.memory)}
    tolerations = [
        {"key": each.key, "operator": "Equal", "value": each.value, "effect": each.effect}
        for each in workload.pool.spec.template.spec.taints
    ]
    container = {"name": "main", "image": workload.name, "resources": {"requests": requests}}
    return {
        "metadata": {
            "labels": {WORKLOAD_LABEL: workload.name},
            "annotations": dict(workload.size.annotations),
        },
        "spec": {"containers": [container], "tolerations": tolerations},
    }


def _labels(node: GeneratedNode) -> dict[str, str]:
    assert node.type is not None, "the offering of a node is chosen before it is written"
    assert node.offering is not None, "the offering of a node is chosen before it is written"
    requirements = node.pool.requirements.add(node.type.requirements, node.offering.requirements)
    return {
        **requirements.labels(),
        **{key: _one(requirements, key, default) for key, default in _DEFAULT_LABELS.items()},
        NODEPOOL: node.pool.name,
        CLASS_LABEL: node.pool.node_class_ref.name,
        HOSTNAME: node.name,
        FAKE_NODE: "fake",
        PRICE: f"{node.offering.price:f}",
    }


def _one(requirements: Requirements, key: str, default: str) -> str:
    """One allowed value of a label, preferably the default: an instance type may allow several, a node has one."""
    allowed = requirements.get(key)
    return default if allowed.has(default) else allowed.any()


def _taints(node: GeneratedNode) -> list[Plain]:
    return [
        {"key": each.key, "value": each.value, "effect": each.effect} for each in node.pool.spec.template.spec.taints
    ]


def _amounts(node: GeneratedNode) -> Plain:
    assert node.type is not None, "the offering of a node is chosen before it is written"
    return {"capacity": _plain(node.type.capacity), "allocatable": _plain(node.type.allocatable)}


def _plain(amounts: Resources) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _owner(api_version: str, kind: str, name: str, uid: str) -> Plain:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": True}


def _meta(kind: str, name: str, created_at: str, namespace: str = "default") -> Plain:
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"generated/{kind}/{name}"))
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": uid, "generation": 1, "creationTimestamp": created_at}


def _stamp(start: datetime, age: float) -> str:
    return f"{start - timedelta(seconds=int(age)):%Y-%m-%dT%H:%M:%SZ}"
