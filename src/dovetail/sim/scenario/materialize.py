"""Puts a generated cluster into a world as if it had long been there: claims, nodes, owners, budgets and pods."""

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
_PASSED = ("Launched", "Registered", "Initialized", "Ready")
_USUAL = {OS: "linux", ARCH: "amd64"}


def stand(world: World, machines: Iterable[GeneratedNode], start: datetime) -> None:
    """Everything that belongs to these machines, with the ages they have at the start."""
    machines = tuple(machines)
    for plain in (*_owners(machines, start), *_nodes(machines, start)):
        world.store.put(resource_of_plain(plain), plain)


def _owners(machines: Iterable[GeneratedNode], start: datetime) -> Iterator[Plain]:
    workloads: dict[str, list[GeneratedNode]] = {}
    known: dict[str, GeneratedWorkload] = {}
    for machine in machines:
        for workload in machine.workloads:
            known[workload.name] = workload
            workloads.setdefault(workload.name, []).append(machine)
    for name, on in workloads.items():
        workload = known[name]
        selector = {"matchLabels": {WORKLOAD_LABEL: name}}
        born = _stamp(start, max(machine.age for machine in on))
        spec = {"replicas": len(on), "selector": selector, "template": _template(workload)}
        yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": _meta("ReplicaSet", name, born), "spec": spec}
        if workload.size.max_unavailable is not None:
            guard = {"maxUnavailable": workload.size.max_unavailable, "selector": selector}
            kind = "PodDisruptionBudget"
            yield {"apiVersion": "policy/v1", "kind": kind, "metadata": _meta(kind, name, born), "spec": guard}


def _nodes(machines: Iterable[GeneratedNode], start: datetime) -> Iterator[Plain]:
    for machine in machines:
        born = _stamp(start, machine.age)
        labels = _labels(machine)
        yield _claim(machine, labels, born)
        yield _node(machine, labels, born)
        for number, workload in enumerate(machine.workloads):
            yield _pod(workload, machine, f"{workload.name}-{machine.name}-{number}", born)


def _claim(machine: GeneratedNode, labels: dict[str, str], born: str) -> Plain:
    pool, template = machine.pool, machine.pool.spec.template.spec
    ref = template.node_class_ref
    owner = _owner("karpenter.sh/v1", "NodePool", pool.name, pool.metadata.uid)
    settled = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)}
    spec: Plain = {
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in settled.items()],
        "resources": {"requests": {}},
        "nodeClassRef": {"group": ref.group, "kind": ref.kind, "name": ref.name},
        "expireAfter": str(pool.hard_expire_after),
        "taints": _taints(machine),
    }
    if template.termination_grace_period is not None:
        spec["terminationGracePeriod"] = str(template.termination_grace_period)
    passed = [{"type": each, "status": "True", "reason": each, "lastTransitionTime": born} for each in _PASSED]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            **_meta("NodeClaim", machine.name, born, namespace=""),
            "labels": labels,
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {
            "providerID": f"kwok://{machine.name}",
            "nodeName": machine.name,
            **_amounts(machine),
            "conditions": passed,
            "lastPodEventTime": born,
        },
    }


def _node(machine: GeneratedNode, labels: dict[str, str], born: str) -> Plain:
    meta = _meta("NodeClaim", machine.name, born, namespace="")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": born}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            **_meta("Node", machine.name, born, namespace=""),
            "labels": {**labels, REGISTERED: "true", INITIALIZED: "true"},
            "annotations": {FAKE_NODE: "fake"},
            "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [_owner("karpenter.sh/v1", "NodeClaim", machine.name, meta["uid"])],
        },
        "spec": {"providerID": f"kwok://{machine.name}", "taints": _taints(machine)},
        "status": {**_amounts(machine), "phase": "Running", "conditions": [{**ready, "lastHeartbeatTime": born}]},
    }


def _pod(workload: GeneratedWorkload, machine: GeneratedNode, name: str, born: str) -> Plain:
    owner = _meta("ReplicaSet", workload.name, born)
    template = _template(workload)
    conditions = [{"type": each, "status": "True", "lastTransitionTime": born} for each in ("PodScheduled", "Ready")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_meta("Pod", name, born),
            **template["metadata"],
            "ownerReferences": [_owner("apps/v1", "ReplicaSet", workload.name, owner["uid"]) | {"controller": True}],
        },
        "spec": {**template["spec"], "nodeName": machine.name},
        "status": {"phase": "Running", "conditions": conditions, "startTime": born},
    }


def _template(workload: GeneratedWorkload) -> Plain:
    """Its pods tolerate what their own pool puts on its nodes."""
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


def _labels(machine: GeneratedNode) -> dict[str, str]:
    assert machine.type is not None, "only machines that were bought stand"
    assert machine.offering is not None, "only machines that were bought stand"
    settled = machine.pool.requirements.add(machine.type.requirements, machine.offering.requirements)
    return {
        **settled.labels(),
        **{key: _one(settled, key, usual) for key, usual in _USUAL.items()},
        NODEPOOL: machine.pool.name,
        CLASS_LABEL: machine.pool.node_class_ref.name,
        HOSTNAME: machine.name,
        FAKE_NODE: "fake",
        PRICE: f"{machine.offering.price:f}",
    }


def _one(settled: Requirements, key: str, usual: str) -> str:
    """A type may run several systems; a node runs one."""
    allowed = settled.get(key)
    return usual if allowed.has(usual) else allowed.any()


def _taints(machine: GeneratedNode) -> list[Plain]:
    return [
        {"key": each.key, "value": each.value, "effect": each.effect} for each in machine.pool.spec.template.spec.taints
    ]


def _amounts(machine: GeneratedNode) -> Plain:
    assert machine.type is not None, "only machines that were bought stand"
    return {"capacity": _plain(machine.type.capacity), "allocatable": _plain(machine.type.allocatable)}


def _plain(amounts: Resources) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _owner(api_version: str, kind: str, name: str, uid: str) -> Plain:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": True}


def _meta(kind: str, name: str, born: str, namespace: str = "default") -> Plain:
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"generated/{kind}/{name}"))
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": uid, "generation": 1, "creationTimestamp": born}


def _stamp(start: datetime, age: float) -> str:
    return f"{start - timedelta(seconds=int(age)):%Y-%m-%dT%H:%M:%SZ}"
