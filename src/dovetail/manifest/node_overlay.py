"""Checks NodeOverlays (`karpenter.sh/v1alpha1`) by the rules of Karpenter's CRD. Dovetail does not use them otherwise.

The requirements have rules that differ from those of NodePools: NotIn needs values, there is no minValues, and labels
that only a launched instance has are not allowed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.manifest.patterns import LABEL_KEY, LABEL_VALUE, PRICE, PRICE_ADJUSTMENT, QUANTITY
from dovetail.manifest.schema import Schema
from dovetail.model.kube_object import Fault
from dovetail.model.labels import (
    CAPACITY_TYPE,
    GROUP,
    HOSTNAME,
    NODEPOOL,
    provider_label_remedy,
    unknown_provider_label,
)
from dovetail.model.requirements import OPERATORS

Plain = Mapping[str, Any]
_BOUNDS = ("Gt", "Lt", "Gte", "Lte")
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_OF_LAUNCHED_INSTANCES = tuple(
    f"karpenter.k8s.aws/{name}"
    for name in ("instance-tenancy", "nitro-sandbox", "capacity-reservation-", "placement-group-")
)
_OTHER_LABEL = "choose another label, such as node.kubernetes.io/instance-type"
_TEXT: Schema = {"type": "string"}
_REQUIREMENT: Schema = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {
        "key": {**_TEXT, "pattern": LABEL_KEY, "maxLength": 316, "description": "the label"},
        "operator": {**_TEXT, "enum": list(OPERATORS), "description": f"one of {', '.join(OPERATORS)}"},
        "values": {"type": "array", "items": {**_TEXT, "pattern": LABEL_VALUE, "maxLength": 63}},
    },
}
SCHEMA: Schema = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "description": "requirements, and a price or capacity",
            "required": ["requirements"],
            "properties": {
                "requirements": {
                    "type": "array",
                    "maxItems": 100,
                    "items": _REQUIREMENT,
                    "description": "the instance types that it applies to; an empty list means all",
                },
                "price": {**_TEXT, "pattern": PRICE},
                "priceAdjustment": {**_TEXT, "pattern": PRICE_ADJUSTMENT},
                "capacity": {
                    "type": "object",
                    "additionalProperties": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY},
                },
                "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10000},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def overlay_faults(document: Plain) -> Iterator[Fault]:
    """Faults of a NodeOverlay beyond its schema."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    if "price" in spec and "priceAdjustment" in spec:
        yield Fault("spec.priceAdjustment", "cannot be set together with price", spec["priceAdjustment"], "keep one")
    capacity = spec.get("capacity")
    for name in capacity if isinstance(capacity, dict) else ():
        if name in _STANDARD_RESOURCES:
            problem = "cannot be changed by an overlay: it is a standard resource"
            yield Fault(f"spec.capacity.{name}", problem, name, "list extended resources only, such as example.com/gpu")
    requirements = spec.get("requirements")
    for index, each in enumerate(requirements if isinstance(requirements, list) else ()):
        if isinstance(each, dict):
            yield from _requirement_faults(each, f"spec.requirements[{index}]")


def _requirement_faults(requirement: Plain, path: str) -> Iterator[Fault]:
    operator, values = requirement.get("operator"), requirement.get("values", [])
    if operator in ("In", "NotIn") and values == []:
        yield Fault(path, f"needs values for the operator {operator}", None, "list at least one value")
    if operator in _BOUNDS and isinstance(values, list) and not _is_single_integer(values):
        yield Fault(path, f"needs one integer of at least 0 for the operator {operator}", values, 'write values: ["4"]')
    key = requirement.get("key")
    if isinstance(key, str) and (problem := _key_problem(key)):
        remedy = provider_label_remedy(key) if unknown_provider_label(key) else _OTHER_LABEL
        yield Fault(f"{path}.key", problem, key, remedy)


def _key_problem(key: str) -> str:
    if key == HOSTNAME:
        return f"the label {HOSTNAME} is restricted"
    if key not in (CAPACITY_TYPE, NODEPOOL) and key.partition("/")[0].endswith(GROUP):
        return f"the label domain {GROUP} is restricted"
    if key.startswith(_OF_LAUNCHED_INSTANCES):
        return "is not a label of instance types"
    return unknown_provider_label(key)


def _is_single_integer(values: list[Any]) -> bool:
    return len(values) == 1 and isinstance(values[0], str) and values[0].isascii() and values[0].isdigit()
