"""Whether a command that was decided a moment ago still holds on a fresh snapshot.

Consolidation waits a little before it acts, so that a cluster in motion is not disrupted on yesterday's news. Emptiness
goes on with the nodes that still qualify. So does a set of nodes that needs no replacement, while it is a set: that a
pod came to one of a hundred nodes is no reason to keep the others. What has replacements is all or nothing.

Whether each node of a command may still be disrupted, asked once more right before its NodeClaim is deleted.

Minutes pass between the decision and the deletion while replacements start, and the caches may have been behind when it
was made. The caller reads the candidates' nodes, pods, PodDisruptionBudgets and NodePools from the API server and asks
here. Deletion is the point of no return: a node that somebody protected, a budget that closed, drift that was reverted
or a pod that was not there when the command was planned keeps the node.
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
    stands,
)
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.command_progress import overdue
from dovetail.core.disruption.drain_deadlock import stall_refusal
from dovetail.core.disruption.in_flight import crowded, look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
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
"""The reasons whose commands are looked at twice."""
SMALLEST_SET = 2
"""Nodes that a set is left with if it goes on without some; fewer are for another method to look at."""


def revalidate(command: Command, context: PassContext, before: Collection[Command] = ()) -> Command | Refusal:
    """The command as it stands now beside those `before` it, which were just started, or why it no longer does."""
    look = look_ahead(context, before)
    checked = _looked_at(command, look)
    if isinstance(checked, Refusal) or _sees_to_its_own(checked, look):
        return checked
    if crowded(look_ahead(context, (*before, checked)), look):
        return _gone(command, RefusalCode.SIMULATION_CHANGED, "once it is under way a pod is left without a place")
    return checked


def _sees_to_its_own(command: Command, context: PassContext) -> bool:
    """Whether its pods are the only ones that need a place, and have been given one without a word from any rule."""
    if context.waiting or command.replacements:
        return False
    if command.reason == Reason.EMPTY:
        return True
    removal_simulation = context.removal_simulation(consolidating=True)
    return all(removal_simulation.unruled(removal_simulation.row(each.name)) for each in command.candidates)


def _looked_at(command: Command, context: PassContext) -> Command | Refusal:
    method = next(each for each in METHODS if each.name == command.method)
    survivors = _survivors(command, method, context)
    if command.reason == Reason.EMPTY:
        allowed = _within_budget(survivors, method, context)
        if allowed:
            return Command(command.method, command.reason, tuple(allowed))
        return _gone(command, RefusalCode.CANDIDATES_CHANGED, "no candidate is empty any more")
    allowed = _within_budget(survivors, method, context)
    if len(allowed) == len(command.candidates):
        return _simulated_again(command, allowed, context)
    if not command.replacements and len(allowed) >= SMALLEST_SET:
        smaller = _simulated_again(command, allowed, context)
        if isinstance(smaller, Command) and approves(smaller, context):
            return smaller
    if len(survivors) != len(command.candidates):
        return _gone(command, RefusalCode.CANDIDATES_CHANGED, "a candidate is no longer eligible")
    return _gone(command, RefusalCode.BUDGETS_CHANGED, "it no longer allows all candidates")


def _survivors(command: Command, method: Method, context: PassContext) -> list[Candidate]:
    names = {each.name for each in command.candidates}
    fresh = context.candidates_among(names, eventual=method.eventual)
    wanted = (each for each in fresh if method.refusal(each, context) is None)
    return [each for each in wanted if expecting(method, each, context) is None]


def _within_budget(survivors: list[Candidate], method: Method, context: PassContext) -> list[Candidate]:
    budget_tracker = context.budget_tracker(method.reason)
    return [each for each in survivors if budget_tracker.take(each) is None]


def _simulated_again(command: Command, survivors: list[Candidate], context: PassContext) -> Command | Refusal:
    removal_simulation = context.removal_simulation(consolidating=True)
    ceiling = price_ceiling(survivors)
    bounds = Bounds(below=ceiling, most_drafts=int(ceiling > 0))
    outcome = removal_simulation.remove_together([removal_simulation.row(each.name) for each in survivors], bounds)
    if outcome.blocker is not None or len(outcome.drafts) != len(command.replacements):
        return _gone(command, RefusalCode.SIMULATION_CHANGED, "the simulation produced new results")
    for planned, fresh in zip(command.replacements, outcome.drafts, strict=True):
        if not planned.type_names <= fresh.type_names:
            return _gone(command, RefusalCode.SIMULATION_CHANGED, "the replacement could be something else by now")
    hindrance = stall_refusal(survivors, context, len(command.replacements)) or replacement_refusal(
        survivors, command.replacements, bounds, context, consolidating=True
    )
    if hindrance is not None:
        return Refusal(RefusalCode.SIMULATION_CHANGED, command.candidates[0].ref, cause=hindrance)
    return Command(command.method, command.reason, tuple(survivors), command.replacements)


def _gone(command: Command, code: RefusalCode, why: str) -> Refusal:
    return Refusal(code, command.candidates[0].ref, detail=why)


_PASSING = frozenset({RefusalCode.POD_DISRUPTION_BUDGET, RefusalCode.BUDGET})
"""Obstacles that usually pass by themselves."""


def find_obstacles(
    state: CommandState, context: PassContext, planned_pods: Collection[str] | None = None
) -> dict[str, Refusal]:
    """What keeps candidates of a command, by the name of their NodeClaim; empty when all of them may go.

    `planned_pods` are the uids of the pods the command was planned with, where this process planned it.
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
    """The candidates of which nobody can say what runs there: two NodeClaims for one instance count as none."""
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
        return None  # the NodePool was deleted: its nodes go whatever the command does
    method = next((each for each in METHODS if each.name == record.method), None)
    bound = node.claim.spec.termination_grace_period if node.claim is not None else None
    bounded = method is not None and method.eventual and bound is not None
    blocks = [each for each in pod_blocks(node, context.snapshot) if stands(each, bounded=bounded)]
    if blocks or method is None:
        return blocks[0] if blocks else None
    return _no_longer_wanted(node, context, method, record)


