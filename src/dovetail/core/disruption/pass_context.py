"""When a pass over an unchanged cluster could come out differently: the next instant at which a clock runs out.

Waits of nodes, protection of pods, windows of budgets, back-off of pools. Until then, and while nothing changes, there
is nothing new to find. What moves by itself without an instant (a cost that shrinks with the lifetime left) is not told
here, so whoever relies on this looks again now and then all the same.

What every method is handed: the snapshot, what budgets still allow, and simulations made once and shared.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec

from dovetail.core.disruption.budgets import BudgetAllowance, NodeCounts, allowance, budget_refusal, count_nodes
from dovetail.core.disruption.candidates import Candidate, CandidateCache, find_candidates, node_price
from dovetail.core.disruption.delays import (
    consolidation_wait,
    consolidation_window,
    drift_wait,
    emptiness_wait,
    expiration_wait,
    grace_wait,
    has_grace,
)
from dovetail.core.disruption.drift import Loops, find_loops
from dovetail.core.disruption.simulation_cache import SimulationCache, SimulationInputs
from dovetail.core.failure import attempt
from dovetail.core.provisioning.eligible_pods import displaced_pods, provisionable_pods
from dovetail.core.provisioning.launch_backoff import Backoffs, in_force
from dovetail.core.scheduling.existing_nodes import still_standing
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.wording import message
from dovetail.model.budget import unreadable_budget
from dovetail.model.cached import lazy
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import protection
from dovetail.model.instants import subtract
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, nodepool_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.settings import DecisionOptions

WAITS = (consolidation_wait, emptiness_wait, grace_wait, expiration_wait, drift_wait)


def next_turn(snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime]) -> datetime | None:
    """The first instant after the snapshot's at which something lifts or begins by itself; None if nothing does."""
    now = snapshot.at
    instants: list[datetime] = [until for until in backing_off.values() if until > now]
    instants.extend(backoff.until for backoff in in_force(snapshot).values())
    for pool in snapshot.nodepools.values():
        instants.extend(_edges(pool, now))
        paused = snapshot.pause_of(pool.name)
        if paused is not None and paused.until is not None:
            instants.append(paused.until)
    for node in snapshot.nodes:
        own = snapshot.nodepools.get(node.nodepool_name)
        if own is not None and node.claim is not None:
            instants.extend(_lifts(node, node.claim, own, now))
    return min(instants, default=None)


