"""Validates a command twice: before it starts, and right before its NodeClaims are deleted.

`revalidate` checks a consolidation command on a fresh snapshot, 15 seconds after it was planned, so that consolidation
does not act while the cluster changes. Emptiness continues with the nodes that are still eligible. So does a command
without replacements while at least `SMALLEST_SET` nodes remain: a new pod on one of a hundred nodes does not keep the
others. A command with replacements is all or nothing.

`find_obstacles` checks each node once more before the deletion, which cannot be undone. Minutes pass while replacements
start, and caches may have been stale when the command was planned; the caller therefore reads the candidates' nodes,
pods, PodDisruptionBudgets and NodePools from the API server. A node stays if it was protected meanwhile, a budget
closed, its drift was reverted, or a pod runs there that the command was not planned with.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from dovetail.core.disruption.balanced_policy import approves
from dovetail.core.disruption.budgets import NodeCounts, allowance, budget_refusal
from dovetail.core.disruption.candidates import (
    Candidate,
    build_candidate,
    is_protected,
    pod_blocks,
    price_ceiling,
    still_blocks,
)
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.command_progress import overdue
from dovetail.core.disruption.drain_deadlock import stall_refusal
from dovetail.core.disruption.in_flight import crowded, look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
from dovetail.core.disruption.restraint import savings_refusal
from dovetail.core.failure import attempt
from dovetail.core.pdbs import tolerates_disruption
from dovetail.core.scheduling.removal import Bounds
from dovetail.core.wording import message
from dovetail.model.command import CommandRecord, CommandState
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, node_ref, nodepool_ref
from dovetail.model.snapshot import ClusterNode, Snapshot

VALIDATED = frozenset({Reason.EMPTY, Reason.UNDERUTILIZED})
"""The reasons whose commands are validated before they start."""
SMALLEST_SET = 2
"""The fewest nodes a multi-node command continues with if others drop out; one node is left to single-node."""


def revalidate(command: Command, context: PassContext, before: Collection[Command] = ()) -> Command | Refusal:
    """The command as far as it is still valid after the commands in `before` have started, or why it is not."""
    ahead = look_ahead(context, before)
    checked = _recheck(command, ahead)
    if isinstance(checked, Refusal) or _affects_only_its_pods(checked, ahead):
        return checked
    if crowded(look_ahead(context, (*before, checked)), ahead):
        return _invalid(command, RefusalCode.SIMULATION_CHANGED, "with this command a pod could not be scheduled")
    return checked


def _affects_only_its_pods(command: Command, context: PassContext) -> bool:
    """Whether no other pod waits for a node, and no topology rule decides where the pods of the command run."""
    if context.waiting or command.replacements:
        return False
    if command.reason == Reason.EMPTY:
        return True
    removal_simulation = context.removal_simulation(consolidating=True)
    return all(removal_simulation.has_only_plain_pods(removal_simulation.row(each.name)) for each in command.candidates)


def _recheck(command: Command, context: PassContext) -> Command | Refusal:
    """Check candidates, budgets and the simulation again."""
    method = next(each for each in METHODS if each.name == command.method)
    eligible = _still_eligible(command, method, context)
    budget_tracker = context.budget_tracker(method.reason)
    allowed = [each for each in eligible if budget_tracker.take(each) is None]
    if command.reason == Reason.EMPTY:
        if allowed:
            return Command(command.method, command.reason, tuple(allowed))
        return _invalid(command, RefusalCode.CANDIDATES_CHANGED, "no candidate is empty any more")
    if len(allowed) == len(command.candidates):
        return _simulate_again(command, allowed, context)
    if not command.replacements and len(allowed) >= SMALLEST_SET:
        smaller = _simulate_again(command, allowed, context)
        if isinstance(smaller, Command) and approves(smaller, context):
            return smaller
    if len(eligible) != len(command.candidates):
        return _invalid(command, RefusalCode.CANDIDATES_CHANGED, "a candidate is no longer eligible")
    return _invalid(command, RefusalCode.BUDGETS_CHANGED, "it no longer allows all candidates")


def _still_eligible(command: Command, method: Method, context: PassContext) -> list[Candidate]:
    names = {each.name for each in command.candidates}
    fresh = context.candidates_among(names, eventual=method.eventual)
    eligible = (each for each in fresh if method.refusal(each, context) is None)
    return [each for each in eligible if expecting(method, each, context) is None]


def _simulate_again(command: Command, candidates: list[Candidate], context: PassContext) -> Command | Refusal:
    """The command for these candidates, if its planned replacements are still among what the simulation allows."""
    removal_simulation = context.removal_simulation(consolidating=True)
    ceiling = price_ceiling(candidates)
    bounds = Bounds(below=ceiling, max_drafts=int(ceiling > 0))
    outcome = removal_simulation.remove_together([removal_simulation.row(each.name) for each in candidates], bounds)
    if outcome.blocker is not None or len(outcome.drafts) != len(command.replacements):
        return _invalid(command, RefusalCode.SIMULATION_CHANGED, "the simulation produced new results")
    for planned, fresh in zip(command.replacements, outcome.drafts, strict=True):
        if not planned.type_names <= fresh.type_names:
            return _invalid(command, RefusalCode.SIMULATION_CHANGED, "a planned instance type no longer fits")
    refusal = stall_refusal(candidates, context, len(command.replacements)) or replacement_refusal(
        candidates, command.replacements, bounds, context, consolidating=True
    )
    found = Command(command.method, command.reason, tuple(candidates), command.replacements)
    refusal = refusal or savings_refusal(candidates, found.saving, context)
    if refusal is not None:
        return Refusal(RefusalCode.SIMULATION_CHANGED, command.candidates[0].ref, cause=refusal)
    return found


def _invalid(command: Command, code: RefusalCode, why: str) -> Refusal:
    return Refusal(code, command.candidates[0].ref, detail=why)


_TRANSIENT = frozenset({RefusalCode.POD_DISRUPTION_BUDGET, RefusalCode.BUDGET})
"""Obstacles that usually end by themselves."""


def find_obstacles(
    state: CommandState, context: PassContext, planned_pods: Collection[str] | None = None
) -> dict[str, Refusal]:
    """Why candidates of a command may not be deleted, by NodeClaim name; empty if all may be.

    `planned_pods` are the uids of the pods that the command was planned with; None if another process planned it.
    """
    claims = {claim.name for claim in state.candidates}
    nodes = [node for node in context.snapshot.nodes if node.claim is not None and node.claim.name in claims]
    if state.record.replacements and state.record.reason == Reason.UNDERUTILIZED and not any(map(_has_pods, nodes)):
        names = {claim.name: claim.status.node_name for claim in state.candidates}
        id_ = state.record.id
        return {name: Refusal(RefusalCode.EMPTY, node_ref(node), command=id_) for name, node in names.items()}
    found = _without_node(state, nodes)
    budget = _BudgetCheck(state.record, claims, context.snapshot)
    for node in nodes:
        assert node.claim is not None
        refusal = attempt(node_ref(node.name), partial(_node_obstacle, node, context, state.record))
        refusal = refusal or _unplanned_pod(node, planned_pods) or budget.take(node)
        if refusal is not None:
            found[node.claim.name] = refusal
    return found


def _without_node(state: CommandState, nodes: Collection[ClusterNode]) -> dict[str, Refusal]:
    """Candidates whose pods are unknown: the node is missing, or two NodeClaims share one provider ID."""
    known = {node.claim.name for node in nodes if node.claim is not None}
    names = (claim.name for claim in state.candidates if claim.name not in known)
    code = RefusalCode.NODE_MISSING
    return {name: Refusal(code, ObjectRef("nodeclaim", name), permanent=True) for name in names}


def _has_pods(node: ClusterNode) -> bool:
    return any(pod.reschedulable for pod in node.pods)


def _node_obstacle(node: ClusterNode, context: PassContext, record: CommandRecord) -> Refusal | None:
    about = node_ref(node.name)
    if is_protected(node):
        return Refusal(RefusalCode.DO_NOT_DISRUPT_NODE, about, permanent=True)
    snapshot = context.snapshot
    bad = snapshot.unread_on(node) or snapshot.unread.everywhere or snapshot.unread.pools.get(node.nodepool_name)
    if bad is not None:
        return Refusal(RefusalCode.UNREADABLE, about, permanent=True, detail=str(bad))
    if node.nodepool_name not in context.snapshot.nodepools:
        return None  # the NodePool was deleted, and its nodes with it
    method = next((each for each in METHODS if each.name == record.method), None)
    grace_period = node.claim.spec.termination_grace_period if node.claim is not None else None
    bounded = method is not None and method.eventual and grace_period is not None
    blocks = [each for each in pod_blocks(node, context.snapshot) if still_blocks(each, bounded=bounded)]
    if blocks or method is None:
        return blocks[0] if blocks else None
    return _method_obstacle(node, context, method, record)


def _method_obstacle(node: ClusterNode, context: PassContext, method: Method, record: CommandRecord) -> Refusal | None:
    """Why the method would no longer choose the node.

    A pod that finished while consolidation waited for a replacement does not restart consolidateAfter, and a node that
    became empty is deleted with the others.
    """
    ignored = {RefusalCode.EMPTY}
    if record.replacements and method.gives_way:
        ignored.add(RefusalCode.WAITING)
    refusals = method.refusals(build_candidate(node, context.snapshot), context)
    return next((each for each in refusals if each.code not in ignored), None)


def _unplanned_pod(node: ClusterNode, planned: Collection[str] | None) -> Refusal | None:
    """A pod that the drain would evict but the command was not planned with: it was bound before the taint was set."""
    for pod in node.pods if planned is not None else ():
        if pod.reschedulable and not tolerates_disruption(pod) and pod.metadata.uid not in (planned or ()):
            return Refusal(RefusalCode.UNPLANNED_POD, node_ref(node.name), pod=pod.key)
    return None


class _BudgetCheck:
    """Counts the candidates of one command against the budgets of their NodePools, beside all other disruptions.

    Uncommitted commands that started later do not count: if a budget was lowered, the earlier command has priority.
    """

    def __init__(self, record: CommandRecord, claims: Collection[str], snapshot: Snapshot) -> None:
        self._record = record
        self._claims = claims
        self._snapshot = snapshot
        self._taken: Counter[str] = Counter()
        self._counts: dict[str, NodeCounts] = {}

    def take(self, node: ClusterNode) -> Refusal | None:
        """Count one more candidate, or return the budget that does not allow it."""
        pool = self._snapshot.nodepools.get(node.nodepool_name)
        if pool is None:
            return None
        counts = self._others(pool)
        counts = replace(counts, disrupting=counts.disrupting + self._taken[pool.name])
        allowed = allowance(pool, self._record.reason, counts, self._snapshot.at)
        if allowed.permits():
            self._taken[pool.name] += 1
            return None
        refusal = budget_refusal(nodepool_ref(pool.name), self._record.reason, allowed, self._snapshot.at)
        # A budget of zero is not waited for, even if its window closes: see `worth_waiting`.
        lasting = {"until": None, "permanent": allowed.limit == 0}
        return msgspec.structs.replace(refusal, object=node_ref(node.name), command=self._record.id, **lasting)

    def _others(self, pool: NodePool) -> NodeCounts:
        """The nodes of a NodePool as its budgets count them; those that `_is_ignored` are not counted as disrupting."""
        if pool.name not in self._counts:
            counted = [node for node in self._snapshot.nodes_by_pool.get(pool.name, ()) if node.counted]
            busy = [node for node in counted if node.busy and not self._is_ignored(node)]
            self._counts[pool.name] = NodeCounts(total=len(counted), disrupting=len(busy))
        return self._counts[pool.name]

    def _is_ignored(self, node: ClusterNode) -> bool:
        """Whether the node belongs to this command, or to a later one that can still be rolled back."""
        if node.claim is not None and node.claim.name in self._claims:
            return True
        record = node.record
        if record is None or record.committed or node.deleting:
            return False
        return (record.started_at, record.id) > (self._record.started_at, self._record.id)


def worth_waiting(state: CommandState, obstacles: Mapping[str, Refusal], now: datetime) -> bool:
    """Whether a command with replacements waits for its obstacles: PDBs and budgets that other disruptions use up.

    A rollback would delete the replacements, only to launch them again. The wait ends with the command's timeout.
    """
    transient = all(each.code in _TRANSIENT and not each.permanent for each in obstacles.values())
    return bool(obstacles) and state.record.replacements > 0 and transient and not overdue(state.record, now)


def describe(obstacles: Mapping[str, Refusal]) -> str:
    """Why a command is rolled back, in one line."""
    first, *others = (f"{each.object.key}: {message(each)}" for each in obstacles.values())
    return first + (f" (and {len(others)} more)" if others else "")
