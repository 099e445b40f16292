"""Builds the CustomResourceDefinitions: names, versions, subresources and printer columns around the schemas.

v1 is the storage version, and v1beta1 is served, too. Both have the same fields, so the conversion strategy `None`
loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.manifest.schema import KINDS, Scope, schema_of
from dovetail.manifest.yaml_output import to_yaml
from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL, Kind

Column = dict[str, Any]
_CATEGORY = "karpenter"


def _column(name: str, path: str, type_: str = "string", **more: Any) -> Column:
    return {"name": name, "type": type_, "jsonPath": path, **more}


def _condition(kind: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].status'


def _label(key: str) -> str:
    return ".metadata.labels." + key.replace(".", r"\.")


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
_READY = _column("Ready", _condition("Ready"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How a kind is shown by kubectl."""

    kind: Kind[Any]
    columns: Sequence[Column]
    short_names: Sequence[str] = ()
    scalable: bool = False


RESOURCES = (
    Resource(
        kind=NODE_POOL,
        columns=(
            _column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            _column("Nodes", ".status.nodes", "integer"),
            _READY,
            _AGE,
            _column("Weight", ".spec.weight", "integer", priority=1),
            _column("CPU", ".status.resources.cpu", priority=1),
            _column("Memory", ".status.resources.memory", priority=1),
        ),
        scalable=True,
    ),
    Resource(
        kind=NODE_CLAIM,
        columns=(
            _column("Type", _label("node.kubernetes.io/instance-type")),
            _column("Capacity", _label("karpenter.sh/capacity-type")),
            _column("Zone", _label("topology.kubernetes.io/zone")),
            _column("Node", ".status.nodeName"),
            _READY,
            _AGE,
            _column("ImageID", ".status.imageID", priority=1),
            _column("ID", ".status.providerID", priority=1),
            _column("NodePool", _label("karpenter.sh/nodepool"), priority=1),
            _column("NodeClass", ".spec.nodeClassRef.name", priority=1),
            _column("Drifted", _condition("Drifted"), priority=1),
        ),
    ),
    Resource(kind=KWOK_NODE_CLASS, columns=(_READY, _AGE), short_names=("kwoknc", "kwokncs")),
    Resource(
        kind=EC2_NODE_CLASS,
        columns=(_READY, _AGE, _column("Role", ".spec.role", priority=1)),
        short_names=("ec2nc", "ec2ncs"),
    ),
)


def crd_of(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind with all its versions."""
    kind = resource.kind
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "categories": [_CATEGORY],
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [_version(resource, scope) for scope in KINDS if scope.kind == kind.name],
        },
    }


def _version(resource: Resource, scope: Scope) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if resource.scalable:
        subresources["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}
    return {
        "name": scope.version,
        "served": True,
        "storage": scope.version == resource.kind.version,
        "additionalPrinterColumns": list(resource.columns),
        "subresources": subresources,
        "schema": {"openAPIV3Schema": schema_of(scope)},
    }


def crd_yaml(resource: Resource) -> str:
    """The content of the CRD's file under `deploy/crds`."""
    heading = "# Generated from the types by `python -m dovetail.manifest.generate`. Do not edit.\n---\n"
    return heading + to_yaml(crd_of(resource))
