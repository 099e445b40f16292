"""What a patch may not say about who an object is. A patch names the object it is for by its address alone."""

from collections.abc import Mapping
from typing import Any

from dovetail.model.kube_object import Fault
from dovetail.ports.errors import Invalid
from dovetail.sim.kubernetes.kinds import CUSTOM, Resource
from dovetail.sim.kubernetes.merge_patch import Plain

_FIXED = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def check_identity(resource: Resource, meta: Plain, asked: Plain | None) -> None:
    """Refuse a patch of the metadata that would make it another object. What else the server owns is ignored."""
    if asked is None or any(asked.get(name, meta.get(name)) != meta.get(name) for name in ("name", "namespace")):
        raise Invalid(f"{resource[1]} {meta['name']}: name and namespace do not match those in the address")
    for name in _FIXED:
        if asked.get(name) is not None and asked[name] != meta.get(name):
            fault = Fault(f"metadata.{name}", "cannot change", asked[name])
            raise Invalid(f"{resource[1]} {meta['name']} is invalid: {fault}", (fault,))


def check_type(resource: Resource, plain: Plain, asked: Mapping[str, Any]) -> None:
    """Refuse a patch that would make it an object of another kind. Custom kinds are written in several versions."""
    same_version = resource in CUSTOM or asked.get("apiVersion", plain["apiVersion"]) == plain["apiVersion"]
    if asked.get("kind", plain["kind"]) != plain["kind"] or not same_version:
        problem = f"is for {plain['apiVersion']} {plain['kind']}"
        raise Invalid(f"{resource[1]}: the patch {problem}", (Fault("patch", problem),))
