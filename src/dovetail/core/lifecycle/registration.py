"""When a node has joined the cluster: what it takes over from its claim.

The node is found by provider id. It gets the finalizer that keeps it until it is drained, an owner, the claim's
labels, annotations and taints, and loses the taint that kept pods away until now.
"""

from dataclasses import dataclass, field
from typing import Any

from dovetail.core.merge_patches import missing, wire
from dovetail.model.conditions import ConditionVerdict
from dovetail.model.kube_object import OwnerReference
from dovetail.model.labels import DO_NOT_SYNC_TAINTS, REGISTERED, TERMINATION_FINALIZER
from dovetail.model.node import Node
from dovetail.model.nodeclaim import REGISTERED as REGISTERED_CONDITION
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.taints import UNREGISTERED_TAINT, Taint


@dataclass(frozen=True)
class Registration:
    """How far registration has come, and what to write on the node to complete it."""

    verdict: ConditionVerdict
    node: Node | None = None
    node_patch: dict[str, Any] = field(default_factory=dict)
    taint_was_missing: bool = False


def plan_registration(claim: NodeClaim, nodes: tuple[Node, ...]) -> Registration:
    """What to do about the nodes that carry this claim's provider id."""
    if not nodes:
        return Registration(
            ConditionVerdict(REGISTERED_CONDITION, "Unknown", "NodeNotFound", "Node not registered with cluster")
        )
    if len(nodes) > 1:
        why = "Invariant violated, matched multiple nodes"
        return Registration(ConditionVerdict(REGISTERED_CONDITION, "False", "MultipleNodesFound", why))
    node = nodes[0]
    marked = any(taint.matches(UNREGISTERED_TAINT) for taint in node.spec.taints)
    return Registration(
        verdict=ConditionVerdict(REGISTERED_CONDITION),
        node=node,
        node_patch=_node_patch(claim, node),
        taint_was_missing=not marked and REGISTERED not in node.metadata.labels,
    )


def _node_patch(claim: NodeClaim, node: Node) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    labels = missing({**claim.metadata.labels, REGISTERED: "true"}, node.metadata.labels)
    if labels:
        metadata["labels"] = labels
    annotations = missing(claim.metadata.annotations, node.metadata.annotations)
    if annotations:
        metadata["annotations"] = annotations
    if TERMINATION_FINALIZER not in node.metadata.finalizers:
        metadata["finalizers"] = [*node.metadata.finalizers, TERMINATION_FINALIZER]
    if not any(owner.uid == claim.metadata.uid for owner in node.metadata.owner_references):
        owners = (*node.metadata.owner_references, _owner(claim))
        metadata["ownerReferences"] = [wire(owner) for owner in owners]
    patch: dict[str, Any] = {"metadata": metadata} if metadata else {}
    taints = synced_taints(claim, node)
    if taints != node.spec.taints:
        patch["spec"] = {"taints": [wire(taint) for taint in taints]}
    return patch


def synced_taints(claim: NodeClaim, node: Node) -> tuple[Taint, ...]:
    """The node's taints with the claim's added and the unregistered one gone; the same taint twice counts once."""
    kept = [taint for taint in node.spec.taints if not taint.matches(UNREGISTERED_TAINT)]
    if node.metadata.labels.get(DO_NOT_SYNC_TAINTS) == "true":
        return tuple(kept)
    for taint in (*claim.spec.taints, *claim.spec.startup_taints):
        if not any(taint.matches(other) for other in kept):
            kept.append(taint)
    return tuple(kept)


def _owner(claim: NodeClaim) -> OwnerReference:
    return OwnerReference(
        api_version="karpenter.sh/v1",
        kind="NodeClaim",
        name=claim.name,
        uid=claim.metadata.uid,
        block_owner_deletion=True,
    )