def _no_longer_wanted(node: ClusterNode, context: PassContext, method: Method, record: CommandRecord) -> Refusal | None:
    """What the method itself has against the node by now.

    Consolidation that waits for a replacement does not start its quiet period over because a pod finished meanwhile,
    and a node that became empty may go with the others.
    """
    ignored = {RefusalCode.EMPTY}
    if record.replacements and method.gives_way:
        ignored.add(RefusalCode.WAITING)
    refusals = method.refusals(build_candidate(node, context.snapshot), context)
    return next((each for each in refusals if each.code not in ignored), None)


def _unplanned_pod(node: ClusterNode, planned: Collection[str] | None) -> Refusal | None:
    """A pod the drain would evict and the command was not planned with. The disruption taint keeps others away."""
    for pod in node.pods if planned is not None else ():
        if pod.reschedulable and not tolerates_disruption(pod) and pod.metadata.uid not in (planned or ()):
            return Refusal(RefusalCode.UNPLANNED_POD, node_ref(node.name), pod=pod.key)
    return None


class _BudgetCheck:
    """Counts the candidates of one command against their NodePools' budgets, beside everything else that is under way.

    Uncommitted commands that started later do not count: where a budget was lowered, the earlier command goes first.
    """

    def __init__(self, record: CommandRecord, claims: Collection[str], snapshot: Snapshot) -> None:
        self._record = record
        self._claims = claims
        self._snapshot = snapshot
        self._taken: Counter[str] = Counter()
        self._counts: dict[str, NodeCounts] = {}

    def take(self, node: ClusterNode) -> Refusal | None:
        """Count one more candidate, or say which budget does not allow it."""
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
        """The nodes of a pool as its budgets count them, this command's own left out of those under way."""
        if pool.name not in self._counts:
            counted = [node for node in self._snapshot.nodes_by_pool.get(pool.name, ()) if node.counted]
            busy = [node for node in counted if node.busy and not self._yields(node)]
            self._counts[pool.name] = NodeCounts(total=len(counted), disrupting=len(busy))
        return self._counts[pool.name]

    def _yields(self, node: ClusterNode) -> bool:
        """Whether a node is this command's own, or one of a command that started later and may still be taken back."""
        if node.claim is not None and node.claim.name in self._claims:
            return True
        record = node.record
        if record is None or record.committed or node.deleting:
            return False
        return (record.started_at, record.id) > (self._record.started_at, self._record.id)


def worth_waiting(state: CommandState, obstacles: Mapping[str, Refusal], now: datetime) -> bool:
    """Whether a command with replacements waits: PDBs and budgets are in use by what else is under way.

    Taking it back would delete what was bought for it, only to buy it again. It waits no longer than for replacements.
    """
    passing = all(each.code in _PASSING and not each.permanent for each in obstacles.values())
    return bool(obstacles) and state.record.replacements > 0 and passing and not overdue(state.record, now)


def describe(obstacles: Mapping[str, Refusal]) -> str:
    """Why a command is taken back, in one line."""
    first, *others = (f"{each.object.key}: {message(each)}" for each in obstacles.values())
    return first + (f" (and {len(others)} more)" if others else "")
