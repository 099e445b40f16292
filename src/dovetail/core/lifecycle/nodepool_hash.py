"""The hash of a NodePool template: NodeClaims with another hash have drifted.

The hash has its own version. NodeClaims with a hash of another version get a new hash and do not drift, so adopting a
cluster from Karpenter replaces no node. Requirements are not hashed: they are compared by meaning. The order of taints
does not matter, and an empty field equals an unset one.
"""

import hashlib

import msgspec

from dovetail.model.nodepool import DEFAULT_EXPIRE_AFTER, NodePool
from dovetail.model.taints import Taint

HASH_VERSION = "dovetail-v1"


def template_hash(pool: NodePool) -> str:
    """The hash, as decimal digits."""
    metadata, spec = pool.spec.template.metadata, pool.spec.template.spec
    ref = spec.node_class_ref
    # The template's own field: `disruption.expireAfter` is not part of the template.
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
