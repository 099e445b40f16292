"""Hashes of a NodePool's template: nodes that were launched from another template have drifted.

`template_hash` is Karpenter's own hash, version v3, bit for bit: the annotations that Karpenter wrote stay true when
Dovetail takes a cluster over, and the other way round. Requirements are left out (they drift by meaning, not by
spelling), and lists are compared without order.

`own_hash` covers the template fields that Karpenter's v1 does not know (`kubelet` of v1beta1). It has an annotation of
its own, which is absent where no such field is set.
"""

import hashlib
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from dovetail.model.cached import once
from dovetail.model.labels import NODEPOOL_HASH, NODEPOOL_HASH_VERSION, OWN_NODEPOOL_HASH
from dovetail.model.nodepool import (
    ABSENT_LIST,
    ABSENT_MAP,
    DEFAULT_EXPIRE_AFTER,
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassRef,
    NodePool,
)
from dovetail.model.struct_hash import GoStruct, GoValue, struct_hash
from dovetail.model.taints import Taint

HASH_VERSION = "v3"
HASH_ANNOTATIONS = (NODEPOOL_HASH, NODEPOOL_HASH_VERSION, OWN_NODEPOOL_HASH)
_MICROSECOND = timedelta(microseconds=1)


def hash_annotations(pool: NodePool) -> dict[str, str]:
    """Return the annotations that the NodePool and the NodeClaims launched from it carry."""
    own = own_hash(pool)
    stamp = {NODEPOOL_HASH: template_hash(pool), NODEPOOL_HASH_VERSION: HASH_VERSION}
    return {**stamp, OWN_NODEPOOL_HASH: own} if own else stamp


def has_changed(annotations: Mapping[str, str], pool: NodePool) -> bool:
    """Return whether the template is another one than that of a NodeClaim with these annotations."""
    if annotations.get(NODEPOOL_HASH_VERSION) != HASH_VERSION or NODEPOOL_HASH not in annotations:
        return False  # not comparable
    return (annotations[NODEPOOL_HASH], annotations.get(OWN_NODEPOOL_HASH, "")) != _hashes(pool)


@once
def _hashes(pool: NodePool) -> tuple[str, str]:
    return template_hash(pool), own_hash(pool)


@once
def template_hash(pool: NodePool) -> str:
    """Return Karpenter's hash of the template in decimal digits. It is computed once for each NodePool value."""
    return str(struct_hash(_template(pool.spec.template)))


@once
def own_hash(pool: NodePool) -> str:
    """Return the hash of the fields that Karpenter does not have; empty where none is set."""
    kubelet = pool.spec.template.spec.kubelet
    if not kubelet:
        return ""
    digest = hashlib.sha256(msgspec.json.encode({"kubelet": kubelet}, order="deterministic")).digest()
    return str(int.from_bytes(digest[:8]))


def _template(template: NodeClaimTemplate) -> GoStruct:
    labels, annotations = _map(template.metadata.labels), _map(template.metadata.annotations)
    written = labels is not None or annotations is not None
    metadata = GoStruct("ObjectMeta", {"Labels": labels, "Annotations": annotations}) if written else None
    return GoStruct("NodeClaimTemplate", {"ObjectMeta": metadata, "Spec": _spec(template.spec)})


def _spec(spec: NodeClaimTemplateSpec) -> GoStruct:
    grace = spec.termination_grace_period
    return GoStruct(
        "NodeClaimTemplateSpec",
        {
            "Taints": _taints(spec.taints),
            "StartupTaints": _taints(spec.startup_taints),
            "NodeClassRef": _reference(spec.node_class_ref),
            "TerminationGracePeriod": (
                GoStruct("Duration", {"Duration": _nanoseconds(grace.span) or None}) if grace is not None else None
            ),
            "ExpireAfter": _expiry(spec),
        },
    )


def _expiry(spec: NodeClaimTemplateSpec) -> GoStruct | None:
    """As written in the template alone: `disruption.expireAfter` is behavior, not template. `Never` is a zero value."""
    span = (spec.expire_after or DEFAULT_EXPIRE_AFTER).span
    return GoStruct("NillableDuration", {"Duration": _nanoseconds(span)}) if span is not None else None


def _reference(ref: NodeClassRef) -> GoStruct:
    fields = {"Kind": ref.kind or None, "Name": ref.name or None, "Group": ref.api_group or None}
    return GoStruct("NodeClassReference", fields)


def _taints(taints: tuple[Taint, ...]) -> GoValue | None:
    if taints is ABSENT_LIST:
        return None
    return [
        GoStruct("Taint", {"Key": each.key or None, "Value": each.value or None, "Effect": each.effect or None})
        for each in taints
    ]


def _map(values: Mapping[str, str]) -> Mapping[str, str] | None:
    return None if values is ABSENT_MAP else values


def _nanoseconds(span: timedelta) -> int:
    return span // _MICROSECOND * 1000
