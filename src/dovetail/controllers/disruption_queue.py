"""Carries commands out: record, taint, launch replacements, wait until they are ready, then let the nodes go.

Each step is derived from the NodeClaims as they are. A command is written down on every claim it takes away before
anything else happens, so a restart finds it and either finishes it or takes it back: no taint, condition or record is
left behind.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from dovetail.controllers.command_steps import (
    CommitCheck,
    mark,
    note_overtaken,
    release,
    tell_going,
    tell_kept,
    tell_waiting,
)
from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.ledger_entries import command_entry, find_facts, total
from dovetail.controllers.metrics.disruption import count_created, count_failed
from dovetail.controllers.provisioner import note_given_up
from dovetail.core.disruption.command import Command, cheapest
from dovetail.core.disruption.command_progress import (
    BEING_TAKEN_BACK,
    TOO_LATE,
    FailedCommands,
    NextStep,
    ProgressVerdict,
    abandoned,
    after_failure,
    judge,
    names_a_command,
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
from dovetail.model.snapshot import Snapshot
from dovetail.ports.cluster import Notice
from dovetail.ports.errors import Conflict, WorldError
from dovetail.ports.ledger import Considered, DecisionOutcome, LedgerEnding
from dovetail.runtime.concurrency import for_each
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
RECHECK_SECONDS = 5.0


class DisruptionQueue:
    """The commands that are under way."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.failed: dict[tuple[str, Reason], FailedCommands] = {}  # by pool and reason; success forgets
        self._starting: set[str] = set()
        self._planned: dict[str, list[NodeClaim]] = {}  # replacements this process still has to create
        self._planned_pods: dict[str, frozenset[str]] = {}  # uids of the pods that commands of this process move
        self._commit_check = CommitCheck(context)
        self._ended: set[str] = set()  # told already, their nodes are still going
        self._deleted: set[str] = set()  # uids of claims that are deleted, though the watch has not told yet
        self._concerned: dict[Key, NodeClaim] = {}  # claims that speak of a command, or of a disruption
        self._tainted: set[str] = set()  # names of nodes that no new pods come to
        self.reconciler: Reconciler[str] = Reconciler("disruption.queue", self.reconcile, workers=100)
        context.state.claims.listen(self._claim_changed)
        context.state.nodes.listen(self._node_changed)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        changed = after or before  # one that is gone may have been the last of its command
        if changed is None:
            return
        if after is not None and _is_concerned(after):
            self._concerned[after.key] = after
        else:
            self._concerned.pop(changed.key, None)
        going = after is not None and after.deleting
        if after is None or going:
            self._deleted.discard(changed.metadata.uid)
        record = read_record(changed) or (read_record(before) if before is not None else None)  # or was taken back
        if record is not None and not (going and record.id in self._ended):
            self.reconciler.add(record.id)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None and is_shut(after):
            self._tainted.add(after.name)
        elif before is not None:
            self._tainted.discard(before.name)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def start(self, command: Command, considered: Considered | None = None) -> None:
        """Write the command down on every node it takes away; from then on it carries itself out."""
        record = self._record(command)
        known = self._context.state.snapshot(self._context.clock.now(), {})
        self._planned[record.id] = replacement_claims(command, record.id, known)
        self._planned_pods[record.id] = frozenset(
            pod.metadata.uid for each in command.candidates for pod in each.pods_to_reschedule
        )
        log.info("disrupting nodes", extra={"command": record.id, "reason": command.reason, "what": str(command)})
        self._context.ledger.open(command_entry(command, record, considered))
        self._starting.add(record.id)
        try:
            latest = self._context.state.claims.items
            claims = [latest.get(each.claim.key, each.claim) for each in command.candidates]
            await for_each(lambda claim: self._write(claim, record), claims)
        finally:  # a command that is not on all its candidates is taken back
            self._starting.discard(record.id)
            self.reconciler.add(record.id)

    async def _write(self, claim: NodeClaim, record: CommandRecord) -> NodeClaim:
        """Write the record on a claim. One that changed meanwhile is read again, once: it may still be ours to take."""
        try:
            return await self._put_record(claim, record)
        except Conflict:
            fresh = await self._context.cluster.get(NODE_CLAIM, claim.key)
            if fresh.deleting or fresh.metadata.uid != claim.metadata.uid:
                raise
            return await self._put_record(fresh, record)

    async def _put_record(self, claim: NodeClaim, record: CommandRecord) -> NodeClaim:
        """Only a claim that bears the record already is committed: without it, somebody took the command back."""
        written = read_record(claim)
        if record.committed if written is None else written.id != record.id:
            raise Conflict(f"nodeclaim {claim.name} is not marked with command {record.id}")
        body = {"metadata": {"annotations": {RECORD_ANNOTATION: write_record(record)}}}
        return await self._context.patch_claim(claim, body)

    def _record(self, command: Command) -> CommandRecord:
        now = self._context.clock.now()
        names = ",".join(each.name for each in command.candidates)
        digest = hashlib.sha256(f"{now.isoformat()} {names}".encode()).hexdigest()
        return CommandRecord(
            id=digest[:12],
            reason=command.reason,
            started_at=now,
            candidates=len(command.candidates),
            replacements=len(command.replacements),
            method=command.method,
            cost_before=sum(each.price for each in command.candidates),
            cost_after=sum(map(cheapest, command.replacements)),
        )

    async def reconcile(self, command: str) -> float | None:
        """Bring one command a step further."""
        if command in self._starting:
            return POLL_SECONDS
        state = running_commands(self._concerned.values()).get(command)
        if state is None:
            if self._forget(command):
                ending = self._ending(DecisionOutcome.FAILED, "nothing of it is left on any node")
                self._context.ledger.close(command, ending)
            self._ended.discard(command)
            return None
        ours, verdict = command in self._planned, self._judge(state)
        if verdict.next is NextStep.DONE:
            self._forget(command)
            await self._finish(state, verdict.why)
            return None
        if verdict.next is NextStep.ROLL_BACK:
            cut_off = not ours and verdict.why != TOO_LATE  # its process died: no fault of the pool
            await self._roll_back(state, verdict.why, failed=not cut_off)
            return None
        if not state.record.committed and not self._context.state.switch.synced.is_set():
            return POLL_SECONDS  # whether disruption is paused is not known yet
        paused = None if state.record.committed else self._paused(state)
        if paused is not None:  # no node has begun to drain: none will
            await self._take_back(state, str(paused), failed=False)
            return None
        if verdict.next is NextStep.DELETE:
            return await self._let_go(state)
        return await self._prepare(state)

    async def _prepare(self, state: CommandState) -> float | None:
        """Taint the candidates and launch their replacements."""
        await mark(self._context, state.candidates, state.record)
        full = await self._launch(state.record.id, state)
        if full:
            await self._roll_back(state, full, failed=False)
            return None
        tell_waiting(self._context, state)
        return POLL_SECONDS

    def _judge(self, state: CommandState) -> ProgressVerdict:
        """What a command needs now. Once taking it back has begun, it is not resumed: its end has been told."""
        command, now = state.record.id, self._context.clock.now()
        planned = bool(self._planned.get(command))
        verdict = judge(state, planned=planned, now=now, ours=command in self._planned)
        if command in self._ended and not state.record.committed and verdict.next is not NextStep.DONE:
            return ProgressVerdict(NextStep.ROLL_BACK, verdict.why or BEING_TAKEN_BACK)
        return verdict

    def _paused(self, state: CommandState) -> Pause | None:
        """A pause that came after the command began."""
        known, now = self._context.state, self._context.clock.now()
        written = [(known.pause, f"ConfigMap {SWITCH}")]
        pools = filter(None, (known.pool(claim.nodepool_name) for claim in state.candidates))
        written.extend((pool.metadata.annotations.get(PAUSE), f"NodePool {pool.name}") for pool in pools)
        return next(filter(None, (read_pause(value, by, now) for value, by in written)), None)

    def _ending(self, outcome: DecisionOutcome, note: str = "") -> LedgerEnding:
        return LedgerEnding(outcome=outcome, at=self._context.clock.now(), note=note)

    async def _finish(self, state: CommandState, overtaken: str) -> None:
        """All candidates are going, by this command or before it came to that: say what came of it, once."""
        record = state.record
        if record.id in self._ended:
            return
        self._ended.add(record.id)
        if overtaken:
            note_overtaken(self._context, state, overtaken)
            return
        made = tuple([await find_facts(self._context, claim) for claim in state.replacements])
        ending = self._ending(DecisionOutcome.DONE)
        ending = replace(ending, made=made, cost_before=record.cost_before, cost_after=total(made))
        self._context.ledger.close(record.id, ending)
        self._context.metrics.count("dovetail_commands_ended_total", reason=record.reason, outcome=DecisionOutcome.DONE)
        log.info(
            "disrupted nodes",
            extra={
                "command": record.id,
                "reason": record.reason,
                "nodeclaims": [claim.name for claim in state.candidates],
                "cost_before": round(record.cost_before, 4),
                "cost_after": round(total(made), 4),
            },
        )

    async def _launch(self, command: str, state: CommandState) -> str:
        """Create the replacements that are still missing, one after the other; says why if limits leave no room now."""
        planned = self._planned.get(command, [])
        while planned and len(state.replacements) + len(planned) > state.record.replacements:
            planned.pop()  # a create that seemed to fail had taken effect
        while planned:
            async with self._context.buying:
                full = beyond_limits(await self._snapshot(), planned[0], [each.name for each in state.candidates])
                if full:
                    return full
                claim = await self._context.create_claim(planned[0])
            planned.pop(0)
            message = f"Launching NodeClaim: {state.record.reason}"
            notice = Notice(NODE_CLAIM, claim, "DisruptionLaunching", message, decision=command)
            count_created(self._context.metrics, claim, state.record.reason)
            log.info("created nodeclaim", extra={"nodeclaim": claim.name, "command": command})
            self._context.recorder.publish(notice)
        return ""

    async def _snapshot(self) -> Snapshot:
        context = self._context
        catalogs = await find_catalogs(context.cloud, context.state.nodepools.items.values())
        return context.state.snapshot(context.clock.now(), catalogs)

    async def _let_go(self, state: CommandState) -> float | None:
        """Commit, then delete: the point of no return is written down first, so that all candidates go or none does.

        Before that, what the command is about is read from the API server once more. Candidates that may no longer go
        are released; where replacements were bought for all of them together, the command is taken back.
        """
        latest = map(self._context.state.latest, state.candidates)
        staying = [claim for claim in latest if not claim.deleting and claim.metadata.uid not in self._deleted]
        if state.record.committed:
            await self._delete(staying, state.record)
            return POLL_SECONDS
        try:
            await mark(self._context, staying, state.record)  # no new pods come to them while they are checked
            obstacles = await self._commit_check.find_obstacles(state, self._planned_pods.get(state.record.id))
        except WorldError as error:
            if not overdue(state.record, self._context.clock.now()):
                raise
            await self._roll_back(state, f"its nodes could not be checked before they are deleted: {error}")
            return None
        return await self._go_on(state, staying, obstacles)

    async def _go_on(
        self, state: CommandState, staying: list[NodeClaim], obstacles: Mapping[str, Refusal]
    ) -> float | None:
        """Commit, wait or take back, by what keeps candidates of a command."""
        paused = self._paused(state)
        if paused is None and worth_waiting(state, obstacles, self._context.clock.now()):
            return RECHECK_SECONDS
        kept = [claim for claim in map(self._context.state.latest, staying) if claim.name not in obstacles]
        tell_kept(self._context, state, obstacles)
        if paused is not None or (obstacles and (state.record.replacements or not kept)):
            why = str(paused) if paused is not None else describe(obstacles)
            await self._take_back(state, why, failed=paused is None)
            return None
        await release(self._context, [claim for claim in staying if claim.name in obstacles])
        await self._commit(kept, await self._committed(state.record, kept, partial=bool(obstacles)))
        self.reconciler.caught_up(state.record.id)  # with what we wrote ourselves; the watch tells when the claims go
        return POLL_SECONDS

    async def _committed(self, record: CommandRecord, kept: list[NodeClaim], *, partial: bool) -> CommandRecord:
        """The record of a command that goes on, with fewer nodes where some were released."""
        if not partial:
            return msgspec.structs.replace(record, committed=True)
        cost = total([await find_facts(self._context, claim) for claim in kept])
        return msgspec.structs.replace(record, committed=True, candidates=len(kept), cost_before=cost)

    async def _commit(self, claims: list[NodeClaim], record: CommandRecord) -> None:
        async def commit(claim: NodeClaim) -> NodeClaim:
            return await self._write(claim, record) if taken_by(claim) is None else claim

        claims = await for_each(commit, claims)
        self._context.metrics.count(
            "dovetail_disruption_saving_dollars_per_hour_total",
            max(0.0, record.cost_before - record.cost_after),
            nodepool=claims[0].nodepool_name,
            reason=record.reason,
        )
        await self._delete(claims, record)

    async def _delete(self, claims: list[NodeClaim], record: CommandRecord) -> None:
        async def delete(claim: NodeClaim) -> None:
            await self._context.delete_claim(claim)
            known = self._context.state.claims.items.get(claim.key)
            if known is not None and not known.deleting:
                self._deleted.add(known.metadata.uid)
            self.failed.pop((claim.nodepool_name, record.reason), None)
            tell_going(self._context, claim, record)

        await for_each(delete, claims)

    async def _take_back(self, state: CommandState, why: str, *, failed: bool) -> None:
        """Roll a command back whose replacements are ready: those that no pod uses yet go as well.

        The pool is left alone for a while: the planner may not see yet what kept the node, and would buy again.
        """
        ready = [claim for claim in state.replacements if not claim.deleting and claim not in abandoned(state)]
        unused = await for_each(self._commit_check.is_unused, ready)
        for claim in (claim for claim, is_unused in zip(ready, unused, strict=True) if is_unused):
            self._context.endings[claim.metadata.uid] = "rolled_back"
            await self._context.delete_claim(claim)
        await self._roll_back(state, why, failed=failed)

    def _forget(self, command: str) -> bool:
        """Whether this process planned the command; it needs nothing of that any more."""
        self._planned_pods.pop(command, None)
        return self._planned.pop(command, None) is not None

    async def _roll_back(self, state: CommandState, why: str, *, failed: bool = True) -> None:
        """Take everything back; the record goes last, so that an interrupted roll-back is taken up again."""
        if state.record.id not in self._ended:
            self._ended.add(state.record.id)
            self._note_failure(state, why, failed=failed)
        for claim in abandoned(state):
            self._context.endings[claim.metadata.uid] = "rolled_back"
            if failed:
                await note_given_up(self._context, claim, why)
            await self._context.delete_claim(claim)
        await release(self._context, [claim for claim in state.candidates if not claim.deleting])

    def _note_failure(self, state: CommandState, why: str, *, failed: bool) -> None:
        """Say what became of it, once, however often taking it back has to be tried."""
        log.warning("rolling back", extra={"command": state.record.id, "why": why})
        for pool in {claim.nodepool_name for claim in state.candidates} if failed else ():
            slot = (pool, state.record.reason)
            self.failed[slot] = after_failure(self.failed.get(slot), self._context.clock.now())
        self._forget(state.record.id)
        unready = [claim for claim in state.replacements if not claim.has(INITIALIZED)]
        count_failed(self._context.metrics, state.record, len(unready))
        self._context.metrics.count(
            "dovetail_commands_ended_total", reason=state.record.reason, outcome=DecisionOutcome.ROLLED_BACK
        )
        self._context.ledger.close(state.record.id, self._ending(DecisionOutcome.ROLLED_BACK, why))

    async def tidy(self) -> None:
        """Take away the marks of no command at all: an earlier life, or another program, left them behind."""
        state = self._context.state
        tainted = [state.nodes.items[Key("", name)] for name in sorted(self._tainted)]
        marked = {claim.key: claim for node in tainted for claim in state.claims_of(node)}
        marked.update((key, claim) for key, claim in self._concerned.items() if claim.has(DISRUPTION_REASON))
        for claim in marked.values():
            nodes = state.nodes_of(claim)
            leaving = claim.deleting or any(node.deleting for node in nodes)
            if not leaving and RECORD_ANNOTATION not in claim.metadata.annotations and self._context.manages(claim):
                log.info("marks of no command removed", extra={"nodeclaim": claim.name})
                await release(self._context, [claim])


def _is_concerned(claim: NodeClaim) -> bool:
    return names_a_command(claim) or claim.has(DISRUPTION_REASON)
