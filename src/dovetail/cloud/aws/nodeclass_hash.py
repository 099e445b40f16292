"""A fingerprint of what a node class makes instances of: instances made from another one have drifted.

The version is Dovetail's own: claims of another version are re-stamped, not drifted, so taking over a cluster moves
no node. What is resolved anew all the time (subnets, groups, images, reservations) drifts by what it resolves to and is
left out here, as is what only matters at launch. What is absent equals its default.
"""

import hashlib
from typing import Any

import msgspec

from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from dovetail.model.ec2nodeclass import EC2NodeClass, MetadataOptions

HASH_VERSION = "dovetail-v1"
DYNAMIC = frozenset(
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
"""Fields that do not count as they are written; the family and the metadata options count as they are meant."""


def stamped_hash(node_class: EC2NodeClass) -> str:
    """The fingerprint that the class is stamped with, which instances made from it now are stamped with too."""
    stamp = node_class.metadata.annotations
    return stamp[CLASS_HASH] if stamp.get(CLASS_HASH_VERSION) == HASH_VERSION else class_hash(node_class)


def class_hash(node_class: EC2NodeClass) -> str:
    """The fingerprint, as decimal digits."""
    spec = node_class.spec
    written: dict[str, Any] = msgspec.to_builtins(spec)
    counted = {name: value for name, value in written.items() if name not in DYNAMIC and value not in ({}, [], None)}
    counted["family"] = spec.family
    options = spec.metadata_options or MetadataOptions()
    counted["metadata"] = [getattr(options, name) for name in MetadataOptions.__struct_fields__]
    digest = hashlib.sha256(msgspec.json.encode(counted, order="deterministic")).digest()
    return str(int.from_bytes(digest[:8]))
