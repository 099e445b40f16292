"""The smallest valid objects, in domain words. Everything not named in a call is uninteresting and fixed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dovetail.manifest.codec import from_plain
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.cluster_objects import DaemonSet
from dovetail.model.kinds import DAEMON_SET, NODE, NODE_CLAIM, NODE_POOL, POD, Kind
from dovetail.model.kube_object import KubeObject, UnreadableObject
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import ClusterNode, Snapshot

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ZONES = ("zone-a", "zone-b")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def build(kind: Kind[Any], plain: Mapping[str, Any]) -> Any:
    """A model value from its wire form; anything unreadable is a mistake of the test."""
    value = from_plain(kind, plain)
    assert not isinstance(value, UnreadableObject), value
    return value


def stamped(when: datetime) -> str:
    """An instant as the API writes it."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str = "web", cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Pod:
    """A pod the scheduler found no node for; `on` binds it, `spec` and `metadata` are merged in."""
    on = fields.pop("on", "")
    spec = {
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        **({"nodeName": on} if on else {}),
        **fields.pop("spec", {}),
    }
    status = fields.pop("status", None) or (
        {"phase": "Running"} if on else {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    )
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": stamped(NOON),
        **fields.pop("metadata", {}),
    }
    assert not fields, f"unknown: {sorted(fields)}"
    value: Pod = build(POD, {"metadata": metadata, "spec": spec, "status": status})
    return value


def nodepool(name: str = "default", *, ready: bool = True, **spec: Any) -> NodePool:
    """A NodePool of the kwok provider that is ready to make nodes; `template` is merged into the template's spec."""
    template = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [],
        **spec.pop("template", {}),
    }
    metadata = spec.pop("template_metadata", {})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    value: NodePool = build(
        NODE_POOL,
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": stamped(NOON)},
            "spec": {"template": {"metadata": metadata, "spec": template}, **spec},
            "status": {"conditions": conditions},
        },
    )
    return value


def claim(name: str = "default-1", pool: str = "default", **fields: Any) -> NodeClaim:
    """A NodeClaim of a pool; `conditions` maps a type to a status, `age` is since creation at NOON."""
    age = fields.pop("age", timedelta())
    created = stamped(NOON - age)
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": created}
        for kind, status in fields.pop("conditions", {}).items()
    ]
    value: NodeClaim = build(
        NODE_CLAIM,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "generation": 1,
                "resourceVersion": "1",
                "creationTimestamp": created,
                "labels": {"karpenter.sh/nodepool": pool, **fields.pop("labels", {})},
                **fields.pop("metadata", {}),
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                **fields.pop("spec", {}),
            },
            "status": {"conditions": conditions, **fields.pop("status", {})},
        },
    )
    assert not fields, f"unknown: {sorted(fields)}"
    return value


def node(name: str = "node-1", cpu: str = "4", memory: str = "16Gi", **fields: Any) -> Node:
    """A node that is ready; `labels`, `taints` and `ready` as wanted."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    ready = "True" if fields.pop("ready", True) else "False"
    value: Node = build(
        NODE,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": stamped(NOON),
                "labels": {"kubernetes.io/hostname": name, ZONE: ZONES[0], **fields.pop("labels", {})},
                **fields.pop("metadata", {}),
            },
            "spec": {"taints": fields.pop("taints", []), **fields.pop("spec", {})},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": ready}],
            },
        },
    )
    assert not fields, f"unknown: {sorted(fields)}"
    return value


def daemon_set(name: str = "agent", cpu: str = "100m", **spec: Any) -> DaemonSet:
    """A DaemonSet whose pods take that much."""
    template = {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}], **spec}
    value: DaemonSet = build(
        DAEMON_SET, {"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"template": {"spec": template}}}
    )
    return value


def instance_type(name: str = "m.large", cpu: str = "4", memory: str = "16Gi", price: float = 1.0) -> InstanceType:
    """A type sold in both zones, on demand and at 0.4 of the price as spot."""
    offerings = tuple(
        Offering(
            Requirements.of([Requirement.of(ZONE, "In", [zone]), Requirement.of(CAPACITY_TYPE, "In", [sold_as])]), each
        )
        for zone in ZONES
        for sold_as, each in (("on-demand", price), ("spot", price * 0.4))
    )
    requirements = Requirements.of(
        [
            Requirement.of(INSTANCE_TYPE, "In", [name]),
            Requirement.of(ARCH, "In", ["amd64"]),
            Requirement.of(OS, "In", ["linux"]),
            Requirement.of(ZONE, "In", list(ZONES)),
            Requirement.of(CAPACITY_TYPE, "In", ["on-demand", "spot"]),
        ]
    )
    capacity = {"cpu": Quantity.of(cpu), "memory": Quantity.of(memory), "pods": Quantity.of(110)}
    return InstanceType(name, requirements, offerings, capacity, {})


SMALL = instance_type("m.small", "2", "8Gi", 0.5)
LARGE = instance_type("m.large", "4", "16Gi", 1.0)
HUGE = instance_type("m.huge", "16", "64Gi", 4.0)
TYPES = (SMALL, LARGE, HUGE)


def snapshot(
    pods: Iterable[Pod] = (),
    nodes: Iterable[ClusterNode] = (),
    pools: Iterable[NodePool] = (),
    types: tuple[InstanceType, ...] = TYPES,
    daemon_sets: Iterable[DaemonSet] = (),
) -> Snapshot:
    """A cluster at noon in which every pool may buy `types`."""
    pools = tuple(pools)
    return Snapshot(
        at=NOON,
        nodes=tuple(nodes),
        unbound_pods=tuple(pods),
        nodepools={pool.name: pool for pool in pools},
        daemon_sets=tuple(daemon_sets),
        catalogs={pool.name: types for pool in pools},
    )


def key_of(value: KubeObject) -> str:
    """Namespace and name as text."""
    return str(value.key)
