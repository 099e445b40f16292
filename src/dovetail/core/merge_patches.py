"""Builds JSON merge patches for Kubernetes objects.

A merge patch replaces lists as a whole, so the caller must send it with the resourceVersion that it has read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.model.conditions import condition_document
from dovetail.model.kube_object import Condition, KubeObject
from dovetail.model.resources import Resources


def wire(value: object) -> Any:
    """A model value as plain JSON data."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def amounts(resources: Resources) -> dict[str, str]:
    """Quantities as text, by resource."""
    return {name: str(amount) for name, amount in sorted(resources.items())}


def conditions_patch(conditions: Iterable[Condition], **status: Any) -> dict[str, Any]:
    """A patch of status fields and the whole list of conditions."""
    return {"status": {**status, "conditions": [condition_document(condition) for condition in conditions]}}


def finalizer_added(target: KubeObject, finalizer: str) -> dict[str, Any]:
    """A patch that adds a finalizer."""
    return {"metadata": {"finalizers": [*target.metadata.finalizers, finalizer]}}


def finalizer_removed(target: KubeObject, finalizer: str) -> dict[str, Any]:
    """A patch that removes a finalizer."""
    return {"metadata": {"finalizers": [each for each in target.metadata.finalizers if each != finalizer]}}


def missing(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The entries of `wanted` that `present` does not have with the same value."""
    return {key: value for key, value in wanted.items() if present.get(key) != value}
