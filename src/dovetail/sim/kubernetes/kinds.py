"""The kinds the simulated API server stores, and the properties of each: scope, generation, status subresource.

`Resource` (group and kind) identifies a kind in the store. Kinds that are not listed here can be stored too; they have
no status subresource and no generation.
"""

from collections.abc import Mapping
from typing import Any

from dovetail.model import kinds
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import KubeObject

Resource = tuple[str, str]
"""Group and kind: versions of one kind share their objects."""


class Unstructured(KubeObject, frozen=True):
    """An object whose content only the simulated controllers read."""

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


class ConfigMapWithData(KubeObject, frozen=True):
    """A ConfigMap with its data."""

    data: Mapping[str, str] = {}


DEPLOYMENT = Kind(Unstructured, "Deployment", "deployments", "apps", namespaced=True)
REPLICA_SET = Kind(Unstructured, "ReplicaSet", "replicasets", "apps", namespaced=True)
STATEFUL_SET = Kind(Unstructured, "StatefulSet", "statefulsets", "apps", namespaced=True)
JOB = Kind(Unstructured, "Job", "jobs", "batch", namespaced=True)
CONFIG_MAP = Kind(ConfigMapWithData, "ConfigMap", "configmaps", namespaced=True)


def resource_of(kind: Kind[Any]) -> Resource:
    """The resource that stores objects of the kind."""
    return (kind.group, kind.name)


POD: Resource = resource_of(kinds.POD)
CONFIG_MAPS: Resource = resource_of(CONFIG_MAP)
NODE: Resource = resource_of(kinds.NODE)
LEASE: Resource = resource_of(kinds.LEASE)
NAMESPACE: Resource = resource_of(kinds.NAMESPACE)
LIMIT_RANGE: Resource = ("", "LimitRange")
PRIORITY_CLASS: Resource = resource_of(kinds.PRIORITY_CLASS)
PDB: Resource = resource_of(kinds.POD_DISRUPTION_BUDGET)
DAEMONS: Resource = resource_of(kinds.DAEMON_SET)
DEPLOYMENTS: Resource = resource_of(DEPLOYMENT)
REPLICAS: Resource = resource_of(REPLICA_SET)
JOBS: Resource = resource_of(JOB)
NODE_POOL: Resource = resource_of(kinds.NODE_POOL)
NODE_CLAIM: Resource = resource_of(kinds.NODE_CLAIM)
KWOK_NODE_CLASS: Resource = resource_of(kinds.KWOK_NODE_CLASS)

CUSTOM = frozenset({NODE_POOL, NODE_CLAIM, KWOK_NODE_CLASS, ("karpenter.k8s.aws", "EC2NodeClass")})
"""Kinds that come from CRDs."""

GENERATIONS = CUSTOM | {POD, PDB, DAEMONS, DEPLOYMENTS, REPLICAS, JOBS, resource_of(STATEFUL_SET)}
"""Kinds whose generation counts changes of the spec."""

STATUS = GENERATIONS | {
    NODE,
    NAMESPACE,
    resource_of(kinds.PERSISTENT_VOLUME),
    resource_of(kinds.PERSISTENT_VOLUME_CLAIM),
    resource_of(kinds.VOLUME_ATTACHMENT),
}
"""Kinds with a status subresource."""

CLUSTER_SCOPED = frozenset(
    resource_of(kind)
    for kind in (
        kinds.NODE,
        kinds.NAMESPACE,
        kinds.PERSISTENT_VOLUME,
        kinds.PRIORITY_CLASS,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.VOLUME_ATTACHMENT,
        kinds.NODE_POOL,
        kinds.NODE_CLAIM,
        kinds.KWOK_NODE_CLASS,
    )
) | {("karpenter.k8s.aws", "EC2NodeClass"), ("apiextensions.k8s.io", "CustomResourceDefinition")}


def resource_of_plain(plain: Mapping[str, Any]) -> Resource:
    """The resource of an object, from its apiVersion and kind."""
    group, slash, _ = str(plain["apiVersion"]).rpartition("/")
    return (group if slash else "", str(plain["kind"]))
