"""Drift that replacing a node does not end: its replacement is drifted for the same reason.

A NodeClaim launched to replace a drifted node carries an annotation: the reason of the drift, and the desired state it
was launched under (generation of the NodePool, state of the node class). If that claim is drifted for the same reason
while the desired state is still the same, another replacement would be no better. Drift of that NodePool for that
reason then stops until the NodePool, its node class, or what the class resolves to changes.

Everything is read from API objects, so a restart changes nothing. Without the state of the class, a second release of
an image shortly after the first would look like a loop.
"""

from collections.abc import Mapping

import msgspec

from dovetail.core.disruption.drift import drift_reason
from dovetail.model.kube_object import ApiStruct
from dovetail.model.labels import NODE_CLASS_STATE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot

ANNOTATION = "dovetail.sh/drift-replacement"

Loops = Mapping[tuple[str, str], ClusterNode]
"""By NodePool and reason of drift: a node that was launched to end that drift and has it as well."""


class DriftReplacement(ApiStruct, frozen=True, kw_only=True):
    """Why a claim was launched, and the desired state it was launched under."""

    reason: str
    generation: int
    node_class_state: str = ""


def replacement_annotation(reason: str, pool: NodePool) -> dict[str, str]:
    """What the replacements of a node of `pool` that drifted for `reason` carry."""
    return {ANNOTATION: msgspec.json.encode(_launched_for(reason, pool)).decode()}


def find_loops(snapshot: Snapshot) -> Loops:
    """Every drift that replacing nodes does not end, with one of the nodes that show it."""
    loops: dict[tuple[str, str], ClusterNode] = {}
    for node in snapshot.nodes:
        launched = _read(node.claim) if node.claim is not None and not node.deleting else None
        pool = snapshot.nodepools.get(node.nodepool_name)
        if launched is None or pool is None or node.claim is None:
            continue
        if launched == _launched_for(launched.reason, pool) and (
            drift_reason(node.claim, pool, snapshot) == launched.reason
        ):
            loops.setdefault((pool.name, launched.reason), node)
    return loops


def loop_refusal(about: ObjectRef, pool: str, reason: str, loops: Loops) -> Refusal | None:
    """Why a node of the pool, or the pool itself, that drifted for `reason` is not replaced; or None."""
    found = loops.get((pool, reason))
    if found is None:
        return None
    code, other = RefusalCode.DRIFT_NOT_FIXED, node_ref(found.name)
    return Refusal(code, about, permanent=True, nodepool=pool, other=other, detail=reason)


def _launched_for(reason: str, pool: NodePool) -> DriftReplacement:
    state = pool.metadata.annotations.get(NODE_CLASS_STATE, "")
    return DriftReplacement(reason=reason, generation=pool.metadata.generation, node_class_state=state)


def _read(claim: NodeClaim) -> DriftReplacement | None:
    written = claim.metadata.annotations.get(ANNOTATION)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=DriftReplacement)
    except msgspec.DecodeError:
        return None  # written by somebody else: no evidence