def _edges(pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When a budget's window opens or closes."""
    for budget in pool.budgets:
        edge = budget.closes_at(now) or budget.opens_at(now)
        if edge is not None:
            yield edge


def _lifts(node: ClusterNode, claim: NodeClaim, pool: NodePool, now: datetime) -> Iterator[datetime]:
    """When one of a node's waits is over, or one of its pods is no longer protected."""
    for wait in WAITS:
        until = wait(pool, claim, now).until
        if until is not None:
            yield until
    for pod in node.pods:
        if pod.metadata.annotations:
            protected = protection(pod, now)
            if protected.active and protected.until is not None:
                yield protected.until


@dataclass
class PassContext:
    """One pass over one snapshot."""

    snapshot: Snapshot
    options: DecisionOptions = field(default_factory=DecisionOptions)
    backing_off: Mapping[tuple[str, Reason], datetime] = field(default_factory=dict)
    """Until when a pool is left alone for a reason, because its last commands failed."""
    simulations: SimulationCache = field(default_factory=SimulationCache)
    """Those of earlier passes, to go on from."""
    consolidation_refusals: dict[str, Refusal | None] = field(default_factory=dict)
    """What consolidation has against each candidate: the same for several nodes and for one."""
    _counts: dict[str, NodeCounts] = field(default_factory=dict)
    _allowances: dict[tuple[str, Reason], BudgetAllowance] = field(default_factory=dict)
    _sweeps: dict[bool, RemovalSimulation] = field(default_factory=dict)
    _candidates: dict[bool, tuple[list[Candidate], list[Refusal]]] = field(default_factory=dict)

    @property
    def book(self) -> CandidateCache:
        """What is known of the nodes of this snapshot."""
        self.simulations.facts.turn_to(self.snapshot)
        return self.simulations.facts

    def over(self, snapshot: Snapshot) -> "PassContext":
        """The same pass over another snapshot."""
        return PassContext(snapshot, self.options, self.backing_off, self.simulations)

    @lazy
    def wakeup_at(self) -> datetime | None:
        """When a pass over the same cluster could come out differently; None if nothing is due by itself."""
        return next_turn(self.snapshot, self.backing_off)

    def allowance(self, pool: str, reason: Reason) -> BudgetAllowance:
        """What a pool can still spend on a reason before this pass does anything."""
        if (pool, reason) not in self._allowances:
            self._allowances[pool, reason] = self._allow(pool, reason)
        return self._allowances[pool, reason]

    def _allow(self, pool: str, reason: Reason) -> BudgetAllowance:
        found, counts = self.snapshot.nodepools[pool], self.counts(pool)
        allowed = attempt(nodepool_ref(pool), partial(allowance, found, reason, counts, self.snapshot.at))
        if isinstance(allowed, Refusal):
            return BudgetAllowance(limit=0, disrupting=counts.disrupting, bound_by=unreadable_budget(message(allowed)))
        return allowed

    def back_off_refusal(self, pool: str, reason: Reason) -> Refusal | None:
        """Why a pool is left alone after commands that failed, or None."""
        until = self.backing_off.get((pool, reason))
        if until is None or self.snapshot.at >= until:
            return None
        return Refusal(RefusalCode.BACKING_OFF, nodepool_ref(pool), until, nodepool=pool)

    def counts(self, pool: str) -> NodeCounts:
        """The nodes of a pool as its budgets count them."""
        if pool not in self._counts:
            self._counts[pool] = count_nodes(self.snapshot.nodes_by_pool.get(pool, ()))
        return self._counts[pool]

    def candidates(self, *, eventual: bool) -> tuple[list[Candidate], list[Refusal]]:
        """Every managed node as a candidate or a refusal; made once for methods of one class."""
        eventual = eventual and self._bounded_drains
        if eventual not in self._candidates:
            self._candidates[eventual] = find_candidates(
                self.snapshot, self.snapshot.nodes, eventual=eventual, book=self.book
            )
        return self._candidates[eventual]

    def candidates_among(self, names: Collection[str], *, eventual: bool) -> list[Candidate]:
        """Those of some nodes that are candidates."""
        nodes = [node for node in self.snapshot.nodes if node.name in names]
        return find_candidates(self.snapshot, nodes, eventual=eventual, book=self.book)[0]

    def budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The PodDisruptionBudgets that select a pod."""
        return [self.snapshot.pdbs[position] for position in self.book.guards(pod)]

    @lazy
    def pending_evictions_by_pdb(self) -> Mapping[int, int]:
        """How many pods each budget, by position, has yet to let go of on nodes that are drained or soon will be."""
        book = self.book
        going = (node for node in self.snapshot.nodes if still_standing(node) or node.record is not None)
        return Counter(budget for node in going for _, budgets in book.of(node).guarded for budget in budgets)

    @lazy
    def _bounded_drains(self) -> bool:
        """Whether any claim bounds its own drain; if none does, the classes are the same."""
        for node in self.snapshot.nodes:
            claim = node.claim
            if claim is not None and claim.spec.termination_grace_period is not None:
                return True
        return False

    def pool_cost(self, pool: str) -> float:
        """What the nodes of a pool cost an hour together."""
        types = self.snapshot.types_by_pool.get(pool, {})
        nodes = self.snapshot.nodes_by_pool.get(pool, ())
        return sum(node_price(node, types.get(node.labels.get(INSTANCE_TYPE, ""))) for node in nodes)

    def budget_tracker(self, reason: Reason) -> "BudgetTracker":
        """Budgets to spend from, for one method."""
        return BudgetTracker(self, reason)

    def removal_simulation(self, *, consolidating: bool) -> RemovalSimulation:
        """The simulation: with consolidation, nodes inside their own windows take nobody."""
        if consolidating not in self._sweeps:
            closed = self._unready | (self._recently_active_nodes if consolidating else frozenset())
            view = SimulationInputs(self.snapshot, closed, self.waiting, self.options.respect_preferences)
            self._sweeps[consolidating] = self.simulations.removal_simulation(view, consolidating=consolidating)
        return self._sweeps[consolidating]

    @lazy
    def waiting(self) -> list[Pod]:
        """Pods that need a place already, whatever is disrupted."""
        waiting, _ = provisionable_pods(self.snapshot)
        return [*waiting, *displaced_pods(self.snapshot)]

    def expects_pods(self, name: str) -> bool:
        """Whether pods that need a place already would find it on this node."""
        return bool(self.waiting) and name in self.removal_simulation(consolidating=True).expecting

    @property
    def quick_reject(self) -> frozenset[Key]:
        """Pods that need a place already and find none: a node is bought for them."""
        return self.removal_simulation(consolidating=True).quick_reject if self.waiting else frozenset()

    @lazy
    def launch_backoffs(self) -> Backoffs:
        """Kinds of pods for which a NodePool launches nothing now."""
        return in_force(self.snapshot)

    @lazy
    def drift_loops(self) -> Loops:
        """Drift that replacing nodes does not end."""
        return find_loops(self.snapshot)

    @lazy
    def unfinished_replacements(self) -> tuple[ClusterNode, ...]:
        """Nodes launched to replace others by a command that has ended, and that have not initialized."""
        return tuple(
            node
            for node in self.snapshot.nodes
            if node.replaces
            and not node.initialized
            and not node.deleting
            and node.replaces not in self.snapshot.running_commands
        )

    @lazy
    def _unready(self) -> frozenset[str]:
        """A node that is not ready yet is nothing to rely on. One without a claim always is."""
        return frozenset([node.name for node in self.snapshot.nodes if not node.initialized])

    @lazy
    def _recently_active_nodes(self) -> frozenset[str]:
        """Nodes that consolidation leaves alone for now because something happened on them."""
        restless: list[str] = []
        for pool in self.snapshot.nodepools.values():
            window, graced = consolidation_window(pool), has_grace(pool)
            began = subtract(self.snapshot.at, window)
            for node in self.snapshot.nodes_by_pool.get(pool.name, ()) if window or graced else ():
                since = node.quiet_since
                if graced if since is None else since > began:  # grace does not end before it has begun
                    restless.append(node.name)
        return frozenset(restless)


class BudgetTracker:
    """What is left of each pool's budget while a method takes nodes one by one."""

    def __init__(self, context: PassContext, reason: Reason) -> None:
        self._context = context
        self._reason = reason
        self._spent: dict[str, int] = {}
        self._against: dict[str, Refusal | None] = {}

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """Why one more node of the candidate's pool may not go, or None."""
        pool = candidate.pool.name
        if pool not in self._against:
            self._against[pool] = self._weigh(pool)
        found = self._against[pool]
        return msgspec.structs.replace(found, object=candidate.ref) if found is not None else None

    def _weigh(self, pool: str) -> Refusal | None:
        """What is against one more node of a pool, whichever it is."""
        backing_off = self._context.back_off_refusal(pool, self._reason)
        allowed, ahead = self._context.allowance(pool, self._reason), self._spent.get(pool, 0)
        if backing_off is not None or allowed.permits(ahead + 1):
            return backing_off
        return budget_refusal(nodepool_ref(pool), self._reason, allowed, self._context.snapshot.at, ahead)

    def spend(self, candidate: Candidate) -> None:
        """One more node of this pool goes."""
        pool = candidate.pool.name
        self._spent[pool] = self._spent.get(pool, 0) + 1
        self._against.pop(pool, None)

    def take(self, candidate: Candidate) -> Refusal | None:
        """Spend on a candidate if the budget allows it; otherwise say why not."""
        refusal = self.refusal(candidate)
        if refusal is None:
            self.spend(candidate)
        return refusal
