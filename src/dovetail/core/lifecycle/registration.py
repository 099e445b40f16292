"""The stages of a NodeClaim: launch, registration and initialization of its node, as in Karpenter.

`judge_liveness` applies the timeouts of launch and registration, after which a claim is deleted. `plan_registration`
finds the node by provider ID and computes its patch: the termination finalizer, the owner reference, the claim's
labels, annotations and taints, the taint that closes the node (`opening`), and no unregistered taint.
`judge_initialization` computes the `Initialized` condition, which has no timeout. `judge_consistency` compares the
node's capacity with that of its instance type. `stage_of` names the stage of a node for display.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dovetail.core.lifecycle.opening import planned_pods
from dovetail.core.merge_patches import missing, wire
from dovetail.model.conditions import ConditionVerdict, find
from dovetail.model.instants import add
from dovetail.model.kube_object import OwnerReference
from dovetail.model.labels import DO_NOT_SYNC_TAINTS, PLANNED_PODS, REGISTERED, TERMINATION_FINALIZER
from dovetail.model.node import Node
from dovetail.model.nodeclaim import CONSISTENT_STATE_FOUND, INITIALIZED, LAUNCHED, NodeClaim
from dovetail.model.nodeclaim import REGISTERED as REGISTERED_CONDITION
from dovetail.model.resources import ZERO
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import CLOSED_TAINT, UNREGISTERED_TAINT, Taint, is_ephemeral

LAUNCH_TIMEOUT = timedelta(minutes=5)
REGISTRATION_TIMEOUT = timedelta(minutes=15)
MINIMUM_CAPACITY = 0.9  # share of the expected capacity that a node must have


@dataclass(frozen=True, slots=True)
class Liveness:
    """The timeout that a claim has exceeded (`reason`), or the time until it would."""

    reason: str = ""
    wait: timedelta | None = None


def judge_liveness(claim: NodeClaim, now: datetime) -> Liveness:
    """Check both timeouts. Each counts from the last transition of its condition, or from the claim's creation."""
    if claim.has(REGISTERED_CONDITION):
        return Liveness()
    waits = []
    if not claim.has(LAUNCHED):
        waits.append((add(_since(claim, LAUNCHED, now), LAUNCH_TIMEOUT) - now, "launch_timeout"))
    waits.append((add(_since(claim, REGISTERED_CONDITION, now), REGISTRATION_TIMEOUT) - now, "registration_timeout"))
    for wait, reason in waits:
        if wait <= timedelta():
            return Liveness(reason=reason)
    return Liveness(wait=min(wait for wait, _ in waits))


def _since(claim: NodeClaim, condition: str, now: datetime) -> datetime:
    """Since when the claim waits for the condition; now, if it has no creation timestamp."""
    found = find(claim.status.conditions, condition)
    return (found.last_transition_time if found is not None else None) or claim.metadata.creation_timestamp or now


@dataclass(frozen=True)
class Registration:
    """The `Registered` condition, and the patch of the node that completes the registration."""

    verdict: ConditionVerdict
    node: Node | None = None
    node_patch: dict[str, Any] = field(default_factory=dict)
    taint_was_missing: bool = False


def plan_registration(claim: NodeClaim, nodes: tuple[Node, ...]) -> Registration:
    """The registration of a claim, given the nodes with its provider ID."""
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
    annotations.pop(PLANNED_PODS, None)  # long, and of no use there
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
    """The node's taints without the unregistered one, plus those of the claim and the closing one if it lacks them."""
    kept = [taint for taint in node.spec.taints if not taint.matches(UNREGISTERED_TAINT)]
    if node.metadata.labels.get(DO_NOT_SYNC_TAINTS) == "true":
        return tuple(kept)
    closing = (CLOSED_TAINT,) if planned_pods(claim) else ()
    for taint in (*claim.spec.taints, *claim.spec.startup_taints, *closing):
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


def judge_initialization(claim: NodeClaim, node: Node | None) -> ConditionVerdict:
    """The `Initialized` condition: True, or Unknown with what is missing."""
    if node is None:
        return _awaiting("NodeNotFound", "Node not registered with cluster")
    if not node.ready:
        return _awaiting("NodeNotReady", "Node status is NotReady")
    for taint in node.spec.taints:
        if any(taint.matches(startup) for startup in claim.spec.startup_taints):
            return _awaiting("StartupTaintsExist", f'StartupTaint "{taint}" still exists')
        if is_ephemeral(taint):
            return _awaiting("KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{taint}" still exists')
    for name, amount in sorted(claim.spec.resources.requests.items()):
        if amount and not node.status.allocatable.get(name, ZERO):
            return _awaiting("ResourceNotRegistered", f'Resource "{name}" was requested but not registered')
    return ConditionVerdict(INITIALIZED)


def _awaiting(reason: str, message: str) -> ConditionVerdict:
    return ConditionVerdict(INITIALIZED, "Unknown", reason, message)


def find_inconsistencies(claim: NodeClaim, node: Node) -> tuple[str, ...]:
    """Each requested resource of which the node has less than 90% of the capacity that its instance type promised."""
    found = []
    for name, amount in sorted(claim.spec.resources.requests.items()):
        expected, actual = claim.status.capacity.get(name, ZERO), node.status.capacity.get(name, ZERO)
        if amount and expected and actual.number < MINIMUM_CAPACITY * expected.number:
            share = 100 * actual.number / expected.number
            found.append(f"Expected {expected} of resource {name}, but found {actual} ({share:.1f}% of expected)")
    return tuple(found)


def judge_consistency(claim: NodeClaim, node: Node) -> ConditionVerdict:
    """The `ConsistentStateFound` condition of an initialized claim."""
    if find_inconsistencies(claim, node):
        return ConditionVerdict(
            CONSISTENT_STATE_FOUND, "False", "ConsistencyCheckFailed", "Consistency check failed; see the events"
        )
    return ConditionVerdict(CONSISTENT_STATE_FOUND)


def stage_of(each: ClusterNode) -> str:
    """Launching, Registering, NotReady, Ready or Draining; Lost if a registered node is gone."""
    claim, node = each.claim, each.node
    if each.deleting or (node is not None and node.deleting):
        return "Draining"
    if claim is not None and node is None:
        if claim.has(REGISTERED_CONDITION):
            return "Lost"
        return "Registering" if claim.provider_id else "Launching"
    if not each.registered:
        return "Registering"
    return "Ready" if each.initialized and node is not None and node.ready else "NotReady"
