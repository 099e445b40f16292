"""A cluster as if some of its nodes were on their way out already, for what is decided before they are.

Several commands may wait for their second look at once. Each is planned, and looked at again, as if those before it had
been carried out: their nodes take nobody, their pods need a place, and budgets count them as gone.
"""

from collections.abc import Collection
from dataclasses import replace

import msgspec

from dovetail.model.snapshot import ClusterNode, Snapshot


def as_if_leaving(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The same cluster, with these nodes deleted a moment ago."""
    if not names:
        return snapshot
    nodes = tuple(_leaving(node, snapshot) if node.name in names else node for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


def _leaving(node: ClusterNode, snapshot: Snapshot) -> ClusterNode:
    if node.claim is None or node.claim.deleting:
        return node
    metadata = msgspec.structs.replace(node.claim.metadata, deletion_timestamp=snapshot.at)
    return ClusterNode(node.node, msgspec.structs.replace(node.claim, metadata=metadata), node.pods)
