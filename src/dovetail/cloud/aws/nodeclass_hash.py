"""The hash of an EC2NodeClass over the fields that shape its instances; an instance with another hash has drifted.

The hash version is Dovetail's. NodeClaims with another version receive the current hash instead of drifting, so
taking over a cluster from Karpenter replaces no node. Excluded are fields whose drift is judged by what they resolve to
(subnets, security groups, AMIs, capacity reservations) and fields that only matter at launch. A field that is absent
hashes like its default.
"""

import hashlib
from typing import Any

import msgspec

from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from dovetail.model.ec2nodeclass import EC2NodeClass, MetadataOptions

HASH_VERSION = "dovetail-v1"
EXCLUDED_FIELDS = frozenset(
    {
        "subnetSelectorTerms",
        "securityGroupSelectorTerms",
        "amiSelectorTerms",
        "capacityReservationSelectorTerms",
        "ipPrefixCount",
        "amiFamily",
        "metadataOptions",
    }
)
"""Fields not hashed as written; the effective AMI family and metadata options are hashed instead."""


def recorded_hash(node_class: EC2NodeClass) -> str:
    """The hash in the annotation of the class, or the computed one if the annotation has another version."""
    annotations = node_class.metadata.annotations
    return annotations[CLASS_HASH] if annotations.get(CLASS_HASH_VERSION) == HASH_VERSION else class_hash(node_class)


def class_hash(node_class: EC2NodeClass) -> str:
    """Compute the hash, as decimal digits."""
    spec = node_class.spec
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    hashed = {
        name: value for name, value in fields.items() if name not in EXCLUDED_FIELDS and value not in ({}, [], None)
    }
    hashed["family"] = spec.family
    options = spec.metadata_options or MetadataOptions()
    hashed["metadata"] = [getattr(options, name) for name in MetadataOptions.__struct_fields__]
    digest = hashlib.sha256(msgspec.json.encode(hashed, order="deterministic")).digest()
    return str(int.from_bytes(digest[:8]))
