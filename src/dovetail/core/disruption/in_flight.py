"""A cluster as if some commands were under way already, for what is decided before they are.

Several commands may wait for their second look at once. Each is planned, and looked at again, as if those before it had
been written down: their nodes take nobody, their pods need a place, budgets count them, and what replaces them is on
order. The limits of NodePools count nodes and what replaces them once, as the larger. One that fits on its own may
still leave a pod of those before it without a place, and another node would be bought for that: it has to wait.
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
    """The same pass over the cluster as if these commands were under way."""
    return context.over(as_if_under_way(context.snapshot, commands))


def crowded(after: PassContext, before: PassContext) -> bool:
    """Whether a pod that needs a place, and had one before, has none after."""
    return not after.quick_reject <= before.quick_reject


def as_if_under_way(snapshot: Snapshot, commands: Collection[Command]) -> Snapshot:
    """The same cluster, with these commands started a moment ago; as far as they are, it is left as it is."""
    if not commands:
        return snapshot
    records: dict[str, CommandRecord] = {}
    ordered: list[ClusterNode] = []
    for number, command in enumerate(commands):
        names = {each.name for each in command.candidates}
        going = [node for node in snapshot.nodes if node.name in names]
        if going:
            record = _record(command, going, f"ahead-{number}", snapshot)
            records.update({node.name: record for node in going})
            ordered.extend(_ordered(command, record, snapshot))
    nodes = [_going(node, records[node.name], snapshot) if node.name in records else node for node in snapshot.nodes]
    return replace(snapshot, nodes=(*nodes, *ordered))


def _record(command: Command, going: Sequence[ClusterNode], id_: str, snapshot: Snapshot) -> CommandRecord:
    """What stands on its nodes already, or what will."""
    written = next((node.record for node in going if node.record is not None), None)
    return written or CommandRecord(
        id=id_,
        reason=command.reason,
        started_at=snapshot.at,
        candidates=len(command.candidates),
        replacements=len(command.replacements),
        method=command.method,
    )


def _going(node: ClusterNode, record: CommandRecord, snapshot: Snapshot) -> ClusterNode:
    """No room for anybody, and the pods on it need one."""
    claim, itself = node.claim, node.node
    if claim is None or itself is None or claim.deleting:
        return node
    annotations = {**claim.metadata.annotations, RECORD_ANNOTATION: write_record(record)}
    marked = msgspec.structs.replace(claim.metadata, annotations=annotations)
    closed = msgspec.structs.replace(itself.metadata, deletion_timestamp=snapshot.at)
    return ClusterNode(
        msgspec.structs.replace(itself, metadata=closed), msgspec.structs.replace(claim, metadata=marked), node.pods
    )


def _ordered(command: Command, record: CommandRecord, snapshot: Snapshot) -> Iterator[ClusterNode]:
    """The replacements that are not there yet."""
    claims = [node.claim for node in snapshot.nodes if node.claim is not None]
    there = sum(claim.metadata.annotations.get(REPLACES_ANNOTATION) == record.id for claim in claims)
    for number, draft in enumerate(command.replacements[there:]):
        claim = claim_for(draft)
        metadata = msgspec.structs.replace(
            claim.metadata,
            name=f"{claim.metadata.generate_name}{record.id}-{number}",
            annotations={**claim.metadata.annotations, REPLACES_ANNOTATION: record.id},
            creation_timestamp=snapshot.at,
        )
        yield ClusterNode(None, msgspec.structs.replace(claim, metadata=metadata))
