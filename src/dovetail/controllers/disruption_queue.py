"""Executes disruption commands: record, taint, launch replacements, wait until they are ready, delete the candidates.

A command is stored as an annotation (`CommandRecord`) on every NodeClaim that it removes, before any other write. Each
step is derived from the NodeClaims, so a restarted controller finds the command and finishes it or rolls it back.
Invariants: a rolled-back command leaves no taint, condition or record behind; the record is committed on all
candidates before the first one is deleted, so either all candidates are deleted or none.

The reconciler's key is the id of the command. Karpenter's counterpart is its disruption orchestration queue.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from dovetail.controllers.command_steps import (
    CommitCheck,
    mark_candidates,
    new_record,
    publish_blocked,
    publish_terminating,
    publish_waiting,
    record_deleted_by_others,
    unmark_candidates,
)
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import command_entry, priced_node, total_price
from dovetail.controllers.metrics.disruption import count_created, count_failed
from dovetail.controllers.provisioner import record_given_up
from dovetail.controllers.traces import record_command, refusal_counts
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.command_progress import (
    BEING_ROLLED_BACK,
    TOO_LATE,
    FailedCommands,
    NextStep,
    ProgressVerdict,
    abandoned,
    after_failure,
    is_part_of_command,
    judge,
    overdue,
    running_commands,
)
from dovetail.core.disruption.replacement_launch import replacement_claims
from dovetail.core.disruption.validation import describe, worth_waiting
from dovetail.core.lifecycle.drain import is_shut
from dovetail.core.provisioning.plan import beyond_limits
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, CommandState, read_record, taken_by, write_record
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.nodeclaim import DISRUPTION_REASON, INITIALIZED, NodeClaim
from dovetail.model.pause import PAUSE, SWITCH, Pause, read_pause
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import Conflict, WorldError
from dovetail.ports.ledger import Considered, DecisionOutcome, LedgerEnding
from dovetail.ports.tracing import SpanRef
from dovetail.runtime.concurrency import for_each
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
RECHECK_SECONDS = 5.0


class DisruptionQueue:
    """The running commands."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.failed: dict[tuple[str, Reason], FailedCommands] = {}  # by NodePool and reason, until a command succeeds
        self._starting: set[str] = set()  # ids of commands whose record is being written
        self._planned_claims: dict[str, list[NodeClaim]] = {}  # replacements this process still has to create
        self._planned_pods: dict[str, frozenset[str]] = {}  # uids of the pods that commands of this process move
        self._commit_check = CommitCheck(context)
        self._reported: set[str] = set()  # ids whose outcome is published while their nodes still terminate
        self._deleted_uids: set[str] = set()  # of claims that the watch does not show as deleting yet
        self._disrupted_claims: dict[Key, NodeClaim] = {}  # with a record or a DisruptionReason condition
        self._tainted_nodes: set[str] = set()  # names of nodes with a disruption taint
        self.reconciler: Reconciler[str] = Reconciler("disruption.queue", self.reconcile, workers=100)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        changed = after or before  # a claim that is gone may have been the last one of its command
        if changed is None:
            return
        if after is not None and _is_disrupted(after):
            self._disrupted_claims[after.key] = after
        else:
            self._disrupted_claims.pop(changed.key, None)
        deleting = after is not None and after.deleting
        if after is None or deleting:
            self._deleted_uids.discard(changed.metadata.uid)
        record = read_record(changed) or (read_record(before) if before is not None else None)  # or rolled back
        if record is not None and not (deleting and record.id in self._reported):
            self.reconciler.add(record.id)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None and is_shut(after):
            self._tainted_nodes.add(after.name)
        elif before is not None:
            self._tainted_nodes.discard(before.name)

    async def run(self) -> None:
        """Reconcile commands until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def start(self, command: Command, considered: Considered | None = None) -> str:
        """Write the command's record on the NodeClaim of every candidate; the reconciler executes it from then on.

        Returns the command's id.
        """
        record, tracer = new_record(command, self._context.clock.now()), self._context.tracer
        known = self._context.state.snapshot(self._context.clock.now(), {})
        self._planned_claims[record.id] = replacement_claims(command, record.id, known)
        self._planned_pods[record.id] = frozenset(
            pod.metadata.uid for each in command.candidates for pod in each.pods_to_reschedule
        )
        facts = {"command": record.id, "reason": command.reason, "what": str(command), **tracer.log_fields(record.id)}
        log.info("disrupting nodes", extra=facts)
        self._context.ledger.open(command_entry(command, record, considered))
        self._starting.add(record.id)
        try:
            latest = self._context.state.claims.items
            claims = [latest.get(each.claim.key, each.claim) for each in command.candidates]
            with tracer.span("record command", SpanRef(record.id), nodeclaims=[each.name for each in claims]):
                await for_each(lambda claim: self._write_record(claim, record), claims)
        finally:  # a command whose record is not on all its candidates is rolled back
            self._starting.discard(record.id)
            self.reconciler.add(record.id)
        return record.id

    async def _write_record(self, claim: NodeClaim, record: CommandRecord) -> NodeClaim:
        """Write the record on a claim; after a conflict, read the claim again and retry once."""
        try:
            return await self._put_record(claim, record)
        except Conflict:
            fresh = await self._context.cluster.get(NODE_CLAIM, claim.key)
            if fresh.deleting or fresh.metadata.uid != claim.metadata.uid:
                raise
            return await self._put_record(fresh, record)

    async def _put_record(self, claim: NodeClaim, record: CommandRecord) -> NodeClaim:
        """Write the record, unless the claim has another command, or had its record removed before the commit."""
        written = read_record(claim)
        if record.committed if written is None else written.id != record.id:
            raise Conflict(f"nodeclaim {claim.name} is not marked with command {record.id}")
        body = {"metadata": {"annotations": {RECORD_ANNOTATION: write_record(record)}}}
        return await self._context.patch_claim(claim, body)

    async def reconcile(self, command: str) -> float | None:
        """Execute the next step of one command."""
        if command in self._starting:
            return POLL_SECONDS
        state = running_commands(self._disrupted_claims.values()).get(command)
        if state is None:
            if self._forget_plan(command):
                ending = self._ending(DecisionOutcome.FAILED, "nothing of it is left on any node")
                self._context.ledger.close(command, ending)
            self._reported.discard(command)
            return None
        ours, verdict = command in self._planned_claims, self._judge(state)
        if verdict.next is NextStep.DONE:
            self._forget_plan(command)
            await self._finish(state, verdict.why)
            return None
        if verdict.next is NextStep.ROLL_BACK:
            cut_off = not ours and verdict.why != TOO_LATE  # its process died: the NodePool did not fail
            await self._roll_back(state, verdict.why, failed=not cut_off)
            return None
        if not state.record.committed and not self._context.state.switch.synced.is_set():
            return POLL_SECONDS  # whether disruption is paused is not known yet
        paused = None if state.record.committed else self._paused(state)
        if paused is not None:  # no node has begun to drain
            await self._roll_back_unused(state, str(paused), failed=False)
            return None
        if verdict.next is NextStep.DELETE:
            return await self._check_and_delete(state)
        return await self._prepare(state)

    async def _prepare(self, state: CommandState) -> float | None:
        """Taint the candidates and launch their replacements."""
        await mark_candidates(self._context, state.candidates, state.record)
        limit_reached = await self._launch(state.record.id, state)
        if limit_reached:
            await self._roll_back(state, limit_reached, failed=False)
            return None
        publish_waiting(self._context, state)
        return POLL_SECONDS

    def _judge(self, state: CommandState) -> ProgressVerdict:
        """Return the next step. A rollback that has begun is always completed: its outcome is already published."""
        command, now = state.record.id, self._context.clock.now()
        planned = bool(self._planned_claims.get(command))
        verdict = judge(state, planned=planned, now=now, ours=command in self._planned_claims)
        if command in self._reported and not state.record.committed and verdict.next is not NextStep.DONE:
            return ProgressVerdict(NextStep.ROLL_BACK, verdict.why or BEING_ROLLED_BACK)
        return verdict

    def _paused(self, state: CommandState) -> Pause | None:
        """Return the pause that is in force, if any: that of the cluster or of a candidate's NodePool."""
        known, now = self._context.state, self._context.clock.now()
        written = [(known.pause, f"ConfigMap {SWITCH}")]
        pools = filter(None, (known.pool(claim.nodepool_name) for claim in state.candidates))
        written.extend((pool.metadata.annotations.get(PAUSE), f"NodePool {pool.name}") for pool in pools)
        return next(filter(None, (read_pause(value, by, now) for value, by in written)), None)

    def _ending(self, outcome: DecisionOutcome, note: str = "") -> LedgerEnding:
        return LedgerEnding(outcome=outcome, at=self._context.clock.now(), note=note)

    async def _finish(self, state: CommandState, deleted_by_others: str) -> None:
        """Publish the outcome once: all candidates are deleted, by this command or by others before it."""
        record = state.record
        if record.id in self._reported:
            return
        self._reported.add(record.id)
        if deleted_by_others:
            record_deleted_by_others(self._context, state, deleted_by_others)
            return
        made = tuple([await priced_node(self._context, claim) for claim in state.replacements])
        ending = self._ending(DecisionOutcome.DONE)
        ending = replace(ending, made=made, cost_before=record.cost_before, cost_after=total_price(made))
        self._context.ledger.close(record.id, ending)
        self._context.metrics.count("dovetail_commands_ended_total", reason=record.reason, outcome=DecisionOutcome.DONE)
        record_command(self._context, state, DecisionOutcome.DONE)
        log.info(
            "disrupted nodes",
            extra={
                "command": record.id,
                "reason": record.reason,
                "nodeclaims": [claim.name for claim in state.candidates],
                "cost_before": round(record.cost_before, 4),
                "cost_after": round(total_price(made), 4),
            },
        )

    async def _launch(self, command: str, state: CommandState) -> str:
        """Create the missing replacements one by one; return which limit prevents the next one, else an empty text."""
        planned = self._planned_claims.get(command, [])
        while planned and len(state.replacements) + len(planned) > state.record.replacements:
            planned.pop()  # a create that returned an error had taken effect
        while planned:
            async with self._context.launch_lock:
                snapshot = await self._context.snapshot()
                exceeded = beyond_limits(snapshot, planned[0], [each.name for each in state.candidates])
                if exceeded:
                    return exceeded
                with self._context.tracer.span("create replacement", SpanRef(command)):
                    claim = await self._context.create_claim(planned[0])
            planned.pop(0)
            message = f"Launching NodeClaim: {state.record.reason}"
            notice = Notice(NODE_CLAIM, claim, "DisruptionLaunching", message, decision=command)
            count_created(self._context.metrics, claim, state.record.reason)
            log.info("created nodeclaim", extra={"nodeclaim": claim.name, "command": command})
            self._context.recorder.publish(notice)
        return ""

    async def _check_and_delete(self, state: CommandState) -> float | None:
        """Check the candidates against the API server, commit the record, then delete them.

        Candidates that may no longer be disrupted are unmarked. If the command has replacements, which were sized for
        all candidates together, it is rolled back instead.
        """
        latest = map(self._context.state.latest, state.candidates)
        remaining = [claim for claim in latest if not claim.deleting and claim.metadata.uid not in self._deleted_uids]
        if state.record.committed:
            await self._delete(remaining, state.record)
            return POLL_SECONDS
        try:
            await mark_candidates(self._context, remaining, state.record)  # keeps new pods away during the check
            with self._context.tracer.span("check candidates", SpanRef(state.record.id)) as span:
                obstacles = await self._commit_check.find_obstacles(state, self._planned_pods.get(state.record.id))
                span.set(**refusal_counts([*obstacles.values()]))
        except WorldError as error:
            if not overdue(state.record, self._context.clock.now()):
                raise
            await self._roll_back(state, f"its nodes could not be checked before deletion: {error}")
            return None
        return await self._commit_or_roll_back(state, remaining, obstacles)

    async def _commit_or_roll_back(
        self, state: CommandState, remaining: list[NodeClaim], obstacles: Mapping[str, Refusal]
    ) -> float | None:
        """Commit, wait or roll back, depending on which candidates may no longer be disrupted."""
        paused = self._paused(state)
        if paused is None and worth_waiting(state, obstacles, self._context.clock.now()):
            return RECHECK_SECONDS
        kept = [claim for claim in map(self._context.state.latest, remaining) if claim.name not in obstacles]
        publish_blocked(self._context, state, obstacles)
        if paused is not None or (obstacles and (state.record.replacements or not kept)):
            why = str(paused) if paused is not None else describe(obstacles)
            await self._roll_back_unused(state, why, failed=paused is None)
            return None
        await unmark_candidates(self._context, [claim for claim in remaining if claim.name in obstacles])
        await self._commit(kept, await self._committed_record(state.record, kept, partial=bool(obstacles)))
        self.reconciler.drop_requeue(state.record.id)  # set by our own writes; deletions requeue it
        return POLL_SECONDS

    async def _committed_record(self, record: CommandRecord, kept: list[NodeClaim], *, partial: bool) -> CommandRecord:
        """Return the committed record, reduced to the candidates that were kept."""
        if not partial:
            return msgspec.structs.replace(record, committed=True)
        cost = total_price([await priced_node(self._context, claim) for claim in kept])
        return msgspec.structs.replace(record, committed=True, candidates=len(kept), cost_before=cost)

    async def _commit(self, claims: list[NodeClaim], record: CommandRecord) -> None:
        async def commit(claim: NodeClaim) -> NodeClaim:
            return await self._write_record(claim, record) if taken_by(claim) is None else claim

        with self._context.tracer.span("commit", SpanRef(record.id), nodeclaims=[each.name for each in claims]):
            claims = await for_each(commit, claims)
        await self._delete(claims, record)

    async def _delete(self, claims: list[NodeClaim], record: CommandRecord) -> None:
        async def delete(claim: NodeClaim) -> None:
            await self._context.delete_claim(claim)
            known = self._context.state.claims.items.get(claim.key)
            if known is not None and not known.deleting:
                self._deleted_uids.add(known.metadata.uid)
            self.failed.pop((claim.nodepool_name, record.reason), None)
            publish_terminating(self._context, claim, record)

        if claims:
            with self._context.tracer.span("delete candidates", SpanRef(record.id)):
                await for_each(delete, claims)

    async def _roll_back_unused(self, state: CommandState, why: str, *, failed: bool) -> None:
        """Roll back, and also delete the ready replacements that no pod uses yet.

        With `failed`, the NodePool backs off: the planner's caches may not show yet what blocked the candidates.
        """
        ready = [claim for claim in state.replacements if not claim.deleting and claim not in abandoned(state)]
        unused = await for_each(self._commit_check.is_unused, ready)
        for claim in (claim for claim, is_unused in zip(ready, unused, strict=True) if is_unused):
            self._context.removal_reasons[claim.metadata.uid] = "rolled_back"
            await self._context.delete_claim(claim)
        await self._roll_back(state, why, failed=failed)

    def _forget_plan(self, command: str) -> bool:
        """Drop what this process knows of the command's plan; return whether it had planned the command."""
        self._planned_pods.pop(command, None)
        return self._planned_claims.pop(command, None) is not None

    async def _roll_back(self, state: CommandState, why: str, *, failed: bool = True) -> None:
        """Delete unready replacements and unmark the candidates; records go last, so that a restart can resume."""
        if state.record.id not in self._reported:
            self._reported.add(state.record.id)
            await self._record_failure(state, why, failed=failed)
        for claim in abandoned(state):
            self._context.removal_reasons[claim.metadata.uid] = "rolled_back"
            if failed:
                await record_given_up(self._context, claim, why)
            await self._context.delete_claim(claim)
        with self._context.tracer.span("unmark candidates", SpanRef(state.record.id), why=why):
            await unmark_candidates(self._context, [claim for claim in state.candidates if not claim.deleting])

    async def _record_failure(self, state: CommandState, why: str, *, failed: bool) -> None:
        """Log, count and record the rollback, once per command even if the rollback is retried."""
        log.warning("rolling back", extra={"command": state.record.id, "why": why})
        for pool in {claim.nodepool_name for claim in state.candidates} if failed else ():
            slot = (pool, state.record.reason)
            self.failed[slot] = after_failure(self.failed.get(slot), self._context.clock.now())
        self._forget_plan(state.record.id)
        unready = [claim for claim in state.replacements if not claim.has(INITIALIZED)]
        count_failed(self._context.metrics, state.record, len(unready))
        self._context.metrics.count(
            "dovetail_commands_ended_total", reason=state.record.reason, outcome=DecisionOutcome.ROLLED_BACK
        )
        record_command(self._context, state, DecisionOutcome.ROLLED_BACK, why)
        left, reasons = abandoned(state), self._context.removal_reasons
        stay = [claim for claim in state.replacements if not claim.deleting and claim not in left]
        made = [await priced_node(self._context, claim) for claim in stay if claim.metadata.uid not in reasons]
        self._context.ledger.close(
            state.record.id, replace(self._ending(DecisionOutcome.ROLLED_BACK, why), made=tuple(made))
        )

    async def remove_stray_marks(self) -> None:
        """Remove disruption taints and conditions of claims without a command, left by a crash or another program."""
        state = self._context.state
        tainted = [state.nodes.items[Key("", name)] for name in sorted(self._tainted_nodes)]
        marked = {claim.key: claim for node in tainted for claim in state.claims_of(node)}
        marked.update((key, claim) for key, claim in self._disrupted_claims.items() if claim.has(DISRUPTION_REASON))
        for claim in marked.values():
            nodes = state.nodes_of(claim)
            terminating = claim.deleting or any(node.deleting for node in nodes)
            if not terminating and RECORD_ANNOTATION not in claim.metadata.annotations and self._context.manages(claim):
                log.info("removed disruption marks without a command", extra={"nodeclaim": claim.name})
                await unmark_candidates(self._context, [claim])


def _is_disrupted(claim: NodeClaim) -> bool:
    return is_part_of_command(claim) or claim.has(DISRUPTION_REASON)
