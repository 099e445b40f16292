"""Objects that exist in the cluster but cannot be decoded, and which node, claim or pod they may concern.

No controller writes to an unreadable object, but the object counts: its node exists, its claim counts in limits and
budgets, and a drain waits for its pod. If the field that links it to a node is unreadable, it may concern every node.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dovetail.model.kinds import NODE, NODE_CLAIM, POD, VOLUME_ATTACHMENT
from dovetail.model.kube_object import Key, UnreadableObject
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode
from dovetail.model.storage import VolumeAttachment
from dovetail.model.unreadable_objects import UnreadableEntry, partial_claims, partial_nodes, unread
from dovetail.runtime.informer import Informer


class UnreadableObjects:
    """The unreadable objects of some informers."""

    def __init__(self, informers: Iterable[Informer[Any]]) -> None:
        self._informers = tuple(informers)
        self._by_kind = {informer.kind.name: informer.unreadable for informer in self._informers}

    def unread(self) -> tuple[UnreadableEntry, ...]:
        """Return every unreadable object, and what it may concern."""
        return tuple(
            unread(informer.kind, bad)
            for informer in self._informers
            if informer.unreadable
            for _, bad in sorted(informer.unreadable.items())
        )

    def pods_on(self, node_name: str) -> tuple[Key, ...]:
        """Return the unreadable pods that run, or may run, on a node."""
        return _on_node(node_name, self._by_kind[POD.name])

    def attachments_of(self, node_name: str) -> tuple[Key, ...]:
        """Return the unreadable volume attachments that belong, or may belong, to a node."""
        return _on_node(node_name, self._by_kind[VOLUME_ATTACHMENT.name])

    def claims_of(self, node: Node) -> tuple[Key, ...]:
        """Return the unreadable claims that belong, or may belong, to a node."""
        return tuple(
            key
            for key, bad in sorted(self._by_kind[NODE_CLAIM.name].items())
            if not bad.knows("status.providerID")
            or not isinstance(bad.partial, NodeClaim)
            or _belongs(bad.partial, node)
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The readable parts of the unreadable nodes."""
        return tuple(partial_nodes(self._by_kind[NODE.name].values()))

    @property
    def claims(self) -> tuple[NodeClaim, ...]:
        """The readable parts of the unreadable claims."""
        return tuple(partial_claims(self._by_kind[NODE_CLAIM.name].values()))

    @property
    def instances_known(self) -> bool:
        """Whether the provider id of each unreadable claim and node is readable."""
        claims = (bad.knows("status.providerID") for bad in self._by_kind[NODE_CLAIM.name].values())
        nodes = (bad.knows("spec.providerID") for bad in self._by_kind[NODE.name].values())
        return all(claims) and all(nodes)

    def join(self, joined: list[ClusterNode], pods_on: Callable[[str], tuple[Pod, ...]]) -> list[ClusterNode]:
        """Add the unreadable nodes and claims to these nodes, joined where their readable parts allow it."""
        found = list(joined)
        for node in self.nodes:
            own = [each for each in found if each.node is None and _belongs(each.claim, node)]
            claim = own[0].claim if len(own) == 1 else None
            found = [each for each in found if claim is None or each is not own[0]]
            found.append(ClusterNode(node, claim, pods_on(node.name)))
        for claim in self.claims:
            own = [each for each in found if each.claim is None and _belongs(claim, each.node)]
            found = [each for each in found if not any(each is one for one in own)]
            found += [ClusterNode(each.node, claim, each.pods) for each in own] or [ClusterNode(None, claim)]
        return found


def _on_node(node_name: str, unreadable: Mapping[Key, UnreadableObject]) -> tuple[Key, ...]:
    """Return the unreadable objects whose `spec.nodeName` is, or may be, this node."""
    return tuple(
        key
        for key, bad in sorted(unreadable.items())
        if not bad.knows("spec.nodeName")
        or not isinstance(bad.partial, Pod | VolumeAttachment)
        or bad.partial.spec.node_name == node_name
    )


def _belongs(claim: NodeClaim | None, node: Node | None) -> bool:
    """Whether a claim and a node, one of them unreadable, belong together."""
    if claim is None or node is None:
        return False
    return claim.status.node_name == node.name or ("" != claim.provider_id == node.provider_id)
