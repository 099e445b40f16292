"""A snapshot as if planned commands were already in flight, so that several commands can be planned in one pass.

Each further command is planned and validated on that snapshot: the nodes of earlier commands accept no pods, their pods
need another node, budgets count them, and their replacements are launching. NodePool limits count a node and its
replacement once, as the larger of the two. A command that fits by itself may still take the room that a pod of an
earlier command needs (`crowded`); another node would be launched for that pod, so the command is not started.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import msgspec

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, write_record
from dovetail.model.snapshot import ClusterNode, Snapshot


def look_ahead(context: PassContext, commands: Collection[Command]) -> PassContext:
    """The same pass, as if these commands were in flight."""
    return context.with_snapshot(as_if_under_way(context.snapshot, commands))


def crowded(after: PassContext, before: PassContext) -> bool:
    """Whether a pod that waits for a node fitted an existing one in `before` and fits none in `after`."""
    return not after.unplaced_pods <= before.unplaced_pods


def as_if_under_way(snapshot: Snapshot, commands: Collection[Command]) -> Snapshot:
    """The snapshot with these commands started. Commands that already have started change nothing."""
    if not commands:
        return snapshot
    records: dict[str, CommandRecord] = {}
    launching: list[ClusterNode] = []
    for number, command in enumerate(commands):
        names = {each.name for each in command.candidates}
        candidates = [node for node in snapshot.nodes if node.name in names]
        if candidates:
            record = _record(command, candidates, f"ahead-{number}", snapshot)
            records.update({node.name: record for node in candidates})
            launching.extend(_launching(command, record, snapshot))
    nodes = [_marked(node, records[node.name], snapshot) if node.name in records else node for node in snapshot.nodes]
    return replace(snapshot, nodes=(*nodes, *launching))


def _record(command: Command, candidates: Sequence[ClusterNode], id_: str, snapshot: Snapshot) -> CommandRecord:
    """The command record that the candidates carry, or a new one."""
    written = next((node.record for node in candidates if node.record is not None), None)
    return written or CommandRecord(
        id=id_,
        reason=command.reason,
        started_at=snapshot.at,
        candidates=len(command.candidates),
        replacements=len(command.replacements),
        method=command.method,
    )


def _marked(node: ClusterNode, record: CommandRecord, snapshot: Snapshot) -> ClusterNode:
    """The node with the command record and a deletion timestamp: it accepts no pods, and its pods need another node."""
    claim, kube_node = node.claim, node.node
    if claim is None or kube_node is None or claim.deleting:
        return node
    annotations = {**claim.metadata.annotations, RECORD_ANNOTATION: write_record(record)}
    marked = msgspec.structs.replace(claim.metadata, annotations=annotations)
    deleted = msgspec.structs.replace(kube_node.metadata, deletion_timestamp=snapshot.at)
    return ClusterNode(
        msgspec.structs.replace(kube_node, metadata=deleted), msgspec.structs.replace(claim, metadata=marked), node.pods
    )


def _launching(command: Command, record: CommandRecord, snapshot: Snapshot) -> Iterator[ClusterNode]:
    """The replacements that have no NodeClaim in the snapshot yet."""
    claims = [node.claim for node in snapshot.nodes if node.claim is not None]
    created = sum(claim.metadata.annotations.get(REPLACES_ANNOTATION) == record.id for claim in claims)
    for number, draft in enumerate(command.replacements[created:]):
        claim = claim_for(draft)
        metadata = msgspec.structs.replace(
            claim.metadata,
            name=f"{claim.metadata.generate_name}{record.id}-{number}",
            annotations={**claim.metadata.annotations, REPLACES_ANNOTATION: record.id},
            creation_timestamp=snapshot.at,
        )
        yield ClusterNode(None, msgspec.structs.replace(claim, metadata=metadata))
