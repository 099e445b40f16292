"""Replacements of a disruption: whether they may be launched now, and their NodeClaims.

The simulation does not rely on nodes that have not initialized. But they are no reason to launch more nodes either:
the instance is paid for and may initialize at any moment. So a command that needs replacements is refused

- while a replacement of an earlier command that was rolled back has not initialized in the same NodePool. It may
  never initialize, and each further command would add a node.
- while one of its pods would be scheduled to a node that has not initialized.
- while the NodePool backs off from launches for pods of the same kind, because earlier launches did not help them.

All of this is read from API objects, so restarts change nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.provisioning.launch_backoff import backoff_refusal, pods_with_kinds, recorded_backoffs
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.command import REPLACES_ANNOTATION
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import INITIALIZED, NodeClaim
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot


def replacement_refusal(
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    bounds: Bounds,
    context: PassContext,
    *,
    consolidating: bool,
) -> Refusal | None:
    """Why `drafts` may not be launched to replace the candidates now, or None. `bounds` are those of the simulation."""
    if not drafts:
        return None
    about = candidates[0].ref
    backing_off = _backing_off(drafts, about, context)
    if backing_off is not None:
        return backing_off
    pools = {draft.template.pool.name for draft in drafts}
    left_over = next((node for node in context.unfinished_replacements if node.nodepool_name in pools), None)
    if left_over is not None:
        return _unready(RefusalCode.REPLACEMENT_NOT_INITIALIZED, about, left_over)
    removal_simulation = context.removal_simulation(consolidating=consolidating)
    starting = removal_simulation.uninitialized_destination(
        [removal_simulation.row(each.name) for each in candidates], bounds
    )
    return _unready(RefusalCode.DESTINATION_NOT_INITIALIZED, about, starting) if starting is not None else None


def replacement_claims(command: Command, id_: str, snapshot: Snapshot) -> list[NodeClaim]:
    """The NodeClaims to create for the command with this id."""
    marks, backoffs = {**command.annotations, REPLACES_ANNOTATION: id_}, recorded_backoffs(snapshot)
    return [_marked(claim_for(draft, backoffs), marks) for draft in command.replacements]


def _marked(claim: NodeClaim, marks: Mapping[str, str]) -> NodeClaim:
    annotations = {**claim.metadata.annotations, **marks}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def _backing_off(drafts: Sequence[Draft], about: ObjectRef, context: PassContext) -> Refusal | None:
    for draft in drafts if context.launch_backoffs else ():
        for _, kind in pods_with_kinds(draft):
            backoff = context.launch_backoffs.get((draft.pool_name, kind))
            if backoff is not None:
                return backoff_refusal(about, draft.pool_name, backoff)
    return None


def _unready(code: RefusalCode, about: ObjectRef, node: ClusterNode) -> Refusal:
    """A refusal because `node` has not initialized, with the message of its NodeClaim's `Initialized` condition."""
    condition = find(node.claim.status.conditions, INITIALIZED) if node.claim is not None else None
    other = node_ref(node.name) if node.node is not None else ObjectRef("nodeclaim", node.name)
    awaited = condition.message if condition is not None else ""
    return Refusal(code, about, nodepool=node.nodepool_name, other=other, detail=awaited)
