"""A fingerprint of a NodePool's template: nodes made from another one have drifted.

The version is Dovetail's own. Claims stamped by another version are re-stamped, not drifted, so adopting a cluster
moves no node. Requirements are left out (they drift by meaning, not by spelling), lists are compared without order, and
what is absent equals what is empty.
"""

import hashlib

import msgspec

from dovetail.model.nodepool import DEFAULT_EXPIRE_AFTER, NodePool
from dovetail.model.taints import Taint

HASH_VERSION = "dovetail-v1"


def template_hash(pool: NodePool) -> str:
    """The fingerprint, as decimal digits."""
    metadata, spec = pool.spec.template.metadata, pool.spec.template.spec
    ref = spec.node_class_ref
    # As written in the template alone: `disruption.expireAfter` says something else and is behaviour, not template.
    expiry = (spec.expire_after or DEFAULT_EXPIRE_AFTER).span
    grace = spec.termination_grace_period
    parts = {
        "labels": dict(metadata.labels),
        "annotations": dict(metadata.annotations),
        "taints": _taints(spec.taints),
        "startupTaints": _taints(spec.startup_taints),
        "nodeClassRef": [ref.api_group, ref.kind, ref.name],
        "expireAfter": expiry.total_seconds() if expiry is not None else None,
        "terminationGracePeriod": grace.span.total_seconds() if grace is not None else None,
        "kubelet": spec.kubelet or None,
    }
    present = {name: value for name, value in parts.items() if value}
    digest = hashlib.sha256(msgspec.json.encode(present, order="deterministic")).digest()
    return str(int.from_bytes(digest[:8]))


def _taints(taints: tuple[Taint, ...]) -> list[str]:
    return sorted(str(taint) for taint in taints)
